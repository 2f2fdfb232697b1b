"""Pair the cells of two runs for a comparison.

If both runs have cells of the same version, cells are paired by version. Otherwise, such as SQL Server 2022 and 2025
with the embedded lab's 2005 and 2008, they are paired over the other axes: a cell's quantities are the means over the
versions of its run, as in the figures, and the output says so. A version is never paired with a different one.
"""

from __future__ import annotations

import pandas as pd

from harness.figures.reduced_run import Run, listed

POINT = ["initiators", "threads", "dialog_ratio", "payload_bytes"]
AXES = ["server_version", *POINT]


def by_version(a: pd.DataFrame, b: pd.DataFrame) -> bool:
    """Return whether the cells of two runs are paired by version."""
    return not set(a.cell_id).isdisjoint(b.cell_id)


def pair(a: pd.DataFrame, b: pd.DataFrame) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Return the cells of both runs with ids that pair them."""
    return (a, b) if by_version(a, b) else (over_versions(a), over_versions(b))


def over_versions(cells: pd.DataFrame) -> pd.DataFrame:
    """Return one row per point of the matrix with the means over versions; the id names no version."""
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
    """Return the rows of both tables, cells or gains, that the other table has too."""
    keys = [axis for axis in (AXES if same_version else POINT) if axis in a]
    both = a[keys].merge(b[keys], on=keys, how="inner").drop_duplicates()
    return a.merge(both, on=keys, how="inner"), b.merge(both, on=keys, how="inner")


def version_note(a: Run, b: Run) -> list[str]:
    """Say in one line what is compared if the runs have no common cell of the same version; else nothing."""
    if by_version(a.cells, b.cells):
        return []
    means = ["the mean of " * (len(run.versions) > 1) + listed(run.versions) for run in (a, b)]
    return [f"The runs have no version in common: each cell of a is {means[0]}, of b {means[1]}"]
