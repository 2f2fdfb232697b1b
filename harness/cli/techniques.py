"""The command that runs the paper's recommendations one after another."""

# ruff: noqa: PLC0415  a command imports its parts only when it runs

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from harness.cli.console_table import print_rows
from harness.cli.exits import CELLS_FAILED, EXIT_CODES, Failure, one_line_errors, say
from harness.cli.options import LAB_OPTIONS, settings_options


@click.command(epilog=EXIT_CODES, short_help="Run the paper's recommendations one after another.")
@click.option(
    "--lab",
    metavar="NAME",
    help="Where the instances run: sqlserver, embedded or simulated. Default: sqlserver where a Docker engine "
    "answers or --lab-file names servers, else embedded.",
)
@settings_options(*(name for name in LAB_OPTIONS if name != "lab"), "server_versions")
@click.option("--measure", metavar="TIME", help="Length of a step's measured window (default the scenario's).")
@click.option("--settle", metavar="TIME", help="Longest wait for a steady rate before it (default the scenario's).")
@click.option("--drain", metavar="TIME", help="Longest wait until all messages are processed (default the scenario's).")
@settings_options("results")
@click.option("--seed", metavar="NUMBER", help="Seed of every random choice in the simulated lab (default 1).")
@click.option(
    "--hardware", metavar="NAME", help="The model's parameters: paper (default), this-machine or a TOML file."
)
@click.option("--repeats", default=1, show_default=True, type=click.IntRange(1, 100), help="Runs of each step.")
@click.option(
    "--scenario",
    "scenario_file",
    metavar="FILE",
    type=click.Path(path_type=Path),
    help="TOML file of the load and the steps (default harness/techniques/techniques.toml).",
)
@click.option(
    "--add-to",
    metavar="DIR",
    type=click.Path(path_type=Path),
    help="Also copy the table into the folder of a run of cells on the same lab, for its claims and its report.",
)
def techniques(repeats: int, scenario_file: Path | None, add_to: Path | None, **options: Any) -> None:
    """Run the paper's recommendations, and what it warns of, one after another under the same load; then print a
    table and draw a figure of what each is worth.

    Each of the first steps adds a recommendation to the step before: a dialog per message, dialogs reused, RECEIVE TOP
    (n), readers that stay, readers per core, the 150 trick. Each of the others leaves one out: RECEIVE TOP (1), readers
    that end at once, one reader, one conversation for all, one message per conversation, no warm-up. The steps run on
    the lab's newest version, for the times in the scenario. `--lab simulated` is a model of the paper's hardware in
    virtual time; its numbers are not SQL Server's.

    \b
    Examples:
      harness techniques --lab embedded
      harness techniques --lab simulated --repeats 3
      harness techniques --lab embedded --add-to results/20260101-120000-embedded
      harness techniques --lab-file lab.toml --repeats 3
    """
    from harness import reporting
    from harness.techniques import scenario_run

    with one_line_errors():
        with reporting.on_console() as reporter:
            outcome = scenario_run.run(options, reporter, repeats=repeats, scenario_file=scenario_file, add_to=add_to)
        _print_table(outcome.results)
        say(f"results: {outcome.results}")
    if outcome.failed:
        raise Failure(
            f"{outcome.failed} of {outcome.total} runs failed; reasons in {outcome.results}/journal.jsonl", CELLS_FAILED
        )


def _print_table(results: Path) -> None:
    """Prints the numbers of the completed steps."""
    import pandas as pd

    from harness.figures import technique_bars

    path = results / "reduced" / "techniques.parquet"
    if not path.is_file():
        return
    means = technique_bars.over_runs(pd.read_parquet(path))
    processed = dict(zip(means.technique, means.processed, strict=True))
    titles = dict(zip(means.technique, means.title, strict=True))
    rows = [["step", "messages/s", "ratio", "to", "send p95"]]
    for row in means.itertuples():
        base = processed.get(row.compared_with)
        ratio = f"{row.processed / base:.2f}" if base else ""
        latency = f"{row.latency_us_p95 / 1000:,.1f} ms" if pd.notna(row.latency_us_p95) else ""
        rows.append([row.title, f"{row.processed:,.0f}", ratio, titles.get(row.compared_with, ""), latency])
    say("Messages that the target processed per second, and their ratio to those of another step:")
    print_rows(rows)
