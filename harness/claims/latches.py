"""Claims on pages: where used dialogs lie, whose pages tasks wait for."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np
import pandas as pd

from harness.claims.intervals import bootstrap, of_proportion
from harness.claims.judgement import Measurement, NotMeasured, Tables
from harness.whitepaper import BASE_DIALOG_RATIO, LATCHED_TABLE, NO_GAIN_UP_TO, TRICK_DIALOG_RATIO

INITIATORS = 3
RECEIVING_TABLE = "sys.sysdercv"


def contention_on_sysdesend(tables: Tables) -> Measurement:
    seen = _seen(tables)
    initiators = seen[seen.instance != "target"]
    return _share_of(initiators, LATCHED_TABLE, "at initiators")


def sysdercv_no_bottleneck(tables: Tables) -> Measurement:
    return _share_of(_seen(tables), RECEIVING_TABLE, "at all instances")


def _seen(tables: Tables) -> pd.DataFrame:
    """Tasks seen waiting for page latches with three initiators, as in figure 5, above the stated number of threads,
    where every dialog is used."""
    share = tables.latch_share
    if share.empty:
        raise NotMeasured("whose page latches tasks waited for was not observed")
    loaded = (share.initiators == INITIATORS) & (share.initiators * share.threads > NO_GAIN_UP_TO.value)
    chosen = share[loaded & (share.dialog_ratio == BASE_DIALOG_RATIO)]
    if chosen.empty:
        raise NotMeasured(
            f"nobody looked at page latches with {INITIATORS} initiators, above {NO_GAIN_UP_TO.value:.0f} threads and "
            "without the trick"
        )
    return chosen


def _share_of(seen: pd.DataFrame, table: str, where: str) -> Measurement:
    """The part of the tasks seen waiting that waited for a page of `table`, in percent."""
    of_table = seen.times_seen.where(seen.object_name == table, 0)
    by_cell = pd.DataFrame({"of_table": of_table, "all": seen.times_seen}).groupby(seen.cell_id).sum()
    times = int(by_cell["all"].sum())
    if not times:
        raise NotMeasured(f"nobody was seen waiting for a page latch {where}, in {len(by_cell)} cells")
    return Measurement(
        _percent(by_cell.to_numpy(dtype=float)),
        f"of {times:,} times that a task was seen waiting for a page latch {where}, above {NO_GAIN_UP_TO.value:.0f} "
        f"threads, in {len(by_cell)} cells",
        bootstrap(by_cell, _percent),
        "cells",
    )


def _percent(rows: np.ndarray) -> float:
    part, whole = rows.sum(axis=0)
    return float(100 * part / whole) if whole else 0.0


def hot_page(tables: Tables) -> Measurement:
    spread = _spread(tables, BASE_DIALOG_RATIO)
    spread = spread[spread.used_dialogs > 1]
    if spread.empty:
        raise NotMeasured("no cell uses several dialogs of an initiator without the trick")
    sharing, used = int(spread.dialogs_sharing_a_page.sum()), int(spread.used_dialogs.sum())
    low, high = of_proportion(sharing, used)
    return Measurement(
        100 * sharing / used,
        f"{sharing:,} of {used:,} used dialogs share their page with another, over all cells and initiators",
        (100 * low, 100 * high),
        "dialogs",
    )


def page_of_its_own(tables: Tables) -> Measurement:
    spread = _spread(tables, TRICK_DIALOG_RATIO)
    return Measurement(
        float(spread.dialogs_per_page_max.max()),
        f"the most used dialogs on one page, of {len(spread)} pools",
    )


def _spread(tables: Tables, ratio: int) -> pd.DataFrame:
    """Where the dialogs of each pool lie; a pool is one initiator's in one cell."""
    if tables.page_spread.empty:
        raise NotMeasured("on which pages dialogs lie was not observed")
    chosen = tables.page_spread[(tables.page_spread.dialog_ratio == ratio) & (tables.page_spread.used_dialogs > 0)]
    if chosen.empty:
        raise NotMeasured(f"on which pages dialogs of ratio {ratio} lie was not observed")
    return chosen


MEASURES: Mapping[str, Callable[[Tables], Measurement]] = {
    "contention_on_sysdesend": contention_on_sysdesend,
    "sysdercv_no_bottleneck": sysdercv_no_bottleneck,
    "hot_page_without_trick": hot_page,
    "page_of_its_own_with_trick": page_of_its_own,
}
