"""Claims on what instances wait for. Three initiators at loads where the paper sees the trick at work, unless told."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping

import numpy as np
import pandas as pd

from harness.claims.intervals import bootstrap
from harness.claims.judgement import Measurement, NotMeasured, Tables
from harness.whitepaper import BASE_DIALOG_RATIO, GAIN_NOTICEABLE_FROM, NO_GAIN_UP_TO, TOP_WAIT, TRICK_DIALOG_RATIO

INITIATORS = 3
PAGE_LATCHES = "PAGELATCH_EX/SH"  # as the paper counts them, together
LOG = "WRITELOG"
PAIR = ["server_version", "initiators", "threads", "payload_bytes"]


def by_family(tables: Tables, role: str) -> pd.DataFrame:
    """Milliseconds of waiting: a row a cell with three initiators, a column a wait type, page latches as one.

    The index is the cell's id. The table leaves out who did not wait: where the other role did, waits were recorded,
    and nobody waiting is a measured zero.
    """
    chosen, recorded = _recorded(tables, role)
    families = chosen.wait_type.where(~chosen.wait_type.isin(["PAGELATCH_EX", "PAGELATCH_SH"]), PAGE_LATCHES)
    by_cell = chosen.groupby(["cell_id", families]).wait_time_ms.sum().unstack(fill_value=0)
    return by_cell.reindex(recorded, fill_value=0)


def all_waiting(tables: Tables, role: str) -> pd.Series:
    """Milliseconds of all waiting, a cell; the table keeps a role's longest waits alone, and which share they are."""
    chosen, recorded = _recorded(tables, role)
    kept = chosen.groupby("cell_id")[["wait_time_ms", "share_percent"]].sum()
    whole = 100 * kept.wait_time_ms / kept.share_percent.where(kept.share_percent > 0)
    return whole.reindex(recorded).fillna(0.0)


def _recorded(tables: Tables, role: str) -> tuple[pd.DataFrame, pd.Index]:
    """The waits of a role with three initiators, and the cells in which waits were recorded."""
    if tables.waits.empty:
        raise NotMeasured("no waits were recorded")
    waits = tables.waits[tables.waits.initiators == INITIATORS]
    chosen = waits[waits.role == role]
    if chosen.empty:
        raise NotMeasured(
            f"no waits of {'the target' if role == 'target' else 'initiators'} with {INITIATORS} initiators"
        )
    return chosen, pd.Index(np.unique(waits.cell_id))


def longest(tables: Tables, role: str, ratio: int) -> Measurement:
    """How many points of its share in all waiting the stated wait type is ahead of the longest other one."""
    stated = TOP_WAIT[role, ratio]
    cells = tables.cells
    loaded = cells[(cells.dialog_ratio == ratio) & (cells.total_threads >= GAIN_NOTICEABLE_FROM.value)]
    waits = by_family(tables, role)
    waits = waits[waits.index.isin(loaded.cell_id)]
    whole = all_waiting(tables, role)[waits.index]
    if not whole.sum():
        raise NotMeasured(
            f"no waits with {INITIATORS} initiators, dialog ratio {ratio} and {GAIN_NOTICEABLE_FROM.value:.0f} or more "
            "threads"
        )
    others = [family for family in waits if family != stated] or ["any other"]
    waits = waits.reindex(columns=[stated, *others], fill_value=0)
    shares = (100 * waits.sum() / whole.sum()).sort_values(ascending=False)
    rows = waits.assign(whole=whole)
    told = ", ".join(f"{family} {share:.0f} %" for family, share in shares.head(2).items() if share > 0)
    return Measurement(
        _lead(rows.to_numpy(dtype=float)),
        f"longest in {len(waits)} cells with {INITIATORS}×{GAIN_NOTICEABLE_FROM.value // INITIATORS:.0f} or more "
        f"threads: {told}",
        bootstrap(rows, _lead),
        "cells",
    )


def _lead(rows: np.ndarray) -> float:
    """Of the first column over the longest other, in points of the last, which is the whole."""
    stated, *others, whole = rows.sum(axis=0)
    return float(100 * (stated - max(others)) / whole) if whole else float("nan")


