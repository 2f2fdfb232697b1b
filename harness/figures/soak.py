"""How a lab changes over the hours of a soak: rate, depths, pages of queues, conversations, memory, by time."""

from pathlib import Path

import pandas as pd

from harness.definitions.units import counted
from harness.figures import drift, parts
from harness.figures.reduced_run import Missing, Run
from harness.observe.queue_sizes import NAME
from harness.output.reporting import duration

# Columns of queue-sizes.csv, what a panel calls them, and a sentence. A server does not show all.
_PANELS = {
    "pages": ("pages of the queue (8 KB)", "pages"),
    "ghost_records": ("ghost records of the queue", "ghost records"),
    "conversations": ("conversation endpoints", "conversations"),
    "memory_mib": ("memory of the process, MiB", "MiB"),
}


def is_visible(run: Run) -> bool:
    """Whether a run was a soak."""
    return bool((run.manifest.get("settings") or {}).get("soak"))


def draw(cells: pd.DataFrame, folder: Path) -> parts.Sheet:
    """Draw a cell's blocks, from a table with a row for each and the queue sizes in the run's folder."""
    blocks = cells.sort_values("started_at_ns")
    if len(blocks) < 2:
        raise Missing("the cell was measured once")
    began_ns = int(blocks.started_at_ns.iloc[0])
    minutes = (blocks.started_at_ns - began_ns) / drift.MINUTE_NS
    sizes = _sizes(folder, began_ns)
    shown = [name for name in _PANELS if not sizes.empty and sizes[name].notna().any()]
    fig = parts.Sheet(8.4, 2.2 * (2 + len(shown)))
    rate, depth, *others = fig.subplots(2 + len(shown), 1, sharex=True)
    is_counted = blocks.valid
    rate.plot(minutes[is_counted], blocks.sent_per_s[is_counted], label="sent", **parts.cycle_entry(0))
    rate.plot(minutes[is_counted], blocks.processed_per_s[is_counted], label="processed", **parts.cycle_entry(1))
    if not is_counted.all():
        rate.plot(minutes[~is_counted], blocks.processed_per_s[~is_counted], "x", color="black", label="does not count")
    rate.set_ylabel("messages/s")
    depth.plot(minutes, blocks.queue_depth_peak, label="target's queue", **parts.cycle_entry(2))
    depth.plot(minutes, blocks.transmission_queue_depth_peak, label="transmission queues", **parts.cycle_entry(3))
    depth.set_ylabel("messages waiting, at most")
    for ax, name in zip(others, shown, strict=True):
        for place, (instance, rows) in enumerate(sizes.groupby("instance", sort=False)):
            ax.plot(rows.minutes, rows[name], label=str(instance), **parts.cycle_entry(place))
        ax.set_ylabel(_PANELS[name][0])
    for ax in (rate, depth, *others):
        ax.margins(y=0.1)
        ax.set_ylim(bottom=0)
        parts.thousands(ax.yaxis)
        if ax.get_legend_handles_labels()[1]:
            ax.legend(loc="center left", bbox_to_anchor=(1, 0.5))
    (others or [depth])[-1].set_xlabel("minutes since the first window")
    fig.entitle(_change(blocks), "; ".join(_changes(sizes, shown)), cells)
    return fig


def sentence(run: Run) -> str:
    """Say what a soak has shown; its windows that failed are in no table."""
    blocks = run.cells.sort_values("started_at_ns")
    seconds = (blocks.started_at_ns.iloc[-1] - blocks.started_at_ns.iloc[0]) / 1e9
    messages = int(blocks.processed_messages.sum())
    return (
        f"{counted(len(blocks), 'window')} in {duration(seconds)}: each of {messages:,} messages was processed"
        f"{'' if run.is_counted else ' once and in order'}. {_change(blocks)}."
    )


def _change(blocks: pd.DataFrame) -> str:
    """Say how the rates of the windows that count change."""
    counting = blocks[blocks.valid & (blocks.processed_per_s > 0)]
    if len(counting) < 2:
        return "Fewer than two windows count, so nothing is known of a drift"
    return drift.change(drift.mean_of_blocks(drift.with_course(counting, counting.started_at_ns.iloc[0])))


def _sizes(folder: Path, began_ns: int) -> pd.DataFrame:
    """Return the sizes before each window, with `minutes`; empty where none were recorded."""
    path = folder / NAME
    if not path.exists():
        return pd.DataFrame()
    sizes = pd.read_csv(path).query("moment == 'before'")
    return sizes.assign(minutes=(sizes.sampled_at_ns - began_ns) / drift.MINUTE_NS)


def _changes(sizes: pd.DataFrame, shown: list[str]) -> list[str]:
    """Say from what to what the sizes of each instance changed."""
    return [
        f"{instance}: "
        + ", ".join(f"{rows[name].iloc[0]:,.0f} → {rows[name].iloc[-1]:,.0f} {_PANELS[name][1]}" for name in shown)
        for instance, rows in (sizes.groupby("instance", sort=False) if shown else ())
    ]
