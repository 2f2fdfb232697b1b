"""The observers of a lab in virtual time: the same queries as in other labs, at the same intervals.

They visit the world from outside (`World.visit`) while the cell sleeps, each with its own connection. A query takes no
virtual time, so all numbers of a visit belong to one moment.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from math import inf
from typing import TYPE_CHECKING, Any

from harness.lab.instances import Instance
from harness.observe import latch_watch, snapshots
from harness.observe.latch_watch import SAMPLE_EVERY_S, Watched
from harness.observe.observer import INTERVAL_S, QUERY_TIMEOUT_S, SAMPLED, Recording
from harness.observe.observers import Observed, observed
from harness.observe.page_objects import PageObjects
from harness.observe.snapshots import Snapshot
from harness.simulation.simulated_lab import SimulatedLab

if TYPE_CHECKING:
    import pyodbc


@dataclass
class _Observer:
    """The observations of one instance in one cell."""

    connection: pyodbc.Connection
    recording: Recording = field(default_factory=Recording)
    watched: Watched = field(default_factory=Watched)
    objects: PageObjects = field(default_factory=PageObjects)


class SimulatedObservers:
    """Implement `sweep.attempt.Observers`."""

    def __init__(self, lab: SimulatedLab) -> None:
        self._lab = lab
        self._observers: Mapping[str, _Observer] = {}
        self._is_sampling = self._is_looking = False
        self._before: Mapping[str, Snapshot] = {}
        self._after: Mapping[str, Snapshot] = {}

    def begin(self, count: int) -> None:
        """Observe the first `count` instances from now on."""
        taking_part: Sequence[Instance] = self._lab.instances[:count]
        self._observers = {one.name: _Observer(one.connect(query_timeout_s=QUERY_TIMEOUT_S)) for one in taking_part}
        self._is_sampling = True
        self._repeat(self._sample, INTERVAL_S, lambda: self._is_sampling)

    def window_begins(self) -> None:
        self._before = self._snapshots()
        self._is_looking = True
        self._repeat(self._look, SAMPLE_EVERY_S, lambda: self._is_looking)

    def window_ends(self) -> None:
        self._is_looking = False
        self._after = self._snapshots()

    def changes(self, *, timeout_s: float) -> dict[str, dict[str, list[Any]]]:
        return snapshots.changes(self._before, self._after)

    def end(self) -> Observed:
        self._is_sampling = False
        self._sample()
        for one in self._observers.values():
            latch_watch.resolve(one.connection, one.watched, one.objects, within_s=inf)
        return observed(
            {name: one.recording for name, one in self._observers.items()},
            {name: one.watched for name, one in self._observers.items()},
        )

    def close(self) -> None:
        self._is_sampling = self._is_looking = False
        for one in self._observers.values():
            one.connection.close()

    def _repeat(self, action: Callable[[], None], interval_s: float, condition: Callable[[], bool]) -> None:
        """Act now and after each interval while the condition holds."""
        if condition():
            action()
            self._lab.world.visit(interval_s, lambda: self._repeat(action, interval_s, condition))

    def _sample(self) -> None:
        at_ns = self._lab.clock.utc_ns()
        for one in self._observers.values():
            for question in SAMPLED:
                one.recording.samples += [(at_ns, sample) for sample in question(one.connection)]

    def _look(self) -> None:
        at_ns = self._lab.clock.utc_ns()
        for one in self._observers.values():
            latch_watch.take_sample(one.connection, one.watched, at_ns)

    def _snapshots(self) -> dict[str, Snapshot]:
        utc_ns = self._lab.clock.utc_ns
        return {name: snapshots.snapshot(one.connection, utc_ns) for name, one in self._observers.items()}
