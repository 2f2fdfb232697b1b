"""A claim's verdict, the number and the reason behind it, and how far apart the values lie that it is made of."""

from __future__ import annotations

import dataclasses
import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from enum import StrEnum
from typing import TypeVar

import numpy as np
import pandas as pd

from harness.claims.provenance import Provenance
from harness.whitepaper import TRICK_DIALOG_RATIO, Claim


class Verdict(StrEnum):
    HOLDS = "holds"
    FAILS = "fails"
    INCONCLUSIVE = "inconclusive"  # the number's interval crosses a bound
    NOT_MEASURED = "not measured"


class NotMeasured(Exception):
    """The result set lacks what a claim speaks of; the message says what is missing."""


@dataclass(frozen=True, kw_only=True)
class Tables:
    """The reduced tables of a run; a table that the run lacks is empty and has no columns."""

    cells: pd.DataFrame = field(default_factory=pd.DataFrame)
    seconds: pd.DataFrame = field(default_factory=pd.DataFrame)
    gain: pd.DataFrame = field(default_factory=pd.DataFrame)
    waits: pd.DataFrame = field(default_factory=pd.DataFrame)
    page_spread: pd.DataFrame = field(default_factory=pd.DataFrame)
    latch_share: pd.DataFrame = field(default_factory=pd.DataFrame)
    file_io: pd.DataFrame = field(default_factory=pd.DataFrame)
    techniques: pd.DataFrame = field(default_factory=pd.DataFrame)


@dataclass(frozen=True, kw_only=True)
class Evidence(Tables):
    """What claims are judged by: the rows of valid cells alone, and beside them all cells that were completed."""

    completed: pd.DataFrame


def evidence(tables: Tables) -> Evidence:
    """Leave out the rows of cells that are not valid. This is the only place where claims choose cells by their state.

    The table of techniques stays whole: without most of them the target falls behind, and that is their effect.
    """
    parts = {each.name: getattr(tables, each.name) for each in fields(Tables)}
    if len(tables.cells):
        valid = tables.cells.cell_id[is_valid(tables.cells)]
        for name in parts.keys() - {"techniques"}:
            if "cell_id" in parts[name]:
                parts[name] = parts[name][parts[name].cell_id.isin(valid)]
    if len(tables.gain):
        parts["gain"] = tables.gain[is_valid(tables.gain)]
    return Evidence(**parts, completed=tables.cells)


def is_valid(rows: pd.DataFrame) -> pd.Series:
    """Whether each cell counts, or both cells of each pair."""
    return rows.target_kept_up.astype(bool)


def fell_behind(cells: pd.DataFrame) -> pd.Series:
    """Whether the target of each cell processed less than what was sent."""
    return ~cells.target_kept_up.astype(bool)


# What the rows of a table are the same in, whatever their block.
_CELL = ["cell_id", "server_version", "initiators", "threads", "total_threads", "dialog_ratio", "payload_bytes"]
_SAME = ["run_id", "lab", *_CELL]
_WAIT = [*_SAME, "role", "wait_type"]
_FILE = [*_SAME, "instance", "database_name", "file_name", "file_type"]
SomeTables = TypeVar("SomeTables", bound=Tables)


def over_blocks(tables: SomeTables) -> SomeTables:
    """Return the tables with one row where cells, gain, waits and files have one for each block.

    Rates, latencies and factors become their geometric means over the blocks. Waits and file activity become
    arithmetic means over the cell's blocks; a block without such a row counts as zero. The other tables stay.
    """
    cells = _geometric(tables.cells, _SAME)
    gain = _geometric(tables.gain, _SAME)
    if gain is not tables.gain:
        gain["gain_percent"] = 100 * (gain.factor - 1)
    blocks = tables.cells.groupby("cell_id").block.nunique() if _has_blocks(tables.cells) else None
    waits, files = (
        table if blocks is None or table.empty else _arithmetic(table, same, blocks)
        for table, same in ((tables.waits, _WAIT), (tables.file_io, _FILE))
    )
    return dataclasses.replace(tables, cells=cells, gain=gain, waits=waits, file_io=files)


def _has_blocks(table: pd.DataFrame) -> bool:
    return len(table) > 0 and table.block.nunique() > 1


def _geometric(table: pd.DataFrame, same: Sequence[str]) -> pd.DataFrame:
    """Merge the rows that are the same but for their block. A flag is true if it is in all blocks."""
    if not _has_blocks(table):
        return table
    keys = [name for name in same if name in table]
    measured = table.drop(columns=["block", "attempt"], errors="ignore")
    flags = [name for name in measured.select_dtypes(bool) if name not in keys]
    numbers = [name for name in measured.select_dtypes("number") if name not in keys]
    others = [name for name in measured if name not in (*keys, *flags, *numbers)]
    groups = measured.groupby(keys, as_index=True)
    merged = groups[others].first().join(groups[flags].all())
    values = measured[numbers]
    by = [measured[name] for name in keys]
    means = np.exp(np.log(values.where(values > 0)).groupby(by).mean())
    # Where a block has no positive value there is no geometric mean.
    means = means.where(~(values <= 0).groupby(by).any(), values.groupby(by).mean())
    return merged.join(means).reset_index()[list(measured)]


