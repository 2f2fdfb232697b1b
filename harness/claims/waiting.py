"""Claims on what instances wait for, with three initiators."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping

import numpy as np
import pandas as pd

from harness.claims.judgement import Measurement, NotMeasured, Tables, quotient_of_sums
from harness.claims.spread import spread_of
from harness.whitepaper import BASE_DIALOG_RATIO, GAIN_NOTICEABLE_FROM, NO_GAIN_UP_TO, TOP_WAIT, TRICK_DIALOG_RATIO

INITIATORS = 3
PAGE_LATCHES = "PAGELATCH_EX/SH"  # the paper counts both together
LOG = "WRITELOG"
PAIR = ["server_version", "initiators", "threads", "payload_bytes"]


def by_wait_type(tables: Tables, role: str) -> pd.DataFrame:
    """Return milliseconds of waiting: a row per cell, a column per wait type, page latches as one.

    The table of waits has no row for a role that never waited. If waits of the other role were recorded in that cell,
    not having waited is a measured zero.
    """
    chosen, recorded = _recorded(tables, role)
    wait_types = chosen.wait_type.where(~chosen.wait_type.isin(["PAGELATCH_EX", "PAGELATCH_SH"]), PAGE_LATCHES)
    by_cell = chosen.groupby(["cell_id", wait_types]).wait_time_ms.sum().unstack(fill_value=0)
    return by_cell.reindex(recorded, fill_value=0)


def all_waiting(tables: Tables, role: str) -> pd.Series:
    """Return milliseconds of all waiting per cell, computed from the longest waits and their share: the table of waits
    holds no others."""
    chosen, recorded = _recorded(tables, role)
    kept = chosen.groupby("cell_id")[["wait_time_ms", "share_percent"]].sum()
    whole = 100 * kept.wait_time_ms / kept.share_percent.where(kept.share_percent > 0)
    return whole.reindex(recorded).fillna(0.0)


def _recorded(tables: Tables, role: str) -> tuple[pd.DataFrame, pd.Index]:
    """Return the waits of a role, and the cells in which any waits were recorded."""
    if tables.waits.empty:
        raise NotMeasured("no waits were recorded")
    waits = tables.waits[tables.waits.initiators == INITIATORS]
    chosen = waits[waits.role == role]
    if chosen.empty:
        who = "the target" if role == "target" else "initiators"
        raise NotMeasured(f"no waits of {who} were recorded with {INITIATORS} initiators")
    return chosen, pd.Index(np.unique(waits.cell_id))


def longest(tables: Tables, role: str, ratio: int) -> Measurement:
    """Measure how far the stated wait type is ahead of the longest other one, in points of its share in all waiting."""
    stated = TOP_WAIT[role, ratio]
    cells = tables.cells
    loaded = cells[(cells.dialog_ratio == ratio) & (cells.total_threads >= GAIN_NOTICEABLE_FROM.value)]
    waits = by_wait_type(tables, role)
    waits = waits[waits.index.isin(loaded.cell_id)]
    whole = all_waiting(tables, role)[waits.index]
    if not whole.sum():
        raise NotMeasured(
            f"no waits were recorded with {INITIATORS} initiators, dialog ratio {ratio} and "
            f"{GAIN_NOTICEABLE_FROM.value:.0f} or more threads"
        )
    others = waits.drop(columns=stated, errors="ignore")
    others = others if others.shape[1] else pd.DataFrame({"any other": 0}, index=waits.index)
    runner_up = others.sum().idxmax()
    both = pd.DataFrame({stated: waits.get(stated, 0), runner_up: others[runner_up]}, index=waits.index)
    shares = (100 * both.sum() / whole.sum()).sort_values(ascending=False)
    told = ", ".join(f"{wait_type} {share:.0f} %" for wait_type, share in shares.items() if share > 0)
    return quotient_of_sums(
        both[stated] - both[runner_up],
        whole,
        f"shares of all waiting in {len(waits)} cells with {INITIATORS}×{GAIN_NOTICEABLE_FROM.value // INITIATORS:.0f} "
        f"or more threads: {told}",
        scale=100,
    )


def initiators_wait_more(tables: Tables) -> Measurement:
    """Measure the page latch and log waits of one initiator, in percent of those of an initiator and the target."""
    initiators, target = (
        by_wait_type(tables, role).reindex(columns=[PAGE_LATCHES, LOG], fill_value=0).sum(axis=1)
        for role in ("initiator", "target")
    )
    each = initiators / INITIATORS
    if not (each + target).sum():
        raise NotMeasured(f"no instance waited for {PAGE_LATCHES} or {LOG}")
    return quotient_of_sums(
        each,
        each + target,
        f"{each.sum() / 1000:,.0f} s per initiator, {target.sum() / 1000:,.0f} s at the target, in {len(each)} cells "
        f"with {INITIATORS} initiators",
        scale=100,
    )


def contention_above_15(tables: Tables) -> Measurement:
    """Measure page latch waiting per message above 15 threads, in percent of that above and below together."""
    latched = _latched(tables, BASE_DIALOG_RATIO)
    few = latched.total_threads <= NO_GAIN_UP_TO.value
    if few.all() or not few.any():
        raise NotMeasured(
            f"cells with every dialog used are missing above {NO_GAIN_UP_TO.value:.0f} threads, or at "
            f"{NO_GAIN_UP_TO.value:.0f} and fewer"
        )
    above, below = (_per_message(latched[which]) for which in (~few, few))
    return Measurement(
        100 * above / (above + below) if above + below else 0.0,
        f"{1000 * above:,.1f} ms per 1,000 messages above {NO_GAIN_UP_TO.value:.0f} threads, {1000 * below:,.1f} ms at "
        f"{NO_GAIN_UP_TO.value:.0f} and fewer, in {len(latched)} cells with {INITIATORS} initiators",
    )


def trick_removes(tables: Tables) -> Measurement:
    """Measure page latch waiting per message with the trick, in percent of that of the same cells without it."""
    base, trick = (
        latched[latched.total_threads > NO_GAIN_UP_TO.value].set_index(PAIR)[["waited_ms", "messages"]]
        for latched in (_latched(tables, ratio) for ratio in (BASE_DIALOG_RATIO, TRICK_DIALOG_RATIO))
    )
    both = base.index.intersection(trick.index)
    base, trick = base.loc[both], trick.loc[both]
    if both.empty:
        raise NotMeasured(f"no pair of cells of both dialog ratios above {NO_GAIN_UP_TO.value:.0f} threads")
    if not base.waited_ms.sum():
        raise NotMeasured(f"no initiator waited for {PAGE_LATCHES} without the trick: there is nothing to remove")
    left = (trick.waited_ms / trick.messages) / (base.waited_ms / base.messages).where(base.waited_ms > 0)
    return Measurement(
        100 * _per_message(trick) / _per_message(base),
        f"of the waiting for {PAGE_LATCHES} per message is left, in {len(both)} pairs of cells above "
        f"{NO_GAIN_UP_TO.value:.0f} threads",
        spread_of(100 * left, "cells"),
    )


def _per_message(latched: pd.DataFrame) -> float:
    """Return milliseconds of waiting per message."""
    return float(latched.waited_ms.sum() / latched.messages.sum())


def _latched(tables: Tables, ratio: int) -> pd.DataFrame:
    """Return the cells that processed messages, how many, and how long their initiators waited for page latches."""
    waits = by_wait_type(tables, "initiator")
    cells = tables.cells
    chosen = cells[
        (cells.initiators == INITIATORS)
        & (cells.dialog_ratio == ratio)
        & (cells.processed_per_s > 0)
        & cells.cell_id.isin(waits.index)
    ]
    waited = waits[PAGE_LATCHES] if PAGE_LATCHES in waits else pd.Series(0, index=waits.index)
    return chosen.assign(waited_ms=chosen.cell_id.map(waited), messages=chosen.processed_per_s * chosen.measured_s)


MEASURES: Mapping[str, Callable[[Tables], Measurement]] = {
    "initiator_top_wait_without_trick": functools.partial(longest, role="initiator", ratio=BASE_DIALOG_RATIO),
    "initiator_top_wait_with_trick": functools.partial(longest, role="initiator", ratio=TRICK_DIALOG_RATIO),
    "target_top_wait": functools.partial(longest, role="target", ratio=TRICK_DIALOG_RATIO),
    "initiator_waits_more": initiators_wait_more,
    "contention_above_15": contention_above_15,
    "trick_removes_contention": trick_removes,
}
