"""Claims on what instances wait for, with three initiators: wait types, whose pages, and on which pages dialogs lie."""

import functools
from collections.abc import Callable, Mapping

import pandas as pd

from harness.claims.judgement import PAIR, VISIT, Evidence
from harness.claims.measurement import Measurement, NotMeasured, place, quotient_of_sums
from harness.definitions.units import counted
from harness.definitions.whitepaper import (
    BASE_DIALOG_RATIO,
    GAIN_NOTICEABLE_FROM,
    LATCHED_TABLE,
    NO_GAIN_UP_TO,
    TOP_WAIT,
    TRICK_DIALOG_RATIO,
)

INITIATORS = 3
PAGE_LATCHES = "PAGELATCH_EX/SH"  # the paper counts both together
LOG = "WRITELOG"
RECEIVING_TABLE = "sys.sysdercv"


def by_wait_type(evidence: Evidence, role: str) -> pd.DataFrame:
    """Return milliseconds of waiting: a row per cell and block, a column per wait type, page latches as one.

    The table of waits has no row for a role that never waited. If waits of the other role were recorded in that cell,
    not having waited is a measured zero.
    """
    chosen, recorded = _recorded(evidence, role)
    wait_types = chosen.wait_type.where(~chosen.wait_type.isin(["PAGELATCH_EX", "PAGELATCH_SH"]), PAGE_LATCHES)
    by_cell = chosen.groupby([*VISIT, wait_types]).wait_time_ms.sum().unstack(fill_value=0)
    return by_cell.reindex(recorded, fill_value=0)


def all_waiting(evidence: Evidence, role: str) -> pd.Series:
    """Return milliseconds of all waiting per cell and block, computed from the longest waits and their share: the table
    of waits holds no others."""
    chosen, recorded = _recorded(evidence, role)
    sums = chosen.groupby(VISIT)[["wait_time_ms", "share_percent"]].sum()
    all_ms = 100 * sums.wait_time_ms / sums.share_percent.where(sums.share_percent > 0)
    return all_ms.reindex(recorded).fillna(0.0)


def _recorded(evidence: Evidence, role: str) -> tuple[pd.DataFrame, pd.MultiIndex]:
    """Return the waits of a role, and the cells and blocks in which any waits were recorded."""
    if evidence.waits.empty:
        raise NotMeasured("no waits were recorded")
    waits = evidence.waits[evidence.waits.initiators == INITIATORS]
    chosen = waits[waits.role == role]
    if chosen.empty:
        role_words = "the target" if role == "target" else "initiators"
        raise NotMeasured(f"no waits of {role_words} were recorded with {INITIATORS} initiators")
    return chosen, pd.MultiIndex.from_frame(waits[VISIT].drop_duplicates().sort_values(VISIT))


def longest(evidence: Evidence, role: str, ratio: int) -> Measurement:
    """Measure how far the stated wait type is ahead of the longest other one, in points of its share in all waiting."""
    stated = TOP_WAIT[role, ratio]
    cells = evidence.cells
    loaded = cells[(cells.dialog_ratio == ratio) & (cells.total_threads >= GAIN_NOTICEABLE_FROM.value)]
    waits = by_wait_type(evidence, role)
    waits = waits[waits.index.isin(loaded.cell_id, level="cell_id")]
    total_ms = all_waiting(evidence, role)[waits.index]
    if not total_ms.sum():
        raise NotMeasured(
            f"no waits were recorded with {INITIATORS} initiators, dialog ratio {ratio} and "
            f"{GAIN_NOTICEABLE_FROM.value:.0f} or more threads"
        )
    other_waits = waits.drop(columns=stated, errors="ignore")
    other_waits = other_waits if other_waits.shape[1] else pd.DataFrame({"any other": 0}, index=waits.index)
    runner_up = other_waits.sum().idxmax()
    pair = pd.DataFrame({stated: waits.get(stated, 0), runner_up: other_waits[runner_up]}, index=waits.index)
    shares = (100 * pair.sum() / total_ms.sum()).sort_values(ascending=False)
    shares_text = ", ".join(f"{wait_type} {share:.0f} %" for wait_type, share in shares.items() if share > 0)
    return quotient_of_sums(
        pair[stated] - pair[runner_up],
        total_ms,
        f"shares of all waiting in {_cells(waits)} with {INITIATORS}×{GAIN_NOTICEABLE_FROM.value // INITIATORS:.0f} "
        f"or more threads: {shares_text}",
    ).scaled(100)