def _arithmetic(table: pd.DataFrame, same: Sequence[str], blocks: pd.Series) -> pd.DataFrame:
    keys = [name for name in same if name in table]
    measured = table.drop(columns=["block", "attempt"])
    numbers = [name for name in measured.select_dtypes("number") if name not in keys]
    sums = measured.groupby(keys)[numbers].sum().reset_index()
    sums[numbers] = sums[numbers].div(sums.cell_id.map(blocks), axis=0)
    return sums


def of_the_trick(gain: pd.DataFrame) -> pd.DataFrame:
    """Choose the pairs of the 150 trick from a table of gains, which may have other dialog ratios."""
    return gain[gain.dialog_ratio == TRICK_DIALOG_RATIO] if len(gain) else gain


@dataclass(frozen=True, slots=True)
class Spread:
    """The lowest and the highest of the values that a number is made of.

    `over` names those values: cells, versions, lines, pools, seconds or runs. A spread is not a confidence interval:
    the cells of a matrix are not repetitions of each other.
    """

    low: float
    high: float
    over: str


@dataclass(frozen=True, slots=True)
class Measurement:
    """A run's number for a claim in the claim's unit; `basis` says in a clause what it is made of."""

    value: float
    basis: str
    spread: Spread | None = None


def spread_of(values: pd.Series | np.ndarray, over: str) -> Spread | None:
    """Return the spread of the values that are numbers, or None for fewer than two."""
    known = pd.Series(values, dtype=float).dropna()
    return Spread(float(known.min()), float(known.max()), over) if len(known) > 1 else None


def spread_of_quotient(dividend: Spread | None, divisor: Spread | None) -> Spread | None:
    """Return the furthest values that a quotient of two numbers can have, or None where a spread is unknown."""
    if dividend is None or divisor is None or divisor.low <= 0:
        return None
    over = dividend.over if dividend.over == divisor.over else f"{dividend.over} and {divisor.over}"
    return Spread(dividend.low / divisor.high, dividend.high / divisor.low, over)


def geometric_mean(values: pd.Series) -> float:
    """Return the mean in which twice and half cancel; NaN without a positive value."""
    positive = values[values > 0]
    return float(np.exp(np.log(positive).mean())) if len(positive) else float("nan")


def quotient_of_sums(
    dividends: pd.Series, divisors: pd.Series, basis: str, *, scale: float = 1, over: str = "cells"
) -> Measurement:
    """Divide the sum of `dividends` by the sum of `divisors`; the spread is that of the rows' own quotients."""
    value = scale * dividends.sum() / divisors.sum()
    return Measurement(float(value), basis, spread_of(scale * dividends / divisors.where(divisors > 0), over))


def mean_of_quotients(quotients: pd.Series, basis: str) -> Measurement:
    """Take the geometric mean of the cells' quotients; the spread is theirs."""
    return Measurement(geometric_mean(quotients), basis, spread_of(quotients, "cells"))


@dataclass(frozen=True, slots=True)
class Judgement:
    """A claim, its verdict on a run, the run's number and where that comes from, and the reason in one line."""

    claim: Claim
    verdict: Verdict
    explanation: str
    provenance: Provenance
    measured: Measurement | None = None

    @property
    def number(self) -> str:
        """The run's number with its spread, such as `4,812 messages/s (4,790 to 4,834 over versions)`; else a dash."""
        if self.measured is None:
            return "–"
        number, spread = amount(self.measured.value, self.claim.unit), self.measured.spread
        if spread is None:
            return number
        low, high = (figure(end, self.claim.unit) for end in (spread.low, spread.high))
        return f"{number} ({low} to {high} over {spread.over})"


# What a model was fitted to, or was built to do, is no success of the model.
COUNTED = (Provenance.MEASURED, Provenance.PREDICTED)


def counted(judgements: Sequence[Judgement]) -> str:
    """Count the verdicts of what was measured or predicted: `39 claims: 16 hold, 3 fail, 20 not measured`."""
    counting = [judged for judged in judgements if judged.provenance in COUNTED]
    number = Counter(judged.verdict for judged in counting)
    verdicts = {Verdict.HOLDS: "hold", Verdict.FAILS: "fail"}
    found = ", ".join(f"{number[each]} {verdicts.get(each, each)}" for each in Verdict if number[each])
    left_out = len(judgements) - len(counting)
    if not left_out:
        return f"{len(counting)} claims: {found}"
    return f"{len(counting)} claims are predicted: {found}. {left_out} are fitted or by construction, and do not count"


_JOINED: Mapping[str, str] = {"%": " %", "times": "×"}
_SINGULAR: Mapping[str, str] = {"dialogs": "dialog", "messages": "message", "total threads": "total thread"}


def amount(value: float, unit: str) -> str:
    """Write a number with its unit: `4,812 messages/s`, `3.02×`, `1 dialog`, `−97 points ahead`."""
    number = figure(value, unit)
    named = _SINGULAR.get(unit, unit) if number == "1" else unit
    return f"{number}{_JOINED.get(unit) or f' {named}'}"


def figure(value: float, unit: str) -> str:
    """Write a number in a sensible number of digits."""
    if unit == "times":
        text = f"{value:.2f}"
    elif value == 0 or abs(value) >= 100 or math.isclose(value, round(value)):
        text = f"{value:,.0f}"
    else:
        text = f"{value:.1f}"
    return text.replace("-", "−")
