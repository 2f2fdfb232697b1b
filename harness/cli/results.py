"""Verbs on result folders."""

# ruff: noqa: PLC0415  the verbs import their parts themselves

from __future__ import annotations

from pathlib import Path

import click

from harness.cli.common import EXIT_CODES, USAGE, Failure, one_line_errors, say
from harness.settings import nearest


def _existing_results(folder: Path) -> Path:
    if (folder / "manifest.json").is_file():
        return folder
    others = (
        sorted(path.parent.name for path in folder.parent.glob("*/manifest.json")) if folder.parent.is_dir() else []
    )
    hint = nearest(folder.name, others[-5:]) if others else ""
    what = "has no manifest.json" if folder.is_dir() else "does not exist"
    raise Failure(f"{folder} is no result folder: it {what}{hint}", USAGE)


@click.command(epilog=EXIT_CODES, short_help="Reduce raw records to tables, with PySpark.")
@click.argument("results", type=click.Path(path_type=Path))
def reduce(results: Path) -> None:
    """Reduce the raw records of a run to tables (Parquet and CSV), with PySpark.

    \b
    Example:
      harness reduce results/20260101-120000-embedded
    """
    with one_line_errors():
        from harness import reductions

        for path in reductions.reduce(_existing_results(results), progress=say):
            say(f"table: {path}")


@click.command(name="figures", epilog=EXIT_CODES, short_help="Draw the figures of a run.")
@click.argument("results", type=click.Path(path_type=Path))
def figures(results: Path) -> None:
    """Draw the figures of a run from its reduced tables (PNG and SVG).

    \b
    Example:
      harness figures results/20260101-120000-embedded
    """
    with one_line_errors():
        from harness import figures as parts

        for path in parts.draw(_existing_results(results)):
            say(f"{'report' if path.suffix == '.html' else 'figure'}: {path}")


@click.command(epilog=EXIT_CODES, short_help="Compare two runs: figures and ratios per cell.")
@click.argument("a", type=click.Path(path_type=Path))
@click.argument("b", type=click.Path(path_type=Path))
@click.option("--output", type=click.Path(path_type=Path), metavar="DIR", help="Folder for figures and tables.")
def compare(a: Path, b: Path, output: Path | None) -> None:
    """Compare two runs: figures side by side and a table of ratios per cell.

    \b
    Example:
      harness compare results/20260101-120000-embedded results/20260102-120000-embedded
    """
    with one_line_errors():
        from harness import figures as parts

        for path in parts.compare(_existing_results(a), _existing_results(b), output):
            say(f"written: {path}")
