"""What a claim is judged by, and what came out."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol

import pandas as pd

from harness.claims.intervals import Interval
from harness.whitepaper import Claim


class Verdict(StrEnum):
    HOLDS = "holds"
    FAILS = "fails"
    NOT_MEASURED = "not measured"


class NotMeasured(Exception):
    """The result set has not what a claim speaks of; the message says what is missing."""


class Tables(Protocol):
    """The reduced tables of a run; a table that a run does not have is empty, without columns."""

    @property
    def cells(self) -> pd.DataFrame: ...
    @property
    def seconds(self) -> pd.DataFrame: ...
    @property
    def gain(self) -> pd.DataFrame: ...
    @property
    def waits(self) -> pd.DataFrame: ...
    @property
    def page_spread(self) -> pd.DataFrame: ...
    @property
    def latch_share(self) -> pd.DataFrame: ...
    @property
    def file_io(self) -> pd.DataFrame: ...
    @property
    def techniques(self) -> pd.DataFrame: ...


@dataclass(frozen=True, slots=True)
class Measurement:
    """A run's number for a claim, in the claim's unit; `basis` says in a clause of what it is made.

    `spread` says what the interval is over: cells, versions, seconds, runs; empty without one.
    """

    value: float
    basis: str
    interval: Interval | None = None
    spread: str = ""


@dataclass(frozen=True, slots=True)
class Judgement:
    """A claim, what the run has to say of it, and why in a line."""

    claim: Claim
    verdict: Verdict
    explanation: str
    measured: Measurement | None = None

    @property
    def number(self) -> str:
        """The run's number with its interval, and what that is over: `4,812 messages/s (4,790 to 4,834 over versions)`;
        a dash where there is none."""
        if self.measured is None:
            return "–"
        number = amount(self.measured.value, self.claim.unit)
        if self.measured.interval is None:
            return number
        low, high = (figure(bound, self.claim.unit) for bound in self.measured.interval)
        return f"{number} ({low} to {high} over {self.measured.spread})"


def counted(judgements: Sequence[Judgement]) -> str:
    """`16 claims hold, 3 fail, 20 are not measured`."""
    number = Counter(judged.verdict for judged in judgements)
    holding, failing, missing = (number[verdict] for verdict in Verdict)
    return (
        f"{holding} claim{' holds' if holding == 1 else 's hold'}, {failing} fail{'s' * (failing == 1)}, "
        f"{missing} {'is' if missing == 1 else 'are'} not measured"
    )


_JOINED: Mapping[str, str] = {"%": " %", "times": "×"}
_OF_ONE: Mapping[str, str] = {"dialogs": "dialog", "messages": "message", "total threads": "total thread"}


def amount(value: float, unit: str) -> str:
    """`4,812 messages/s`, `3.02×`, `1 dialog`, `−97 points ahead`."""
    number = figure(value, unit)
    named = _OF_ONE.get(unit, unit) if number == "1" else unit
    return f"{number}{_JOINED.get(unit) or f' {named}'}"


def figure(value: float, unit: str) -> str:
    """The number in as many figures as it bears."""
    if unit == "times":
        text = f"{value:.2f}"
    elif value == 0 or abs(value) >= 100 or math.isclose(value, round(value)):
        text = f"{value:,.0f}"
    else:
        text = f"{value:.1f}"
    return text.replace("-", "−")
