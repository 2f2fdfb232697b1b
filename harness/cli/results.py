"""Commands on result folders."""

# ruff: noqa: PLC0415  a command imports its parts only when it runs

from __future__ import annotations

import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

import harness
from harness.cli.conventions import NewFile, Percent, console, json_option, on_console, print_rows
from harness.cli.outcomes import CANNOT_TELL, CELLS_FAILED, PATH, Failure
from harness.output.terminal import say, to_standard_error

if TYPE_CHECKING:
    from harness.output.reporting import Reporter

_KINDS = {".html": "report", ".parquet": "table", ".csv": "table"}
PHRASES_SHOWN = 5
CLAIMS_WIDE = 130  # columns of a terminal in which the claims' numbers have columns of their own
_STYLES = {"holds": "bold green", "fails": "bold red", "inconclusive": "yellow"}  # others are dim


def draw_and_show(run: harness.Run, reporter: Reporter) -> None:
    """Draw the figures and the report of a run, if a cell was completed; print its results."""
    if run.outcome.completed:
        run.draw(progress=reporter)
    reporter.end()
    show(run, f"harness report {shlex.quote(str(run.folder))} --open")


def show(run: harness.Run, next_step: str) -> None:
    """Print the table of results of a run that has any, with the sentences around it, and what to do next."""
    if not run.outcome.completed:
        say(f"results: {run.folder}")
        return
    summary = run.summary()
    for sentence in summary.explanation:
        say(sentence)
    print_rows([summary.headings, *summary.rows])
    for sentence in summary.findings:
        say(sentence)
    say(f"results: {run.folder}")
    say(" ".join(filter(None, [summary.conclusion, f"Next: {next_step}"])))


@click.command(short_help="Reduce raw records to tables, with PySpark.")
@click.argument("results")
@click.option("--master", metavar="URL", help="Where Spark reduces: this machine (default), spark://host:7077 ...")
def reduce(results: str, master: str | None) -> None:
    """Reduce the raw records of a run to tables (Parquet and CSV), with PySpark.

    On a cluster the folder must be the same folder everywhere, and the harness and its packages travel with the job. A
    run in a store that pyarrow reads (s3, s3a, gs, abfs, hdfs) is copied here, reduced on this machine, and its tables
    are written back.

    \b
    Examples:
      harness reduce results/20260101-120000-embedded
      harness reduce /shared/20260101-120000-sqlserver --master spark://host:7077
      harness reduce s3://bucket/20260101-120000-sqlserver
    """
    with harness.Run.fetched(results) as run, on_console() as reporter:
        tables = run.reduce(master=master, progress=reporter)
    for path in tables:
        say(f"table: {run.place}/{path.relative_to(run.folder.resolve())}")


@click.command(name="figures", short_help="Draw the figures of a run.")
@click.argument("results")
def figures(results: str) -> None:
    """Draw the figures of a run from its reduced tables (PNG and SVG).

    \b
    Example:
      harness figures results/20260101-120000-embedded
    """
    with on_console() as reporter:
        files = harness.Run(results).draw(progress=reporter)
    for path in files:
        say(f"{_KINDS.get(path.suffix, 'figure')}: {path}")


@click.command(short_help="Show the report of a run, in the browser with --open.")
@click.argument("results")
@click.option("--open", "in_browser", is_flag=True, help="Open it in the browser.")
def report(results: str, in_browser: bool) -> None:
    """Say where the report of a run is: findings, the paper's claims, all figures and the circumstances on one page.

    It is drawn first, with all figures, where it is missing or older than the run's reduced tables.

    \b
    Examples:
      harness report results/20260101-120000-embedded
      harness report results/20260101-120000-embedded --open
    """
    with on_console() as reporter:
        path = harness.Run(results).report(progress=reporter)
    say(f"report: {path}")
    if in_browser:
        _open_in_browser(path)


def _open_in_browser(path: Path) -> None:
    import webbrowser

    try:
        opened = webbrowser.open(path.absolute().as_uri())
    except webbrowser.Error:
        opened = False
    if not opened:
        say("No browser can be opened here: open the file in one yourself.")


@click.command(name="queue-course", short_help="Draw the queues of one cell, second by second.")
@click.argument("results")
@click.argument("cell")
@click.option("--block", type=click.IntRange(min=1), default=1, metavar="N", help="Which block of the run (default 1).")
def queue_course(results: str, cell: str, block: int) -> None:
    """Draw one cell second by second (PNG and SVG): how many messages lay in the target's queue and in transmission
    queues, what state the queue monitors had, and how many readers ran, with the measured window and the moment at
    which the clients stopped.

    It needs the run's raw records, no reduced tables. CELL is an id, or its beginning where no other cell of the run
    begins so.

    \b
    Examples:
      harness queue-course results/20260101-120000-embedded i1-t5-r150-p100-v2008
      harness queue-course results/20260101-120000-sqlserver i3-t50-r1-p100 --block 2
    """
    for path in harness.Run(results).queue_course(cell, block=block):
        say(f"figure: {path}")


@click.command(short_help="Check the paper's claims against a run.")
@click.argument("results")
@click.option("--markdown", is_flag=True, help="Print the table alone, in Markdown, as README has it.")
@json_option("the claims")
def claims(results: str, markdown: bool, json_file: Path | None) -> None:
    """Check the paper's claims against a run's reduced tables: each claim, the paper's number, the run's with its
    interval over blocks, where it comes from (measured, or how a model obtained it), and whether the claim holds, fails
    or is inconclusive, with the reason.

    Of a model, only what it predicted counts.

    \b
    Examples:
      harness claims results/20260101-120000-embedded
      harness claims results/20260101-120000-simulated --markdown
    """
    from harness import claims as judging
    from harness.claims import document

    run = harness.Run(results)
    with on_console(stderr=True) as reporter:
        table = run.claims(progress=reporter)
    if json_file:
        document.of_table(table).write_json(json_file)
    if markdown:
        for line in judging.markdown(table):
            say(line)
        return
    for sentence in run.origin():
        say(sentence)
    rows = list(table.itertuples())
    _print_claims(rows)
    say(f"{judging.counted(rows)}.")


