"""Commands on result folders."""

# ruff: noqa: PLC0415  a command imports its parts only when it runs

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from harness.cli.conventions import (
    CELLS_FAILED,
    EXIT_CODES,
    PATH,
    USAGE,
    Failure,
    Percent,
    console,
    one_line_errors,
    print_rows,
    say,
)

if TYPE_CHECKING:
    from harness.claims import Judgement

_KINDS = {".html": "report", ".parquet": "table", ".csv": "table"}
SLOWDOWNS_SHOWN = 5
STATES_SHOWN = 10
_STYLES = {"holds": "bold green", "fails": "bold red", "inconclusive": "yellow", "not measured": "dim"}


def _run_of_cells(folder: Path) -> Path:
    """The folder, if it is a run of cells; raises Failure for one of `harness techniques` or `harness rates`."""
    from harness.figures.reduced_run import is_rates_run, is_techniques_run
    from harness.sweep import run_folder

    if is_techniques_run(run_folder.require_run(folder)):
        remedy = "draw it with harness figures, or add its table to a run of cells with harness techniques --add-to"
        raise Failure(f"{folder} is a run of techniques, without cells: {remedy}", USAGE)
    if is_rates_run(folder):
        raise Failure(f"{folder} is a run of one cell at several rates: draw it with harness figures", USAGE)
    return folder


def say_states(results: Path, units: str = "cells", names: Mapping[str, str] | None = None) -> None:
    """Says under a table of results which of its cells are not valid, each with the reason; or that all are.

    `names` are what the table calls its rows, if not by the journal's names.
    """
    from collections import Counter

    from harness.records import State
    from harness.sweep import journal
    from harness.sweep.loop import label

    entries = journal.completed(results / journal.NAME)
    others = [entry for entry in entries if entry.state != State.VALID]
    if len(entries) > 1:
        counted = f"{len(others)} of {len(entries)} {units} are not valid:"
        say(counted if others else f"All {len(entries)} {units} are valid.")
    for entry in others[:STATES_SHOWN]:
        name = (names or {}).get(entry.cell, entry.cell)
        say(f"{label(name, entry.block)} is {entry.state}: {entry.state_reason}")
    if more := Counter(entry.state for entry in others[STATES_SHOWN:]):
        states = ", ".join(f"{number} {state}" for state, number in more.most_common())
        say(f"and {more.total()} more ({states}): reasons in {results / journal.NAME}")


def states_by_cell(results: Path) -> dict[str, str]:
    """The state of each cell, step or technique of a run in all its blocks: `behind`, or `2 of 3 valid`."""
    from harness.records import State
    from harness.sweep import journal

    found: dict[str, list[str]] = {}
    for entry in journal.completed(results / journal.NAME):
        found.setdefault(entry.cell, []).append(entry.state)
    return {
        cell: states[0] if len(set(states)) == 1 else f"{states.count(State.VALID)} of {len(states)} valid"
        for cell, states in found.items()
    }


def reduce_and_draw(results: Path) -> None:
    """Makes the tables, figures and report of a run; prints its results."""
    from harness import figures, reductions
    from harness.figures import reduced_run, results_table, trick_answer

    reductions.reduce(results, progress=say)
    for path in figures.draw(results):
        if path.suffix == ".png":
            say(f"figure: {path}")
        elif path.suffix == ".html":
            say(f"report: {path}")
    run = reduced_run.read(results)
    print_rows(results_table.rows(run))
    say_states(results)
    if trick_answer.is_asked(run):
        for sentence in (*trick_answer.evidence(run), trick_answer.answer(run)):
            say(sentence)


@click.command(epilog=EXIT_CODES, short_help="Reduce raw records to tables, with PySpark.")
@click.argument("results", type=PATH)
def reduce(results: Path) -> None:
    """Reduce the raw records of a run to tables (Parquet and CSV), with PySpark.

    \b
    Example:
      harness reduce results/20260101-120000-embedded
    """
    with one_line_errors():
        from harness import reductions

        for path in reductions.reduce(_run_of_cells(results), progress=say):
            say(f"table: {path}")


@click.command(name="figures", epilog=EXIT_CODES, short_help="Draw the figures of a run.")
@click.argument("results", type=PATH)
def figures(results: Path) -> None:
    """Draw the figures of a run from its reduced tables (PNG and SVG).

    \b
    Example:
      harness figures results/20260101-120000-embedded
    """
    with one_line_errors():
        from harness import figures as parts
        from harness.sweep import run_folder

        for path in parts.draw(run_folder.require_run(results)):
            say(f"{_KINDS.get(path.suffix, 'figure')}: {path}")


