"""Precision on demand: a pair of cells is repeated until the interval of its gain is narrow enough.

What counts is what counts in the report: blocks in which both cells count. The spread from block to block is that of
all pairs together, so that no pair stops because its own blocks lie close together by chance. The decision about a
block is made from the journal's blocks before it, so that all cells of a pair run in it or none, and a resumed sweep
decides the same. As long as gains seem to follow those of the block before, no pair stops: intervals are too narrow
then.
"""

# ruff: noqa: PLC0415  pandas and SciPy take a second to import, and only a run with a precision needs them

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from harness.definitions.matrix import Cell, Pair, Visit
from harness.definitions.whitepaper import BASE_DIALOG_RATIO
from harness.files.journal import Entry, Journal
from harness.files.settings import RunSettings, SettingsError

if TYPE_CHECKING:
    import pandas as pd


def require_possible(settings: RunSettings, cells: Sequence[Cell]) -> None:
    """Raise SettingsError where the settings ask for a precision that no gain of the selected cells can have."""
    if settings.precision is None:
        return
    from harness.claims.gain import BLOCKS_OF_PRECISION

    if settings.repeats < BLOCKS_OF_PRECISION:
        raise SettingsError(
            f"--precision needs the spread from block to block, which fewer than {BLOCKS_OF_PRECISION} blocks do not "
            f"show: give the most blocks with --repeats, {BLOCKS_OF_PRECISION} or more"
        )
    if not _gains_by_pair(cells):
        raise SettingsError(
            f"--precision is that of gains: select cells with dialog ratio {BASE_DIALOG_RATIO} and with another"
        )


def _gains_by_pair(cells: Iterable[Cell]) -> Counter[Pair]:
    """Count the gains of each pair that has any: its cells beside the one that uses every dialog."""
    cells = set(cells)
    with_base = {cell.pair for cell in cells if cell.dialog_ratio == BASE_DIALOG_RATIO}
    return Counter(cell.pair for cell in cells if cell.dialog_ratio != BASE_DIALOG_RATIO and cell.pair in with_base)


def forecast(settings: RunSettings) -> str:
    """Say before a run after how many blocks a pair is expected to get there."""
    from harness.experiments import repeats_plan

    assert settings.precision is not None
    if noise := repeats_plan.newest(settings.results, settings.lab):
        return f"{repeats_plan.forecast(settings.precision, settings.repeats, noise)} {noise}"
    return repeats_plan.unknown(settings.results, settings.lab)


def reached(precision: float, entries: Iterable[Entry]) -> str:
    """Say how many of the journal's gains are as precise as was asked, and which are not."""
    from harness.claims.gain import precision_reached

    return precision_reached(_gains(entries), precision)


class Precision:
    """Decides which visits of a run are still needed: all of them where no precision is asked for."""

    def __init__(self, precision: float | None, visits: Sequence[Visit], journal: Journal) -> None:
        self._precision = precision
        self._gains = _gains_by_pair([visit.cell for visit in visits])
        self._pairs = {visit.cell.id: visit.cell.pair for visit in visits}
        self._journal = journal
        self._block = 0  # the block that `_precise` is for
        self._precise: set[tuple[Any, ...]] = set()  # pairs that were precise enough when the block began

    def is_needed(self, visit: Visit) -> bool:
        """Whether a gain of the visit's pair was not yet precise enough when its block began."""
        if self._precision is None:
            return True
        if visit.block != self._block:
            self._block, self._precise = visit.block, self._pairs_before(visit.block, self._precision)
        return visit.cell.pair not in self._precise

    def _pairs_before(self, block: int, precision: float) -> set[tuple[Any, ...]]:
        from harness.claims.gain import BLOCKS_OF_PRECISION, correlation, interval_widths
        from harness.claims.judgement import PAIR

        before = [entry for entry in self._journal.entries if entry.block < block]
        # A pair that stopped stays so, though the spread of all may grow: a block that it lacks cannot be made up for.
        ran = {entry.cell for entry in before if entry.block == block - 1}
        has_ends = block > BLOCKS_OF_PRECISION  # the blocks before have all pairs, and may run at the same time
        stopped = {pair for cell_id, pair in self._pairs.items() if has_ends and cell_id not in ran}
        gains_before = _gains(before)
        if (follows := correlation(gains_before)) and follows.is_suspected:
            return stopped
        widths = interval_widths(gains_before)
        counts = widths[widths.width < precision].groupby(PAIR).size()
        return stopped | {pair for pair, gains in counts.items() if gains == self._gains[pair]}


def _gains(entries: Iterable[Entry]) -> pd.DataFrame:
    """Return the completed cells of a journal as the reduced table `gain` has them: a row per gain and block."""
    import pandas as pd

    from harness.claims.judgement import GAIN
    from harness.files.records import WITH_THROUGHPUT

    completed, rows = {}, []
    for attempt in entries:
        if attempt.outcome == "completed":
            with contextlib.suppress(ValueError):  # a line that somebody wrote: no cell is called so
                completed[Cell.parse(attempt.cell), attempt.block] = attempt
    for (cell, block), entry in completed.items():
        base = completed.get((replace(cell, dialog_ratio=BASE_DIALOG_RATIO), block))
        if cell.dialog_ratio != BASE_DIALOG_RATIO and base is not None:
            factor = entry.processed_per_s / base.processed_per_s if base.processed_per_s else 0.0
            rows.append((*cell.pair, cell.dialog_ratio, block, factor, {entry.state, base.state} <= WITH_THROUGHPUT))
    return pd.DataFrame(rows, columns=[*GAIN, "block", "factor", "valid"])