def _print_claims(rows: Sequence[Any]) -> None:
    from rich.console import Group
    from rich.padding import Padding
    from rich.table import Table

    from harness.output.reporting import styled

    screen = console()
    is_narrow = screen.width < CLAIMS_WIDE
    table = Table(box=None, pad_edge=False, padding=(0, 2, 1, 0))
    table.add_column("claim, and what the run says", ratio=1, min_width=24)
    if not is_narrow:
        table.add_column("the paper", max_width=30)
        table.add_column("this run (95 % interval)", max_width=34)
        table.add_column("provenance", max_width=12)
    table.add_column("verdict", width=12)
    for row in rows:
        numbers = [row.wording, row.number, row.provenance]
        in_words = [f"the paper: {row.wording}; this run: {row.number}, {row.provenance}"] if is_narrow else []
        claim = Group(row.statement, *in_words, Padding(styled(row.explanation, "dim"), (0, 0, 0, 2)))
        verdict = styled(row.verdict, _STYLES.get(row.verdict, "dim"))
        table.add_row(claim, *([] if is_narrow else numbers), verdict)
    screen.print(table)


@click.command(name="support-bundle", short_help="Pack what to attach to a question about a run.")
@click.argument("results")
def support_bundle(results: str) -> None:
    """Pack what others need to answer a question about a run into one zip file in its folder: the doctor's findings,
    the instances' error logs and those of the lab, reduced tables, versions, settings and the journal.

    Passwords and tokens are removed; names of servers, logins and databases stay in. Look into the file before you
    publish it. Raw records and figures are not in it.

    \b
    Example:
      harness support-bundle results/20260101-120000-sqlserver
    """
    run = harness.Run(results)
    path = run.support_bundle()
    if not (run.folder / "reduced").is_dir():
        to_standard_error(f"it has no tables: harness reduce {shlex.quote(str(results))} makes them")
    say(f"written: {path}")


@click.command(short_help="Compare two runs: ratios, intervals, verdicts.")
@click.argument("a")
@click.argument("b")
@click.option("--output", type=PATH, metavar="DIR", help="Folder for figures and tables.")
@json_option("verdicts and ratios")
@click.option(
    "--junit", type=NewFile(), metavar="FILE", help="Write a test for the gate, each group and each cell for a CI."
)
@click.option("--markdown", type=NewFile(), metavar="FILE", help="Write a summary for a job's page.")
@click.option(
    "--fail-over",
    type=Percent(),
    metavar="PERCENT",
    help="Exit with code 1 if b is slower than a by more than this, with 4 if nobody can tell, and with 0 if no "
    "slowdown beyond it can hide: in rates, latencies (four times as much) and the states of cells.",
)
@click.option(
    "--fail-if-unknown/--pass-if-unknown",
    default=True,
    help="With --fail-over: what happens where nobody can tell (default: exit code 4).",
)
@click.option(
    "--despite-differences",
    is_flag=True,
    help="Compare runs whose lab, hardware or settings differ; all figures say so.",
)
def compare(  # noqa: PLR0917
    a: str,
    b: str,
    output: Path | None,
    json_file: Path | None,
    junit: Path | None,
    markdown: Path | None,
    fail_over: float | None,
    fail_if_unknown: bool,
    despite_differences: bool,
) -> None:
    """Compare two runs: ratios of b to a with intervals, for all cells and for each, and figures side by side.

    A verdict is `faster` or `slower` if the ratio lies beyond 5 % (or the percentage of --fail-over) and its 95 %
    interval over the blocks of both runs excludes no difference; `same within 5 %` if the whole interval lies within;
    else `cannot tell`. Verdicts on single cells are corrected for their number.

    \b
    Examples:
      harness compare results/20260101-120000-embedded results/20260102-120000-embedded
      harness compare results/before results/after --fail-over 5%
      harness compare results/before results/after --fail-over 5% --junit compare.xml --markdown summary.md
      harness compare results/20260101-120000-embedded results/20260102-120000-simulated --despite-differences
    """
    with on_console() as reporter:
        comparison = harness.Run(a).compare(
            b,
            output,
            threshold=fail_over or harness.Run.THRESHOLD,
            despite_differences=despite_differences,
            console=console(),
            progress=reporter,
        )
    written = comparison.document().write(json=json_file, junit=junit, markdown=markdown)
    for path in (*comparison.files, *written):
        say(f"written: {path}")
    if fail_over is None:
        say(comparison.conclusion)
        return
    threshold = f"slower than a by more than {100 * fail_over:g} %"
    if comparison.gate.slowdowns:
        raise Failure(f"b is {threshold}: {_first_of(comparison.gate.slowdowns)}", CELLS_FAILED)
    unknown = f"cannot tell whether b is {threshold}: {_first_of(comparison.gate.unknown)}"
    if comparison.gate.unknown and fail_if_unknown:
        raise Failure(unknown, CANNOT_TELL)
    say(unknown if comparison.gate.unknown else f"b is not {threshold}: no such slowdown can hide in the intervals")


def _first_of(phrases: Sequence[str]) -> str:
    more = len(phrases) - PHRASES_SHOWN
    return f"{'; '.join(phrases[:PHRASES_SHOWN])}{f'; and {more} more' if more > 0 else ''}"
