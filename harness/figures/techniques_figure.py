"""The figure of a run of `harness techniques`, which has no cells."""

from __future__ import annotations

import functools
from pathlib import Path

import pandas as pd

from harness.figures import technique_bars
from harness.figures.build import Progress, write
from harness.figures.reduced_run import FigureError, Run, footer, manifest_of, origin

TABLE = Path("reduced") / "techniques.parquet"


def is_techniques_run(results: Path) -> bool:
    """Return whether a folder is a run of techniques, not a run of cells with an added table of techniques."""
    return "scenario" in manifest_of(results)


def draw(results: Path, *, progress: Progress | None = None) -> list[Path]:
    """Draw `figures/techniques` of a run from its table; return the files. Raises FigureError."""
    manifest, table = manifest_of(results), _read(results / TABLE)
    # The footer reads versions and window lengths of `cells`, and this table has the same columns.
    run = Run(folder=results, manifest=manifest, cells=table)
    foot = footer(run, counted=f"{len(table)} runs of {table.technique.nunique()} techniques")
    head = functools.partial(origin, run.lab)
    drawings = {"techniques": functools.partial(technique_bars.draw, table)}
    return write(drawings, results / "figures", head, foot, progress)


def _read(path: Path) -> pd.DataFrame:
    try:
        table = pd.read_parquet(path)
    except FileNotFoundError:
        raise FigureError(f"{path} is missing: no step of this run was completed") from None
    except (OSError, ValueError) as error:
        raise FigureError(f"{path} cannot be read: {error}") from None
    if missing := [name for name in technique_bars.COLUMNS if name not in table]:
        raise FigureError(f"{path} lacks {', '.join(missing)}: run `harness techniques` again")
    return table