def initiators_wait_more(evidence: Evidence) -> Measurement:
    """Measure the page latch and log waits of one initiator, in percent of those of an initiator and the target."""
    initiators, target = (
        by_wait_type(evidence, role).reindex(columns=[PAGE_LATCHES, LOG], fill_value=0).sum(axis=1)
        for role in ("initiator", "target")
    )
    of_one = initiators / INITIATORS
    if not (of_one + target).sum():
        raise NotMeasured(f"no instance waited for {PAGE_LATCHES} or {LOG}")
    return quotient_of_sums(
        of_one,
        of_one + target,
        f"{of_one.sum() / 1000:,.0f} s per initiator, {target.sum() / 1000:,.0f} s at the target, in {_cells(of_one)} "
        f"with {INITIATORS} initiators",
    ).scaled(100)


def contention_above_15(evidence: Evidence) -> Measurement:
    """Measure page latch waiting per message above 15 threads, in percent of that above and below together."""
    latched = _latched(evidence, BASE_DIALOG_RATIO)
    few = latched.total_threads <= NO_GAIN_UP_TO.value
    if few.all() or not few.any():
        raise NotMeasured(
            f"cells with every dialog used are missing above {NO_GAIN_UP_TO.value:.0f} threads, or at "
            f"{NO_GAIN_UP_TO.value:.0f} and fewer"
        )
    by_block = pd.DataFrame({"above": _per_message(latched[~few]), "below": _per_message(latched[few])}).dropna()
    if by_block.empty:
        raise NotMeasured("no block has cells on both sides")
    larger, smaller = by_block.above, by_block.below
    shares = (larger / (larger + smaller)).where(larger + smaller > 0, 0.0)
    return place(
        100 * shares,
        f"{larger.mean():,.1f} ms a message above {NO_GAIN_UP_TO.value:.0f} threads, {smaller.mean():,.1f} ms at "
        f"{NO_GAIN_UP_TO.value:.0f} and fewer, in {latched.cell_id.nunique()} cells with {INITIATORS} initiators",
    )


def trick_removes(evidence: Evidence) -> Measurement:
    """Measure page latch waiting per message with the trick, in percent of that of the same cells without it."""
    pair = [*PAIR, "block"]
    base, trick = (
        latched[latched.total_threads > NO_GAIN_UP_TO.value].set_index(pair)[["waited_ms", "messages"]]
        for latched in (_latched(evidence, ratio) for ratio in (BASE_DIALOG_RATIO, TRICK_DIALOG_RATIO))
    )
    common = base.index.intersection(trick.index)
    base, trick = base.loc[common], trick.loc[common]
    if common.empty:
        raise NotMeasured(f"no pair of cells of both dialog ratios above {NO_GAIN_UP_TO.value:.0f} threads")
    if not base.waited_ms.sum():
        raise NotMeasured(f"no initiator waited for {PAGE_LATCHES} without the trick: there is nothing to remove")
    left = (_per_message(trick) / _per_message(base).where(lambda waited: waited > 0)).dropna()
    return place(
        100 * left,
        f"of the waiting for {PAGE_LATCHES} per message is left, in {len(common.droplevel('block').unique())} pairs of "
        f"cells above {NO_GAIN_UP_TO.value:.0f} threads",
    )


def _per_message(latched: pd.DataFrame) -> pd.Series:
    """Return milliseconds of waiting per message in each block."""
    sums = latched.groupby("block")[["waited_ms", "messages"]].sum()
    return sums.waited_ms / sums.messages


def _latched(evidence: Evidence, ratio: int) -> pd.DataFrame:
    """Return the cells that processed messages, how many, and how long their initiators waited for page latches."""
    waits = by_wait_type(evidence, "initiator")
    cells = evidence.cells
    chosen = cells[
        (cells.initiators == INITIATORS) & (cells.dialog_ratio == ratio) & (cells.processed_per_s > 0)
    ].set_index(VISIT)
    chosen = chosen[chosen.index.isin(waits.index)]
    waited = waits[PAGE_LATCHES] if PAGE_LATCHES in waits else pd.Series(0, index=waits.index)
    messages = chosen.processed_per_s * chosen.measured_s
    return chosen.assign(waited_ms=waited.reindex(chosen.index), messages=messages).reset_index()


