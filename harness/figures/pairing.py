"""Which cells of two runs are compared with each other.

Cells of the same version, where both runs have such. Others, such as SQL Server 2022 and 2025 against the embedded
lab's 2005 and 2008, are compared over the other axes: each cell's quantities are the mean of the versions of its run,
as in the figures, and the output says so. No version of one run is taken for the counterpart of one of the other.
"""

from __future__ import annotations

import pandas as pd

from harness.figures.reduced_run import Run, listed

POINT = ["initiators", "threads", "dialog_ratio", "payload_bytes"]
AXES = ["server_version", *POINT]


def by_version(a: pd.DataFrame, b: pd.DataFrame) -> bool:
    """Whether two runs' cells are matched with their versions."""
    return not set(a.cell_id).isdisjoint(b.cell_id)


def pair(a: pd.DataFrame, b: pd.DataFrame) -> tuple[pd.DataFrame, pd.DataFrame]:
    """The cells of both runs under ids that can be matched: a cell that both completed has the same in both."""
    return (a, b) if by_version(a, b) else (over_versions(a), over_versions(b))


def over_versions(cells: pd.DataFrame) -> pd.DataFrame:
    """One row a point of the matrix, its quantities the mean of the versions; the id says no version."""
    quantities = [name for name in cells.select_dtypes("number") if name not in [*POINT, "total_threads"]]
    merged = cells.groupby([*POINT, "total_threads"], as_index=False).agg(
        dict.fromkeys(quantities, "mean") | {"target_kept_up": "all"}
    )
    axes = merged[POINT].astype(str)
    merged["cell_id"] = (
        "i" + axes.initiators + "-t" + axes.threads + "-r" + axes.dialog_ratio + "-p" + axes.payload_bytes
    )
    merged["server_version"] = listed(sorted(cells.server_version.unique()))
    return merged


def common(a: pd.DataFrame, b: pd.DataFrame, *, same_version: bool) -> tuple[pd.DataFrame, pd.DataFrame]:
    """The rows of both, cells or gains with their versions, whose counterpart the other has."""
    keys = [axis for axis in (AXES if same_version else POINT) if axis in a]
    both = a[keys].merge(b[keys], on=keys, how="inner").drop_duplicates()
    return a.merge(both, on=keys, how="inner"), b.merge(both, on=keys, how="inner")


def version_note(a: Run, b: Run) -> list[str]:
    """What is compared where the runs have no cell of the same version in common, in a line."""
    if by_version(a.cells, b.cells):
        return []
    means = ["the mean of " * (len(run.versions) > 1) + listed(run.versions) for run in (a, b)]
    return [f"No cell of the same version is in both runs: of each cell, a has {means[0]}, b {means[1]}"]