@click.command(epilog=EXIT_CODES, short_help="Check the paper's claims against a run.")
@click.argument("results", type=PATH)
@click.option("--markdown", is_flag=True, help="Print the table alone, in Markdown, as README has it.")
def claims(results: Path, markdown: bool) -> None:
    """Check the paper's claims against a run's reduced tables: each claim, the paper's number, the run's with its
    interval over blocks, where it comes from (measured, or how a model obtained it), and whether the claim holds, fails
    or is inconclusive, with the reason.

    Of a model, only what it predicted counts.

    \b
    Examples:
      harness claims results/20260101-120000-embedded
      harness claims results/20260101-120000-simulated --markdown
    """
    with one_line_errors():
        from harness import claims as judging
        from harness.figures import build, reduced_run

        run = reduced_run.read(_run_of_cells(results))
        judged = build.judge(run)
        if markdown:
            say("\n".join(judging.markdown(judging.as_table(judged))))
            return
        say(reduced_run.origin(run.lab, run.load, run.versions))
        say(f"{reduced_run.footer(run)[0]}.")
        _print_claims(judged)
        say(f"{judging.counted(judged)}.")


def _print_claims(judged: Sequence[Judgement]) -> None:
    from rich.console import Group
    from rich.padding import Padding
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, pad_edge=False, padding=(0, 2, 1, 0))
    table.add_column("claim, and what the run says", ratio=1, min_width=24)
    table.add_column("the paper", max_width=30)
    table.add_column("this run (95 % interval)", max_width=34)
    table.add_column("provenance", max_width=12)
    table.add_column("verdict", min_width=12)
    for each in judged:
        claim = Group(Text(each.claim.statement), Padding(Text(each.explanation, style="dim"), (0, 0, 0, 2)))
        verdict = Text(each.verdict.value, style=_STYLES[each.verdict.value])
        table.add_row(claim, Text(each.claim.wording), Text(each.number), Text(each.provenance.value), verdict)
    console().print(table)


@click.command(epilog=EXIT_CODES, short_help="Compare two runs: ratios, intervals, verdicts.")
@click.argument("a", type=PATH)
@click.argument("b", type=PATH)
@click.option("--output", type=PATH, metavar="DIR", help="Folder for figures and tables.")
@click.option(
    "--fail-over",
    type=Percent(),
    metavar="PERCENT",
    help="Exit with code 1 if b is slower by more than this, in all cells together or in one, and the interval "
    "excludes no difference. Needs three blocks of both runs.",
)
@click.option(
    "--despite-differences",
    is_flag=True,
    help="Compare runs whose lab, hardware or settings differ; all figures say so.",
)
def compare(a: Path, b: Path, output: Path | None, fail_over: float | None, despite_differences: bool) -> None:
    """Compare two runs: ratios of b to a with intervals, for all cells and for each, and figures side by side.

    A verdict is `faster` or `slower` if the ratio lies beyond 5 % (or the percentage of --fail-over) and its 95 %
    interval over the blocks of both runs excludes no difference; `same within 5 %` if the whole interval lies within;
    else `cannot tell`. Verdicts on single cells are corrected for their number.

    \b
    Examples:
      harness compare results/20260101-120000-embedded results/20260102-120000-embedded
      harness compare results/before results/after --fail-over 5%
      harness compare results/20260101-120000-embedded results/20260102-120000-simulated --despite-differences
    """
    with one_line_errors():
        from harness import figures as parts
        from harness.figures.comparison import THRESHOLD

        found = parts.compare(
            _run_of_cells(a),
            _run_of_cells(b),
            output,
            threshold=fail_over or THRESHOLD,
            must_tell=fail_over is not None,
            despite_differences=despite_differences,
            console=console(),
        )
        for path in found.files:
            say(f"written: {path}")
    if fail_over is not None and found.slowdowns:
        shown = "; ".join(found.slowdowns[:SLOWDOWNS_SHOWN])
        more = len(found.slowdowns) - SLOWDOWNS_SHOWN
        raise Failure(
            f"b is slower than a by more than {100 * fail_over:g} %: {shown}{f'; and {more} more' if more > 0 else ''}",
            CELLS_FAILED,
        )
