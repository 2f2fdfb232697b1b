"""The quantities of an attempt, each defined once: terminal, journal, tables, figures and claims show these.

* A rate is a count divided by the length of the measured window, [from, to): calls of the send procedure that returned
  in it, and messages that were processed in it. It is never a mean of rates.
* A message is processed when the target has stored it, by the target's clock. What a RECEIVE returns counts otherwise:
  also the EndDialog of each dialog that carried one message. Where a workload's messages are counted, processed are
  those that were sent and wait in no queue (`harness.run.counting`).
* Latencies of calls are those of the calls that returned in the window. In an open loop they are those of the calls
  that were due in it, whenever they returned: a stall at its end would leave out those that waited longest. Calls that
  were due and never made are the last of these, evenly spaced; each counts as one that waited until the clients
  stopped.
* End-to-end latencies are those of the messages sent in the window, whenever they were processed.
* Percentiles are exact to the microsecond: linear interpolation between the two nearest ranks of all values (numpy's
  default, SQL's PERCENTILE_CONT), never an average of percentiles. A percentile q is None where fewer than 10 / (1 - q)
  values carry it: 20 for the median, 1,000 for the 99th.
* What is processed in batch is received after the window: from when the clients have stopped until all is drained.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

QUANTILES = {"p50": 0.5, "p95": 0.95, "p99": 0.99}
VALUES_BEYOND = 10  # a percentile, so that a few slow calls do not decide it
NS_PER_S, NS_PER_US = 1_000_000_000, 1000
RATE_DIGITS = 2  # in journal and tables
WINDOW_PARTS = 10  # in which messages are counted, to see how well a rate is known
# The columns that are read of each kind of record.
COLUMNS_READ: Mapping[str, tuple[str, ...]] = {
    "calls": ("intended_at_ns", "latency_ns"),
    "deliveries": ("sent_at_ns", "processed_at_ns"),
    "receives": ("received_at_ns", "messages"),
    "processed": ("processed_at_ns", "messages"),
}

Numbers = NDArray[np.int64]
Columns = Mapping[str, NDArray[Any]]  # by name, of equal length


@dataclass(frozen=True, slots=True)
class Span:
    """A stretch of time in ns since 1970, [begin, end)."""

    begin_ns: int
    end_ns: int

    @property
    def length_s(self) -> float:
        return (self.end_ns - self.begin_ns) / NS_PER_S

    def holds(self, moments_ns: Numbers) -> NDArray[np.bool_]:
        return (moments_ns >= self.begin_ns) & (moments_ns < self.end_ns)

    def counts(self, moments_ns: Numbers, messages: Numbers | None = None) -> Numbers:
        """Count what happened in each of WINDOW_PARTS equal parts, or add up `messages`."""
        inside = self.holds(moments_ns)
        places = (moments_ns[inside] - self.begin_ns) * WINDOW_PARTS // max(1, self.end_ns - self.begin_ns)
        weights = None if messages is None else messages[inside]
        return np.bincount(places, weights, WINDOW_PARTS).astype(np.int64)


class Distribution:
    """How many latencies took each whole microsecond, which are far fewer numbers than latencies."""

    def __init__(self) -> None:
        self._us = self._counts = np.empty(0, np.int64)
        self.longest_us: float | None = None
        self.negative: int | None = None  # the number of latencies below zero; None without latencies

    def add(self, latencies_ns: Numbers) -> None:
        if not len(latencies_ns):
            return
        longest_us = int(latencies_ns.max()) / NS_PER_US
        self.longest_us = longest_us if self.longest_us is None else max(self.longest_us, longest_us)
        self.negative = (self.negative or 0) + int((latencies_ns < 0).sum())
        us, counts = np.unique(_whole_us(latencies_ns), return_counts=True)
        if len(self._us):
            us, places = np.unique(np.concatenate((self._us, us)), return_inverse=True)
            counts = np.bincount(places, weights=np.concatenate((self._counts, counts))).astype(np.int64)
        self._us, self._counts = us, counts

    def quantile_us(self, quantile: float) -> float | None:
        """Interpolate between the nearest ranks; None where too few values carry the quantile."""
        values = int(self._counts.sum())
        if values < round(VALUES_BEYOND / (1 - quantile)):
            return None
        position = quantile * (values - 1)
        rank = math.floor(position)
        # The distinct value of a rank is the first one up to which more values lie than the rank says.
        first, second = self._us[np.searchsorted(self._counts.cumsum(), (rank, rank + 1), side="right")]
        return round(float(first * (1 - (position - rank)) + second * (position - rank)), 3)

    def columns(self, prefix: str) -> dict[str, float | None]:
        return {f"{prefix}_{name}": self.quantile_us(quantile) for name, quantile in QUANTILES.items()}


def _whole_us(ns: Numbers) -> Numbers:
    """Return the nearest microsecond; the half is rounded away from zero."""
    rounded = (np.abs(ns) + NS_PER_US // 2) // NS_PER_US
    return np.where(ns < 0, -rounded, rounded)


class Measures:
    """Adds up the records of an attempt, kind by kind and in batches of any size."""

    def __init__(self, attempt: Mapping[str, Any], *, in_batch: bool = False) -> None:
        """`attempt` has the moments, the rate and the missed calls of a row of the record `cells`."""
        self.window = Span(attempt["measured_from_ns"], attempt["measured_to_ns"])
        self.receiving = Span(attempt["stopped_at_ns"], attempt["drained_at_ns"]) if in_batch else self.window
        self.received = 0
        self.calls_by_part = np.zeros(WINDOW_PARTS, np.int64)
        self.processed_by_part = np.zeros(WINDOW_PARTS, np.int64)
        self.receives: int | None = None  # None where none were recorded, as where messages are counted
        self.latencies, self.end_to_end = Distribution(), Distribution()
        self._is_open_loop = attempt["rate_per_s"] > 0
        if self._is_open_loop and attempt["missed_calls"]:
            spacing_ns = (self.window.end_ns - self.window.begin_ns) // attempt["due_calls"]
            due_before_end_ns = spacing_ns * np.arange(1, attempt["missed_calls"] + 1)
            self.latencies.add(attempt["stopped_at_ns"] - self.window.end_ns + due_before_end_ns)

    def add(self, kind: str, columns: Columns) -> None:
        """Add records of a kind, with its columns of COLUMNS_READ."""
        if kind == "calls":
            timed_ns = columns["intended_at_ns"] if self._is_open_loop else moments(kind, columns)
            self.calls_by_part += self.window.counts(moments(kind, columns))
            self.latencies.add(columns["latency_ns"][self.window.holds(timed_ns)])
            return
        if kind == "receives":
            inside = self.receiving.holds(moments(kind, columns))
            self.receives = (self.receives or 0) + int(inside.sum())
            self.received += int(columns["messages"][inside].sum())
            return
        self.processed_by_part += self.receiving.counts(moments(kind, columns), columns.get("messages"))
        if kind == "deliveries":
            ages_ns = columns["processed_at_ns"] - columns["sent_at_ns"]
            self.end_to_end.add(ages_ns[self.window.holds(columns["sent_at_ns"])])

    @property
    def calls(self) -> int:
        return int(self.calls_by_part.sum())

    @property
    def processed(self) -> int:
        return int(self.processed_by_part.sum())

    @property
    def sent_per_s(self) -> float:
        return self.calls / self.window.length_s

    @property
    def processed_per_s(self) -> float:
        return self.processed / self.receiving.length_s

    def columns(self) -> dict[str, float | None]:
        """Return the numbers as tables have them."""
        return {
            "measured_s": round(self.window.length_s, 3),
            "sent_per_s": round(self.sent_per_s, RATE_DIGITS),
            "processed_per_s": round(self.processed_per_s, RATE_DIGITS),
            **self.latencies.columns("latency_us"),
            **self.end_to_end.columns("end_to_end_us"),
        }


def moments(kind: str, columns: Columns) -> Numbers:
    """Return when each call returned, message was processed, or RECEIVE counted."""
    if kind == "calls":
        returned_ns: Numbers = columns["intended_at_ns"] + columns["latency_ns"]
        return returned_ns
    return columns["received_at_ns" if kind == "receives" else "processed_at_ns"]
