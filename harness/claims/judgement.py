"""A claim's verdict, the number and the reason behind it, and how far apart the values lie that it is made of."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from enum import StrEnum

import numpy as np
import pandas as pd

from harness.claims.provenance import Provenance
from harness.whitepaper import Claim


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
