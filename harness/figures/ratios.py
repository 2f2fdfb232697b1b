"""The ratios of two runs: of each cell that both completed, and of all of them, with intervals and verdicts.

If both runs have cells of the same version, cells are paired by version. Otherwise, such as SQL Server 2022 and 2025
with the embedded lab's 2005 and 2008, they are paired over the other axes: a cell's quantities are the geometric means
over the versions of its run. A version is never paired with a different one.

Block 2 of one run is no neighbour of block 2 of the other: they were hours apart, or on other days. So the blocks of
the two runs are independent samples, each with its own spread (`inference.interval_between`), unless the runs were made
in turns (`harness matrix --pair`). Over all cells, a block counts once, as the mean of its cells' logarithms. Only
cells that count are in it.
"""

from dataclasses import dataclass

import numpy as np
import pandas as pd

from harness.definitions.inference import (
    BLOCKS_MIN,
    Interval,
    Verdict,
    block_means,
    interval_between,
    interval_of_ratio,
    verdicts,
)
from harness.definitions.measures import QUANTILES
from harness.definitions.variances import Variances
from harness.figures.reduced_run import listed

POINT = ["initiators", "threads", "dialog_ratio", "payload_bytes"]
AXES = ["server_version", *POINT]
RATE = "processed_per_s"
# All cells together, the single cells, and latencies: each may fail `compare --fail-over`.
FAMILIES = 3
LATENCIES = tuple(f"{prefix}_us_{name}" for prefix in ("latency", "end_to_end") for name in QUANTILES)
QUANTITIES = (RATE, "sent_per_s", "until_drained_per_s", *LATENCIES)


@dataclass(frozen=True)
class Design:
    """How two runs were made, which decides what their intervals have."""

    in_turns: bool = False  # block by block: a block of b follows that of a, and they are compared as neighbours
    twins: Variances | None = None  # how much runs differ as wholes here; None: unknown

    def interval(self, a: pd.Series, b: pd.Series, cells: int) -> Interval:
        """Return b divided by a with its interval, from logarithms by block, the means of so many cells."""
        if self.in_turns and len(log_ratios := (b - a).dropna()):
            return interval_of_ratio(log_ratios.to_numpy())
        between = self.twins.between(cells) if self.twins else None
        return interval_between(a.to_numpy(), b.to_numpy(), between=between)


SEPARATELY = Design()
_NO_INTERVAL = Interval(np.nan, None, None, 0, None)


@dataclass(frozen=True)
class Group:
    """Cells that count in both runs: the ratio of each quantity over them, and the verdict on the processed rate."""

    name: str
    cells: int
    ratios: dict[str, Interval]  # quantities that both runs have
    verdict: Verdict
    lowest: float  # of the cells' ratios of processed rates
    highest: float


def by_version(a: pd.DataFrame, b: pd.DataFrame) -> bool:
    """Return whether the cells of two runs are paired by version."""
    return not set(a.cell_id).isdisjoint(b.cell_id)


def pair(a: pd.DataFrame, b: pd.DataFrame) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Return the cells of both runs with ids that pair them, a row per cell and block."""
    return (a, b) if by_version(a, b) else (mean_of_versions(a), mean_of_versions(b))


def mean_of_versions(cells: pd.DataFrame) -> pd.DataFrame:
    """Return one row per point of the matrix and block with the means over versions; the id names no version."""
    point = [*POINT, "total_threads", "block"]
    with np.errstate(divide="ignore"):
        logs = cells[point].join(np.log(cells[list(QUANTITIES)].astype(float)))
    merged = logs.groupby(point)[list(QUANTITIES)].agg(lambda values: values.mean(skipna=False))
    merged = np.exp(merged).join(cells.groupby(point).agg({"valid": "all", "saturated": "any"})).reset_index()
    axes = merged[POINT].astype(str)
    merged["cell_id"] = (
        "i" + axes.initiators + "-t" + axes.threads + "-r" + axes.dialog_ratio + "-p" + axes.payload_bytes
    )
    merged["server_version"] = listed(sorted(cells.server_version.unique()))
    return merged


def common(a: pd.DataFrame, b: pd.DataFrame, *, same_version: bool) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Return the rows of both tables, cells or gains, that the other table has too, in whatever block."""
    keys = [axis for axis in (AXES if same_version else POINT) if axis in a]
    common_cells = a[keys].merge(b[keys], on=keys, how="inner").drop_duplicates()
    return a.merge(common_cells, on=keys, how="inner"), b.merge(common_cells, on=keys, how="inner")


