"""All observers of a lab: an `Observer` and a `LatchWatch` for each instance."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any

from harness import records
from harness.lab.instances import Instance
from harness.observe import snapshots
from harness.observe.latch_watch import RESOLVE_WITHIN_S, SAMPLE_TIMEOUT_S, LatchWatch, Watched
from harness.observe.observer import QUERY_TIMEOUT_S, Observer, Recording
from harness.observe.snapshots import Snapshot

LATCH_SAMPLES = "latch_looks"  # the metric's name in the record `samples`

Columns = dict[str, list[Any]]


@dataclass(frozen=True)
class Observed:
    """Records of the observers in a cell, apart from the differences over its window."""

    records: Mapping[str, Columns]  # samples; latch_waits, if any instance shows them
    failures: Sequence[str]


class Observers:
    """Call for each cell: `begin`, `window_begins`, `window_ends`, `changes`, `end`.

    `tell` gets a line about each record that an instance does not show to this login.
    """

    def __init__(self, instances: Sequence[Instance], tell: Callable[[str], None] = lambda text: None) -> None:
        self._observers = [Observer(instance) for instance in instances]
        self._watches = [LatchWatch(instance) for instance in instances]
        self._tell = tell

    def begin(self, count: int) -> None:
        """Begin a cell in which the first `count` instances take part."""
        self._taking_part, self._watching = self._observers[:count], self._watches[:count]
        for observer in self._taking_part:
            observer.begin()
        for watch in self._watching:
            watch.prepare()

    def window_begins(self) -> None:
        self._before = self._snapshot()
        for watch in self._watching:
            watch.begin()

    def window_ends(self) -> None:
        self._watched = [watch.end() for watch in self._watching]
        self._after = self._snapshot()

    def changes(self, *, timeout_s: float) -> dict[str, Columns]:
        """Return the records that are differences over the window.

        Raises TimeoutError, or the error of an instance that has ended.
        """
        before = {name: one.result(timeout=timeout_s) for name, one in self._before.items()}
        after = {name: one.result(timeout=timeout_s) for name, one in self._after.items()}
        for name, one in after.items():
            for record, reason in one.refusals.items():
                self._tell(f"{name} does not show {record} to this login, so they are not recorded: {reason}")
        return snapshots.changes(before, after)

    def end(self) -> Observed:
        recordings = [(observer, observer.end()) for observer in self._taking_part]
        recorded = {one.instance.name: future.result(timeout=2 * QUERY_TIMEOUT_S) for one, future in recordings}
        watched = {
            watch.instance.name: outcome.result(timeout=SAMPLE_TIMEOUT_S + RESOLVE_WITHIN_S)
            for watch, outcome in zip(self._watching, self._watched, strict=True)
        }
        for name, one in watched.items():
            self._tell_refusals(name, one)
        return observed(recorded, watched)

    def close(self) -> None:
        for watch in self._watches:
            watch.close()
        for observer in self._observers:
            observer.close()

    def _snapshot(self) -> dict[str, Future[Snapshot]]:
        return {observer.instance.name: observer.snapshot() for observer in self._taking_part}

    def _tell_refusals(self, name: str, watched: Watched) -> None:
        if watched.refusal:
            self._tell(f"{name} does not show waits for pages, so they are not recorded: {watched.refusal}")
        if watched.unresolved:
            self._tell(f"{name} does not show a page's object, so waits are recorded without it: {watched.unresolved}")


def observed(recorded: Mapping[str, Recording], watched: Mapping[str, Watched]) -> Observed:
    """Return the records of all instances."""
    failures: list[str] = []
    samples: list[tuple[Any, ...]] = []
    waits: list[tuple[Any, ...]] = []
    for name, recording in recorded.items():
        failures += [f"observer of {name}: {text}" for text in recording.failures]
        samples += [(name, at_ns, *sample) for at_ns, sample in recording.samples]
    for name, one in watched.items():
        failures += [f"latches of {name}: {one.failure}"] if one.failure else []
        if times_ns := one.sampled_at_ns:  # the number of samples taken, at the first one and at the last
            samples.append((name, times_ns[0], LATCH_SAMPLES, "", 1.0))
            samples.append((name, times_ns[-1], LATCH_SAMPLES, "", float(len(times_ns))))
        waits += [(name, *wait[:4], *wait.page, *one.object_of(wait)) for wait in one.waits]
    found = {"samples": records.columns("samples", samples)}
    if any(not one.refusal for one in watched.values()):
        found["latch_waits"] = records.columns("latch_waits", waits)
    return Observed(found, failures)