def initiators_wait_more(tables: Tables) -> Measurement:
    """An initiator's page latch and log waits, of those of an initiator and the target together."""
    waits = {role: by_family(tables, role) for role in ("initiator", "target")}
    of_claim = pd.DataFrame(
        {
            role: table[[name for name in (PAGE_LATCHES, LOG) if name in table]].sum(axis=1)
            for role, table in waits.items()
        }
    )
    each = of_claim.initiator / INITIATORS
    if not (each + of_claim.target).sum():
        raise NotMeasured(f"nobody waited for {PAGE_LATCHES} or {LOG}")
    return Measurement(
        _share(np.column_stack([each, of_claim.target])),
        f"{each.sum() / 1000:,.0f} s an initiator, {of_claim.target.sum() / 1000:,.0f} s the target, in "
        f"{len(of_claim)} cells with {INITIATORS} initiators",
        bootstrap(pd.DataFrame({"initiator": each, "target": of_claim.target}), _share),
        "cells",
    )


def _share(rows: np.ndarray) -> float:
    """Of the first column in all, percent; nothing of nothing is nothing."""
    whole = rows.sum()
    return float(100 * rows[:, 0].sum() / whole) if whole else 0.0


def contention_above_15(tables: Tables) -> Measurement:
    """Page latch waiting for each message above the stated number of threads, of that above and below together."""
    latched = _latched(tables, BASE_DIALOG_RATIO)
    few = latched.total_threads <= NO_GAIN_UP_TO.value
    if few.all() or not few.any():
        raise NotMeasured(f"no cells with every dialog both above {NO_GAIN_UP_TO.value:.0f} threads and not above")
    rows = pd.DataFrame({"few": few, "waited_ms": latched.waited_ms, "messages": latched.messages}).astype(float)
    above, below = _each(rows.to_numpy())
    return Measurement(
        _above_part(rows.to_numpy()),
        f"{1000 * above:,.1f} ms for each 1,000 messages above {NO_GAIN_UP_TO.value:.0f} threads, "
        f"{1000 * below:,.1f} ms not above, in {len(rows)} cells with {INITIATORS} initiators",
        bootstrap(rows, _above_part),
        "cells",
    )


def _each(rows: np.ndarray) -> tuple[float, float]:
    """Waiting for each message, of many and of few threads: columns few, waited_ms, messages."""
    few = rows[:, 0] > 0
    sums = [rows[which, 1:].sum(axis=0) for which in (~few, few)]
    above, below = (waited / messages if messages else float("nan") for waited, messages in sums)
    return above, below


def _above_part(rows: np.ndarray) -> float:
    above, below = _each(rows)
    return float(100 * above / (above + below)) if above + below else 0.0


def trick_removes(tables: Tables) -> Measurement:
    """Page latch waiting for each message that the trick leaves, of the same cells, in percent of that without."""
    base, trick = (
        latched[latched.total_threads > NO_GAIN_UP_TO.value].set_index(PAIR)
        for latched in (_latched(tables, ratio) for ratio in (BASE_DIALOG_RATIO, TRICK_DIALOG_RATIO))
    )
    columns = ["waited_ms", "messages"]
    both = base[columns].join(trick[columns], how="inner", lsuffix="_base", rsuffix="_trick")
    if both.empty:
        raise NotMeasured(f"no pair of cells of both dialog ratios above {NO_GAIN_UP_TO.value:.0f} threads")
    if not both.waited_ms_base.sum():
        raise NotMeasured(f"nobody waited for {PAGE_LATCHES} without the trick: there is nothing to remove")
    rows = both[["waited_ms_base", "messages_base", "waited_ms_trick", "messages_trick"]]
    return Measurement(
        _left(rows.to_numpy(dtype=float)),
        f"of the waiting for {PAGE_LATCHES} for each message is left, in {len(both)} pairs of cells above "
        f"{NO_GAIN_UP_TO.value:.0f} threads",
        bootstrap(rows, _left),
        "cells",
    )


def _left(rows: np.ndarray) -> float:
    waited_base, messages_base, waited_trick, messages_trick = rows.sum(axis=0)
    if not waited_base or not messages_trick:
        return float("nan")
    return float(100 * (waited_trick / messages_trick) / (waited_base / messages_base))


def _latched(tables: Tables, ratio: int) -> pd.DataFrame:
    """The cells with three initiators and so many messages, and what their initiators waited for page latches."""
    waits = by_family(tables, "initiator")
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
