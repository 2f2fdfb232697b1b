"""Commands on the model, in virtual time: run cells or faults, fit free parameters, show what each parameter does."""

# ruff: noqa: PLC0415  a command imports its parts only when it runs

from __future__ import annotations

import csv as csv_module
import os
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

import harness
from harness.cli.conventions import MATRIX_OPTIONS, on_console, print_rows, require_all_completed, settings_options
from harness.cli.outcomes import CELLS_FAILED, PREFLIGHT, USAGE, Failure
from harness.cli.results import draw_and_show
from harness.definitions.units import counted
from harness.output.terminal import say

if TYPE_CHECKING:
    from harness.output.reporting import Reporter
    from harness.simulation.calibration import Bench, Measure, ReferenceNumbers
    from harness.simulation.parameters import Parameters


@click.command(short_help="Run the cells on a model of the paper's hardware.")
@settings_options(*MATRIX_OPTIONS, "repeats", "precision", "rate", "arrivals")
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
@settings_options("hardware", "master")
@click.option("--settle", metavar="TIME", help="Virtual time before the measured window (default 300ms).")
@click.option("--measure", metavar="TIME", help="Virtual length of the measured window (default 500ms).")
@settings_options("results", "resume")
def simulate(resume: Path | None, faults: bool, seeds: int | None, **options: Any) -> None:
    """Run the cells of a matrix in virtual time on a model of the paper's hardware, then reduce and draw.
    It is harness matrix --lab simulated under a name of its own.

    The embedded broker runs the scripts of sql/; processors, page latches, log, network and clients are modelled. The
    numbers are a model's, not SQL Server's. With the master of a cluster the harness and its packages travel with the
    job, and the results folder must be the same folder everywhere.

    With --faults every seed is a small scenario: instances are killed and recovered; links are cut, slow down,
    duplicate and reorder; disks fail; logs slow down; messages are poison; activation fails. Every message whose commit
    a client saw must arrive once, in order, with one reader per conversation group, and all queues must drain.

    \b
    Examples:
      harness simulate
      harness simulate --matrix quick --seed 7
      harness simulate --matrix trick
      harness simulate --initiators 2 --threads 10,80 --payloads 4000 --repeats 3
      harness simulate --cells 'i3-t50-*' --measure 5s --hardware my-servers.toml
      harness simulate --cells 'i1-t50-*-p100' --rate 500/s --arrivals poisson
      harness simulate --resume results/20260101-120000-simulated
      harness simulate --faults
      harness simulate --faults --seed 42
    """
    if faults:
        _simulate_faults(seeds, resume=resume, **options)
        return
    if seeds is not None:
        raise Failure("--seeds goes with --faults", USAGE)
    with on_console() as reporter:
        computed = harness.simulate(resume=resume, progress=reporter, **options)
        draw_and_show(computed, reporter)
    require_all_completed(computed)


def _simulate_faults(seeds: int | None, *, seed: str | None, hardware: str | None, **other_options: Any) -> None:
    from harness.simulation.faults import fault_run

    if misplaced := [f"--{name}" for name, value in other_options.items() if value]:
        raise Failure(f"{misplaced[0]} does not go with --faults; what does: --seeds, --seed, --hardware", USAGE)
    with on_console() as reporter:
        summary = fault_run.simulate_faults(seeds, seed, reporter, hardware=hardware)
    if summary.failed:
        raise Failure(
            f"{len(summary.failed)} of {counted(summary.seeds, 'seed')} failed; "
            f"again: {fault_run.command(summary.failed[0].seed, summary.hardware)}",
            CELLS_FAILED,
        )


