"""The figure of a run that has techniques and no cells."""

from __future__ import annotations

import functools
from pathlib import Path

import pandas as pd

from harness.figures import techniques
from harness.figures.build import Progress, write
from harness.figures.results import FigureError, Run, footer, manifest_of, origin

TABLE = Path("reduced") / "techniques.parquet"


def is_ladder(results: Path) -> bool:
    """Whether the folder is one of techniques alone."""
    return (results / TABLE).is_file() and not (results / "reduced" / "cells.parquet").exists()


def draw(results: Path, *, progress: Progress | None = None) -> list[Path]:
    """Writes `figures/techniques` of a run from its table; returns the files. Raises FigureError."""
    try:
        table = pd.read_parquet(results / TABLE)
    except (OSError, ValueError) as error:
        raise FigureError(f"{results / TABLE} cannot be read: {error}") from None
    none = pd.DataFrame()
    run = Run(results, manifest_of(results), table, *(none,) * (len(Run.__dataclass_fields__) - 3))
    foot = footer(run, counted=f"{len(table)} runs of {table.technique.nunique()} techniques")
    head = functools.partial(origin, run.lab)
    drawings = {"techniques": functools.partial(techniques.draw, table)}
    return write(drawings, results / "figures", head, foot, progress)