def contention_on_sysdesend(evidence: Evidence) -> Measurement:
    sampled = _seen(evidence)
    return _share_of(sampled[sampled.instance != "target"], LATCHED_TABLE, "at initiators")


def sysdercv_no_bottleneck(evidence: Evidence) -> Measurement:
    return _share_of(_seen(evidence), RECEIVING_TABLE, "at all instances")


def _seen(evidence: Evidence) -> pd.DataFrame:
    """Choose the page latch waits of figure 5's contended cells: three initiators, more than 15 threads, every dialog
    used."""
    share = evidence.latch_share
    if share.empty:
        raise NotMeasured("tasks that wait for page latches were not sampled")
    loaded = (share.initiators == INITIATORS) & (share.initiators * share.threads > NO_GAIN_UP_TO.value)
    chosen = share[loaded & (share.dialog_ratio == BASE_DIALOG_RATIO)]
    if chosen.empty:
        raise NotMeasured(
            f"tasks that wait for page latches were not sampled with {INITIATORS} initiators, more than "
            f"{NO_GAIN_UP_TO.value:.0f} threads and every dialog used"
        )
    return chosen


def _share_of(sampled: pd.DataFrame, table: str, where: str) -> Measurement:
    """Measure how many percent of the waiting tasks that were seen waited for a page of `table`."""
    of_table = sampled.times_seen.where(sampled.object_name == table, 0).groupby([sampled.cell_id, sampled.block]).sum()
    of_all = sampled.groupby(VISIT).times_seen.sum()
    if not of_all.sum():
        raise NotMeasured(f"no task was seen waiting for a page latch {where}, in {_cells(of_all)}")
    return quotient_of_sums(
        of_table,
        of_all,
        f"of {of_all.sum():,} times that a task was seen waiting for a page latch {where}, above "
        f"{NO_GAIN_UP_TO.value:.0f} threads, in {_cells(of_all)}",
    ).scaled(100)


def hot_page(evidence: Evidence) -> Measurement:
    spread = _page_spread(evidence, BASE_DIALOG_RATIO)
    spread = spread[spread.used_dialogs > 1]
    if spread.empty:
        raise NotMeasured("no cell without the trick uses several dialogs per initiator")
    sharing, used = int(spread.dialogs_sharing_a_page.sum()), int(spread.used_dialogs.sum())
    # The dialogs of a group were begun once: cells and blocks see the same pages, so this is a count.
    return Measurement(
        100 * sharing / used,
        f"{sharing:,} of {used:,} used dialogs share their page with another, in {len(spread):,} pools",
    )


def page_of_its_own(evidence: Evidence) -> Measurement:
    spread = _page_spread(evidence, TRICK_DIALOG_RATIO)
    return Measurement(
        float(spread.dialogs_per_page_max.max()), f"the most used dialogs on one page, in {len(spread):,} pools"
    )


def _page_spread(evidence: Evidence, ratio: int) -> pd.DataFrame:
    """Choose the rows of pools with a dialog ratio; a pool is the dialogs of one initiator in one cell."""
    if evidence.page_spread.empty:
        raise NotMeasured("the pages of the dialogs were not read")
    chosen = evidence.page_spread[
        (evidence.page_spread.dialog_ratio == ratio) & (evidence.page_spread.used_dialogs > 0)
    ]
    if chosen.empty:
        raise NotMeasured(f"the pages of dialogs with dialog ratio {ratio} were not read")
    return chosen


def _cells(rows: pd.DataFrame | pd.Series) -> str:
    """Count the cells of rows by cell and block: `3 cells`."""
    number = rows.index.get_level_values("cell_id").nunique()
    return counted(number, "cell")


MEASURES: Mapping[str, Callable[[Evidence], Measurement]] = {
    "initiator_top_wait_without_trick": functools.partial(longest, role="initiator", ratio=BASE_DIALOG_RATIO),
    "initiator_top_wait_with_trick": functools.partial(longest, role="initiator", ratio=TRICK_DIALOG_RATIO),
    "target_top_wait": functools.partial(longest, role="target", ratio=TRICK_DIALOG_RATIO),
    "initiator_waits_more": initiators_wait_more,
    "contention_above_15": contention_above_15,
    "trick_removes_contention": trick_removes,
    "contention_on_sysdesend": contention_on_sysdesend,
    "sysdercv_no_bottleneck": sysdercv_no_bottleneck,
    "hot_page_without_trick": hot_page,
    "page_of_its_own_with_trick": page_of_its_own,
}