@click.command(short_help="Fit the model's free parameters to the paper's numbers.")
@click.option(
    "--hardware", metavar="NAME", default="paper", help="The model's parameters to begin with (default paper)."
)
@click.option(
    "--like",
    metavar="RESULTS",
    type=click.Path(path_type=Path, file_okay=False),
    help="Fit to this measured run of one initiator instead, such as one of the embedded lab.",
)
@click.option("--seed", metavar="NUMBER", type=click.IntRange(0, 2**32 - 1), default=1, help="As harness simulate's.")
@click.option(
    "--write",
    metavar="FILE",
    type=click.Path(path_type=Path, dir_okay=False),
    help="Write a copy of the hardware file with the fitted values there.",
)
@click.option(
    "--sensitivity",
    is_flag=True,
    help="Instead move all parameters by up to 20 %, at random and at once, and show how much every claim changes.",
)
@click.option(
    "--parameter", "names", metavar="NAME", multiple=True, help="With --sensitivity: move only this one; repeatable."
)
@click.option(
    "--csv", metavar="FILE", type=click.Path(path_type=Path, dir_okay=False), help="Write the table there as well."
)
def calibrate(  # noqa: PLR0917
    hardware: str,
    like: Path | None,
    seed: int,
    write: Path | None,
    sensitivity: bool,
    names: tuple[str, ...],
    csv: Path | None,
) -> None:
    """Fit the free parameters of the model to four of the paper's numbers and one of ours, and predict the others.

    With --like the numbers are those of a measured run. This takes some minutes, with --sensitivity much longer, and
    it says how long. The results are a model's, not SQL Server's.

    \b
    Examples:
      harness calibrate
      harness calibrate --hardware my-servers.toml --write fitted.toml
      harness calibrate --hardware this-machine --like results/20260101-120000-embedded
      harness calibrate --sensitivity --csv sensitivity.csv
      harness calibrate --sensitivity --parameter flush_latency_us
    """
    if names and not sensitivity:
        raise Failure("--parameter needs --sensitivity: add it", USAGE)
    if write and sensitivity:
        raise Failure("--write and --sensitivity exclude each other: sensitivity fits nothing", USAGE)
    if like and sensitivity:
        raise Failure("--like and --sensitivity exclude each other: sensitivity judges the paper's claims", USAGE)
    for path in (write, csv):
        if path:
            _require_writable(path)
    from harness.simulation import calibration, parameters

    model = parameters.read(hardware)
    numbers = calibration.numbers_of(like, model) if like else calibration.PAPER
    moved = names or calibration.charged(model) if sensitivity else model.free
    if not moved:
        raise parameters.HardwareError(f"hardware {model.name}: no parameter is `free = true`, so none is fitted")
    calibration.require_charged(model, moved)
    text = parameters.path_of(hardware).read_text(encoding="utf-8") if write else ""
    if write:
        parameters.with_values_in(text, {name: model.value(name) for name in moved})
    say(f"a model of the hardware {hardware!r} in virtual time; its worlds are built first")
    with calibration.Bench(model, seed=seed) as bench, on_console() as reporter:
        if sensitivity:
            table, rows = _sensitivity(bench, model, moved, seed, reporter)
        else:
            table = rows = _fit(bench.measure, model, numbers, text, write, reporter)
    print_rows(table)
    if csv:
        with csv.open("w", encoding="utf-8", newline="") as file:
            csv_module.writer(file, lineterminator="\n").writerows(rows)


def _require_writable(path: Path) -> None:
    """Raise Failure before minutes are spent on results that cannot be written."""
    folder = path.absolute().parent
    if not folder.is_dir():
        raise Failure(f"{path}: folder {folder} does not exist: create it", USAGE)
    if not os.access(path if path.exists() else folder, os.W_OK):
        raise Failure(f"{path}: no permission to write it: choose another file", PREFLIGHT)


def _fit(  # noqa: PLR0917
    measure: Measure, model: Parameters, numbers: ReferenceNumbers, text: str, write: Path | None, reporter: Reporter
) -> list[list[str]]:
    from harness.simulation import calibration, parameters

    def on_evaluation(number: int, tried: Parameters) -> None:
        reporter.cell_done(number, _free_values(tried), "completed", "")

    most = calibration.evaluations_max(model)
    reporter.note(f"at most {most} evaluations: a fit that converges ends sooner than the time left says")
    reporter.begin(most, 0, unit="evaluation")
    fitted = calibration.fit(measure, model, numbers, on_evaluation=on_evaluation)
    reporter.note(f"fitted: {_free_values(fitted)}")
    reporter.phase("the other numbers")
    if write:
        values = {name: fitted.value(name) for name in fitted.free}
        write.write_text(parameters.with_values_in(text, values), encoding="utf-8")
    fitted_numbers = calibration.numbers_at(measure, fitted, numbers.all)
    rows = [["number", "part", numbers.source, "the model", "unit"]]
    for number, value in zip(numbers.all, fitted_numbers, strict=True):
        part = "fitted" if number in numbers.fitted else "predicted"
        rows.append([number.name, part, _four_digits(number.known), _four_digits(value), number.unit])
    return rows


def _four_digits(value: float | None) -> str:
    return "" if value is None else f"{float(f'{value:.4g}'):,g}"


def _free_values(model: Parameters) -> str:
    return ", ".join(f"{name} {model.value(name):g}" for name in model.free)


def _sensitivity(
    bench: Bench, model: Parameters, names: Sequence[str], seed: int, reporter: Reporter
) -> tuple[list[list[str]], list[list[str]]]:
    """Return how far each claim moves, to be shown, and every number of every sample."""
    from harness.simulation import sensitivity

    models = 1 + sensitivity.SAMPLES

    def on_measured(measured_count: int) -> None:
        name = f"sample {measured_count - 1}" if measured_count > 1 else "the parameters as they are"
        reporter.cell_done(measured_count, name, "completed", "")
        if measured_count == models:
            reporter.note("all samples are measured and are now reduced")

    reporter.begin(models, 0, unit="sample")
    judge = partial(sensitivity.judged, bench, on_measured=on_measured)
    base, samples = sensitivity.sensitivity(judge, model, names, seed=seed)
    rows_shown = [
        ["claim", "as they are", "middle 90 % of the samples", "follows", "verdict differs"],
        *sensitivity.ranges(base, samples),
    ]
    return rows_shown, [[*sensitivity.COLUMNS, *names], *sensitivity.rows(base, samples)]
