"""The command that runs cells on a model, in virtual time."""

# ruff: noqa: PLC0415  a command imports its parts only when it runs

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from harness.cli.exits import CELLS_FAILED, EXIT_CODES, USAGE, Failure, one_line_errors, say
from harness.cli.options import settings_options
from harness.cli.results import reduce_and_draw


@click.command(epilog=EXIT_CODES, short_help="Run the cells on a model of the paper's hardware.")
@settings_options("cells", "quick")
@click.option(
    "--faults",
    is_flag=True,
    help="Run no cells but small scenarios in which parts fail, and check that no message is lost.",
)
@click.option(
    "--seeds",
    metavar="NUMBER",
    type=click.IntRange(1, 1_000_000),
    help="With --faults: how many scenarios, from --seed on (default 1000).",
)
@click.option(
    "--seed",
    metavar="NUMBER",
    help="Seed of every random choice in the model: same seed, same rows (default 1); with --faults and no "
    "--seeds: the one scenario to run.",
)
@click.option(
    "--hardware", metavar="NAME", help="The model's parameters: paper (default), this-machine or a TOML file."
)
@click.option(
    "--master", metavar="URL", help="Where Spark runs the cells: local[*] (default), local[N], spark://host:7077 ..."
)
@click.option("--settle", metavar="TIME", help="Virtual time before the measured window (default 500ms).")
@click.option("--measure", metavar="TIME", help="Virtual length of the measured window (default 1s).")
@settings_options("results")
@click.option(
    "--resume",
    metavar="DIR",
    type=click.Path(path_type=Path),
    help="Continue the run in this folder, with the same settings.",
)
def simulate(resume: Path | None, faults: bool, seeds: int | None, **options: Any) -> None:
    """Run the cells of the matrix in virtual time on a model of the paper's hardware, then reduce and draw.

    The embedded broker runs the scripts of sql/; processors, page latches, log, network and clients are modelled. The
    numbers are a model's, not SQL Server's. With a master other than local[*] the harness must be installed on the
    cluster, and the results folder must be the same folder everywhere.

    With --faults every seed is a small scenario: instances are killed and recovered; links are cut, slow down,
    duplicate and reorder; logs slow down; messages are poison; activation fails. Every message whose commit a client
    saw must arrive once, in order, with one reader per conversation group, and all queues must drain.

    \b
    Examples:
      harness simulate
      harness simulate --quick --seed 7
      harness simulate --cells 'i3-t50-*' --measure 5s --hardware my-servers.toml
      harness simulate --resume results/20260101-120000-simulated
      harness simulate --faults
      harness simulate --faults --seed 42
    """
    if faults:
        _simulate_faults(seeds, resume=resume, **options)
        return
    if seeds is not None:
        raise Failure("--seeds goes with --faults", USAGE)
    from harness import reporting
    from harness.reductions.spark_session import require_java
    from harness.simulation import simulated_run

    with one_line_errors():
        require_java()
        with reporting.on_console() as reporter:
            outcome = simulated_run.simulate(options, reporter, resume=resume)
        if outcome.completed:
            reduce_and_draw(outcome.results)
        say(f"results: {outcome.results}")
    if outcome.failed:
        raise Failure(
            f"{outcome.failed} of {outcome.total} cells failed; reasons in {outcome.results}/journal.jsonl",
            CELLS_FAILED,
        )


def _simulate_faults(seeds: int | None, *, seed: str | None, hardware: str | None, **others: Any) -> None:
    from harness import reporting
    from harness.simulation.faults import fault_run

    if given := [f"--{name}" for name, value in others.items() if value]:
        raise Failure(f"{given[0]} does not go with --faults; what does: --seeds, --seed, --hardware", USAGE)
    with one_line_errors(), reporting.on_console() as reporter:
        summary = fault_run.simulate_faults(seeds, seed, reporter, hardware=hardware)
    if summary.failed:
        raise Failure(
            f"{len(summary.failed)} of {summary.seeds} seeds failed; "
            f"again: {fault_run.command(summary.failed[0].seed, summary.hardware)}",
            CELLS_FAILED,
        )