def by_cell(a: pd.DataFrame, b: pd.DataFrame, threshold: float, design: Design = SEPARATELY) -> pd.DataFrame:
    """Return one row per common cell, b divided by a, with the verdict on the processed rate.

    `design` says how the runs were made.

    Per quantity: the geometric mean of `a`, of `b`, and their ratio, null where a is zero or unknown. `counts` says
    whether the cell is valid in a block of each run; if it is not, its numbers are those of all blocks, and it has
    neither interval nor verdict.
    """
    ids = a.cell_id[a.cell_id.isin(b.cell_id)].unique()
    if not len(ids):
        return pd.DataFrame()
    a, b = (run[run.cell_id.isin(ids)] for run in (a, b))
    valid = [counted(run) for run in (a, b)]
    counts = pd.Series(ids, index=ids).isin(set(valid[0].cell_id) & set(valid[1].cell_id))
    chosen = [
        pd.concat([of_valid[of_valid.cell_id.map(counts)], run[~run.cell_id.map(counts)]])
        for of_valid, run in zip(valid, (a, b), strict=True)
    ]
    rates_a, rates_b = (_log_rates(run) for run in valid)
    intervals = [
        design.interval(rates_a[cell_id], rates_b[cell_id], 1) if is_counted else _NO_INTERVAL
        for cell_id, is_counted in counts.items()
    ]
    cells = [run.groupby("cell_id") for run in (a, b)]
    versions = {f"server_version_{side}": of.server_version.first() for side, of in zip("ab", cells, strict=True)}
    table = pd.DataFrame(versions, index=ids).join(cells[0][[*POINT, "total_threads"]].first())
    for side, run in zip("ab", valid, strict=True):
        table[f"blocks_{side}"] = run.groupby("cell_id").block.nunique().reindex(ids, fill_value=0)
    means = [_geometric_means(run) for run in chosen]
    ratio = (means[1] / means[0]).where(means[0] > 0)
    for quantity in QUANTITIES:
        for side, mean in zip("ab", means, strict=True):
            table[f"{quantity}_{side}"] = mean[quantity].round(2)
        table[f"{quantity}_ratio"] = ratio[quantity].round(4)
    table[f"{RATE}_ratio_low"] = [interval.low for interval in intervals]
    table[f"{RATE}_ratio_high"] = [interval.high for interval in intervals]
    table["counts"] = counts
    table["verdict"] = [str(verdict) for verdict in verdicts(intervals, threshold, families=FAMILIES)]
    return table.rename_axis("cell_id").reset_index().sort_values(["server_version_a", *POINT]).reset_index(drop=True)


def counted(cells: pd.DataFrame) -> pd.DataFrame:
    """Choose the rows whose rate counts."""
    return cells[cells.valid & (cells[RATE] > 0)]


def _geometric_means(cells: pd.DataFrame) -> pd.DataFrame:
    """Return those of each cell's blocks; null where one is unknown."""
    with np.errstate(divide="ignore"):
        logs = np.log(cells[list(QUANTITIES)].astype(float))
    means = logs.groupby(cells.cell_id).mean()
    return np.exp(means.mask(logs.isna().groupby(cells.cell_id).any()))


def _log_rates(cells: pd.DataFrame) -> dict[str, pd.Series]:
    """Return the logarithms of each cell's rates by block."""
    logs = pd.Series(np.log(cells[RATE].astype(float)).to_numpy(), index=cells.block)
    return dict(list(logs.groupby(cells.cell_id.to_numpy())))


def groups(a: pd.DataFrame, b: pd.DataFrame, threshold: float, design: Design = SEPARATELY) -> list[Group]:
    """Return the ratios over all cells that count in both runs, then those by number of initiators and dialog ratio.

    Empty if there is no such cell.
    """
    a, b = counted(a), counted(b)
    shared = set(a.cell_id) & set(b.cell_id)
    if not shared:
        return []
    a, b = (run[run.cell_id.isin(shared)] for run in (a, b))
    all_cells = _group("all", a, b, threshold, design)
    parts = [
        _group(f"i{initiators}, ratio {ratio}", of_a, b[b.cell_id.isin(of_a.cell_id)], threshold, design)
        for (initiators, ratio), of_a in a.groupby(["initiators", "dialog_ratio"])
    ]
    return [all_cells, *parts]


def _group(name: str, a: pd.DataFrame, b: pd.DataFrame, threshold: float, design: Design) -> Group:
    """Return the ratios over the cells with BLOCKS_MIN blocks in both runs; over all cells if there is none."""
    blocks = pd.concat([run.groupby("cell_id").block.nunique() for run in (a, b)], axis=1).min(axis=1)
    repeated = blocks.index[blocks >= BLOCKS_MIN]
    if len(repeated):
        a, b = (run[run.cell_id.isin(repeated)] for run in (a, b))
    ratios = _over_cells(a, b, design)
    means = [_geometric_means(run)[RATE] for run in (a, b)]
    single = means[1] / means[0]
    (verdict,) = verdicts([ratios[RATE]], threshold, families=FAMILIES)
    return Group(name, len(single), ratios, verdict, float(single.min()), float(single.max()))


def _over_cells(a: pd.DataFrame, b: pd.DataFrame, design: Design) -> dict[str, Interval]:
    """Return b divided by a of each quantity over the cells that always have it; without those that no cell has.

    Twins tell of rates processed; all other quantities are taken to differ from run to run by as much.
    """
    quantities = list(QUANTITIES)
    lacking = pd.concat([(~(run[quantities] > 0)).groupby(run.cell_id).any() for run in (a, b)])
    lacking = lacking.groupby(level="cell_id").any()

    def means(run: pd.DataFrame) -> pd.DataFrame:
        logs = np.log(run[quantities].astype(float).mask(lacking.loc[run.cell_id].to_numpy()))
        return block_means(logs.join(run[["cell_id", "block"]]), ["cell_id"], quantities)

    of_a, of_b = means(a), means(b)
    return {
        quantity: design.interval(of_a[quantity].dropna(), of_b[quantity].dropna(), int(cells))
        for quantity, cells in (~lacking).sum().items()
        if cells
    }


def ratio_words(ratio: Interval) -> str:
    """`0.81, 0.78 to 0.85`, or the ratio alone if it has no interval."""
    return f"{ratio.ratio:.2f}" if ratio.low is None else f"{ratio.ratio:.2f}, {ratio.low:.2f} to {ratio.high:.2f}"
