"""Claims on pages: on which pages used dialogs lie, and whose pages tasks wait for."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import pandas as pd

from harness.claims.judgement import Measurement, NotMeasured, Tables, quotient_of_sums
from harness.whitepaper import BASE_DIALOG_RATIO, LATCHED_TABLE, NO_GAIN_UP_TO, TRICK_DIALOG_RATIO

INITIATORS = 3
RECEIVING_TABLE = "sys.sysdercv"


def contention_on_sysdesend(tables: Tables) -> Measurement:
    seen = _seen(tables)
    return _share_of(seen[seen.instance != "target"], LATCHED_TABLE, "at initiators")


def sysdercv_no_bottleneck(tables: Tables) -> Measurement:
    return _share_of(_seen(tables), RECEIVING_TABLE, "at all instances")


def _seen(tables: Tables) -> pd.DataFrame:
    """Choose the page latch waits of figure 5's contended cells: three initiators, more than 15 threads, every dialog
    used."""
    share = tables.latch_share
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


def _share_of(seen: pd.DataFrame, table: str, where: str) -> Measurement:
    """Measure how many percent of the waiting tasks that were seen waited for a page of `table`."""
    of_table = seen.times_seen.where(seen.object_name == table, 0).groupby(seen.cell_id).sum()
    of_all = seen.groupby("cell_id").times_seen.sum()
    if not of_all.sum():
        raise NotMeasured(f"no task was seen waiting for a page latch {where}, in {len(of_all)} cells")
    return quotient_of_sums(
        of_table,
        of_all,
        f"of {of_all.sum():,} times that a task was seen waiting for a page latch {where}, above "
        f"{NO_GAIN_UP_TO.value:.0f} threads, in {len(of_all)} cells",
        scale=100,
    )


def hot_page(tables: Tables) -> Measurement:
    spread = _page_spread(tables, BASE_DIALOG_RATIO)
    spread = spread[spread.used_dialogs > 1]
    if spread.empty:
        raise NotMeasured("no cell without the trick uses several dialogs per initiator")
    sharing, used = spread.dialogs_sharing_a_page, spread.used_dialogs
    basis = f"{sharing.sum():,} of {used.sum():,} used dialogs share their page with another, in {len(spread)} pools"
    return quotient_of_sums(sharing, used, basis, scale=100, over="pools")


def page_of_its_own(tables: Tables) -> Measurement:
    spread = _page_spread(tables, TRICK_DIALOG_RATIO)
    return Measurement(
        float(spread.dialogs_per_page_max.max()), f"the most used dialogs on one page, in {len(spread)} pools"
    )


def _page_spread(tables: Tables, ratio: int) -> pd.DataFrame:
    """Choose the rows of pools with a dialog ratio; a pool is the dialogs of one initiator in one cell."""
    if tables.page_spread.empty:
        raise NotMeasured("the pages of the dialogs were not read")
    chosen = tables.page_spread[(tables.page_spread.dialog_ratio == ratio) & (tables.page_spread.used_dialogs > 0)]
    if chosen.empty:
        raise NotMeasured(f"the pages of dialogs with dialog ratio {ratio} were not read")
    return chosen


MEASURES: Mapping[str, Callable[[Tables], Measurement]] = {
    "contention_on_sysdesend": contention_on_sysdesend,
    "sysdercv_no_bottleneck": sysdercv_no_bottleneck,
    "hot_page_without_trick": hot_page,
    "page_of_its_own_with_trick": page_of_its_own,
}
