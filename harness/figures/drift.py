"""How rates drift over a run: each cell beside its mean over the blocks, by when it was measured."""

import math

import numpy as np
import pandas as pd

from harness.definitions.inference import BLOCKS_MIN, CONFIDENCE, no_interval
from harness.definitions.units import counted
from harness.figures import parts
from harness.figures.reduced_run import Missing, Run

MINUTE_NS = 60e9


def is_visible(run: Run) -> bool:
    """Whether a run measured cells several times: a model does not drift."""
    return not run.is_model and run.cells.block.nunique() > 1


def draw(cells: pd.DataFrame) -> parts.Sheet:
    """Draw the rates of the cells that count in every block, from a table with a row per cell and block."""
    points = _points(cells)
    fig = parts.Sheet(8.4, 4.2)
    ax = fig.subplots()
    ax.axhline(0, color=parts.muted_colour(), linewidth=0.8)
    ax.plot(points.minutes, np.expm1(points.log) * 100, ".", color=parts.muted_colour(), label="a cell")
    blocks = mean_of_blocks(points)
    ax.plot(blocks.minutes, np.expm1(blocks.log) * 100, label="mean of a block", **parts.cycle_entry(0))
    ax.set_xlabel("minutes since the first cell")
    ax.set_ylabel("rate processed beside the cell's mean, in %")
    parts.legend_below(ax)
    fig.entitle(
        change(blocks),
        f"{counted(points.cell_id.nunique(), 'cell')} that count in each of {len(blocks)} blocks. The change is that "
        "of a straight line through the blocks, from the first to the last.",
        cells,
    )
    return fig


def change(blocks: pd.DataFrame) -> str:
    """Say how much a line through the blocks rises. They have `minutes` and `log`, in order of time."""
    from scipy.stats import linregress, t  # noqa: PLC0415  scipy.stats takes a second to import

    fitted = linregress(blocks.minutes, blocks.log)
    minutes = float(blocks.minutes.iloc[-1] - blocks.minutes.iloc[0])
    shown = parts.percent(math.expm1(fitted.slope * minutes) * 100)
    if len(blocks) < BLOCKS_MIN:
        return f"Rates changed by {shown} over the run: {no_interval(len(blocks))}"
    half = float(t.ppf((1 + CONFIDENCE) / 2, len(blocks) - 2)) * np.nan_to_num(fitted.stderr)
    low, high = (math.expm1((fitted.slope + sign * half) * minutes) * 100 for sign in (-1, 1))
    interval = f"{shown} (95 %: {parts.signed(low)} to {parts.percent(high)})"
    if low <= 0 <= high:
        return f"Over the run, a change of rates cannot be distinguished from none: {interval}"
    return f"Rates changed by {interval} over the run"


def _points(cells: pd.DataFrame) -> pd.DataFrame:
    """Return the cells that count in every block, with `minutes`, and `log` of the rate beside the cell's mean."""
    blocks = cells.block.nunique()
    counting = cells[cells.valid & (cells.processed_per_s > 0)]
    points = counting[counting.groupby("cell_id").block.transform("nunique") == blocks]
    if blocks < 2 or points.started_at_ns.nunique() < 2:
        raise Missing("no cell counts in every block")
    return with_course(points, cells.started_at_ns.min())


def with_course(points: pd.DataFrame, began_ns: int) -> pd.DataFrame:
    """Add `minutes` since a moment, and `log` of the rate beside the cell's mean."""
    logs = np.log(points.processed_per_s.astype(float))
    return points.assign(
        log=logs - logs.groupby(points.cell_id).transform("mean"), minutes=(points.started_at_ns - began_ns) / MINUTE_NS
    )


def mean_of_blocks(points: pd.DataFrame) -> pd.DataFrame:
    return points.groupby("block", as_index=False)[["minutes", "log"]].mean()
