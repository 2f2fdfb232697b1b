"""Looks of a sweep's cells, made of what the run records anyway: a page of them asks the instances nothing more.

Samples arrive one by one, each from an instance's observer. A look ends with the next sample of the target, and has the
newest sample of each instance. What is recorded of the measured window (waits, latches, end-to-end latency) joins the
last look of a cell.
"""

import threading
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from harness.observe.looks import NO_OBJECT, TARGET, Chart, Look, Read, charts, longest, monitors
from harness.observe.observers import FAILURE, LATCH_SAMPLES, spread
from harness.output.reporting import Forwarding, Reporter

Records = Mapping[str, Mapping[str, Any]]  # kind of record -> column -> values
AGE_MAX_NS = 3_000_000_000  # what is older belongs to another cell
APART_MIN_NS = 500_000_000  # rates over less tell how late a sample was: the last one of a cell may follow at once


class CellLooks:
    """Call `sampled` and `recorded` as a run tells them, one at a time."""

    def __init__(self) -> None:
        self._now: dict[str, Read] = {}  # the newest sample of each instance
        self._before: dict[str, Read] = {}  # an earlier one, for rates
        self._failures: dict[str, str] = {}  # of this look, by instance
        self._at_ns = 0  # of the target's newest sample; 0 where a look has it already

    def sampled(self, instance: str, at_ns: int, samples: Sequence[tuple[str, str, float]]) -> Look | None:
        """Add a sample of an instance. Returns the look that ends with it."""
        look = self._end({}) if instance == TARGET and self._at_ns else None
        last = self._now.pop(instance, None)
        if last is None or at_ns - last.at_ns > AGE_MAX_NS:
            self._before.pop(instance, None)
        elif at_ns - last.at_ns >= APART_MIN_NS:
            self._before[instance] = last
        if reasons := [label for metric, label, _ in samples if metric == FAILURE]:
            self._failures[instance] = f"{instance}: {reasons[0]}"
        else:
            self._now[instance] = Read(at_ns, samples)
        if instance == TARGET:
            self._at_ns = at_ns
        return look

    def recorded(self, records: Records, window_ns: range) -> Look:
        """Return the last look of a cell, with the charts of its measured window."""
        self._at_ns = self._at_ns or window_ns.stop
        return self._end(window_charts(records, window_ns))

    def _end(self, of_window: Mapping[str, Chart]) -> Look:
        at_ns, self._at_ns = self._at_ns, 0
        now = {name: sample for name, sample in self._now.items() if abs(at_ns - sample.at_ns) <= AGE_MAX_NS}
        chart_values = {**charts(self._before, now), **of_window}
        failures, self._failures = list(self._failures.values()), {}
        return Look(at_ns / 1e9, chart_values, monitors(now), failures)


class CellReporter(Forwarding):
    """Passes everything on to another reporter, and shows each look that samples and records of a cell make."""

    def __init__(self, to: Reporter) -> None:
        super().__init__(to)
        self._looks, self._looks_lock = CellLooks(), threading.Lock()  # each instance's observer is a thread

    def show(self, look: Look) -> None:
        raise NotImplementedError

    def sampled(self, instance: str, at_ns: int, samples: Sequence[tuple[str, str, float]]) -> None:
        with self._looks_lock:
            if (look := self._looks.sampled(instance, at_ns, samples)) is not None:
                self.show(look)
        super().sampled(instance, at_ns, samples)

    def recorded(self, records: Records, window_ns: range) -> None:
        with self._looks_lock:
            self.show(self._looks.recorded(records, window_ns))
        super().recorded(records, window_ns)


def window_charts(records: Records, window_ns: range) -> dict[str, Chart]:
    """Return the charts that a cell has for its measured window: waits, latches, end-to-end latency.

    `records` are those of one cell, by kind; what it does not have has no chart.
    """
    charts: dict[str, Chart] = {}
    for side, is_target in (("target", True), ("initiator", False)):
        waited: Counter[str] = Counter()
        for instance, wait_type, wait_ms in _rows(records, "waits", "instance", "wait_type", "wait_time_ms"):
            if (instance == TARGET) is is_target:
                waited[wait_type] += wait_ms
        if "waits" in records:
            charts[f"{side}_waits"] = longest({kind: 1e9 * ms / len(window_ns) for kind, ms in waited.items() if ms})
        samples = _latch_samples(records, is_target=is_target)
        if samples:
            names = _rows(records, "latch_waits", "instance", "object_name")
            counts = Counter(name or NO_OBJECT for instance, name in names if (instance == TARGET) is is_target)
            charts[f"{side}_latches"] = {name: waits / samples for name, waits in counts.items()}
    if "deliveries" in records:
        sent, processed = (
            np.asarray(records["deliveries"][name], np.int64) for name in ("sent_at_ns", "processed_at_ns")
        )
        inside = (processed >= window_ns.start) & (processed < window_ns.stop)
        if inside.any():
            charts["end_to_end_ms"] = spread((processed - sent)[inside] / 1e6)
    return charts


def _latch_samples(records: Records, *, is_target: bool) -> float:
    """Return how often the latch watches of this side have sampled: the last number of each."""
    last: dict[str, float] = {
        instance: value
        for instance, metric, value in _rows(records, "samples", "instance", "metric", "value")
        if metric == LATCH_SAMPLES and (instance == TARGET) is is_target
    }
    return sum(last.values())


def _rows(records: Records, kind: str, *names: str) -> Iterable[tuple[Any, ...]]:
    return zip(*(records[kind][name] for name in names), strict=True) if kind in records else ()
