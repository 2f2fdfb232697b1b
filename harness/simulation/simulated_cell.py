"""A cell in virtual time: the protocol of `run.attempt`, in a fork of a warmed world.

A warmed world is linked, and has its dialogs and all queue readers. Cells of one server version begin in the same
world: three initiators, each with dialogs for fifty threads of any dialog ratio (more of both if the matrix has cells
that need them), and a target with as many queue readers as it may have. The paper's runs lasted minutes, in which the
queue monitor launches a reader every five seconds; a cell of a second is too short for that. Only dialogs that cells
can use are warmed up. The others are there for their rows of sys.sysdesend; to warm up all took 80 % of a world's time.

The result of a cell depends on the seed, the cell, the block and the attempt, but on no earlier cell.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from math import inf
from pathlib import Path
from typing import Any

from harness.definitions.matrix import INITIATORS, PAYLOADS_BYTES, THREADS, Cell, Visit
from harness.definitions.whitepaper import ACTIVATION_PERIOD_S, BASE_DIALOG_RATIO, MAX_QUEUE_READERS, WARM_UP_BYTES
from harness.lab import dialog_pool, link, queue_readers, scripts
from harness.lab.drivers import Connection
from harness.lab.instances import LabError, connections
from harness.load import plan
from harness.load.plan import Sending
from harness.observe import dialog_pages, latch_watch, snapshots
from harness.observe.latch_watch import SAMPLE_EVERY_S, PageObjects, Watched
from harness.observe.observers import (
    INTERVAL_S,
    QUERY_TIMEOUT_S,
    SAMPLED,
    Observed,
    Recording,
    TargetProgress,
    observed,
    target_progress,
)
from harness.observe.snapshots import Snapshot
from harness.run import attempt as attempts
from harness.run.attempt import Attempt, Equipment, Measured, Times
from harness.run.cell_failures import CellFailed
from harness.run.phases import Phases
from harness.simulation import forks, simulated_lab
from harness.simulation.client_threads import SimulatedClients
from harness.simulation.forks import ForkDied
from harness.simulation.parameters import Parameters
from harness.simulation.simulated_lab import SimulatedInstance, SimulatedLab
from harness.simulation.world import derived_seed

USED_DIALOGS = THREADS[-1]  # of an initiator, with any dialog ratio of the paper's cells
# A flush of the target's log takes this long while readers are launched, so every reader is busy with one message.
_RAMP_FLUSH_S = 1.25 * MAX_QUEUE_READERS * ACTIVATION_PERIOD_S
_RAMP_LIMIT_S = 10 * _RAMP_FLUSH_S
_POLL_S = 0.5  # well below the three seconds after which an idle reader ends


@dataclass(frozen=True)
class WorldSize:
    """What a world has for the cells of a matrix: at least what the paper's cells of the highest dialog ratio need."""

    used: tuple[tuple[int, int], ...]  # the dialogs that cells can use: dialog ratios, ascending from 1, with threads
    initiators: int

    @classmethod
    def of(cls, cells: Collection[Cell]) -> WorldSize:
        threads: dict[int, int] = {}
        for ratio, of_cell in ((BASE_DIALOG_RATIO, 0), *((cell.dialog_ratio, cell.threads) for cell in cells)):
            threads[ratio] = max(USED_DIALOGS, threads.get(ratio, 0), of_cell)
        return cls(tuple(sorted(threads.items())), max(INITIATORS[-1], *(cell.initiators for cell in cells)))

    @property
    def dialogs(self) -> int:
        """Those of an initiator."""
        return max(ratio * threads for ratio, threads in self.used)


def run(
    lab: SimulatedLab,
    visit: Visit,
    attempt: int,
    times: Times,
    results: Path,
    *,
    pages: dialog_pages.Spread,
    sending: Sending | None = None,
    on_stopped: Callable[[], None] = lambda: None,
) -> Measured:
    """Run a cell on a lab with dialogs and write all its records, or raise CellFailed.

    `pages` are those of the pool's dialogs; `sending` and `on_stopped` are those of `Attempt`.
    """
    observers = SimulatedObservers(lab)
    equipment = Equipment(
        lab, SimulatedClients(lab), observers, lab.target.connect(), [instance.connect() for instance in lab.initiators]
    )
    taking_part = [instance.name for instance in lab.initiators[: visit.cell.initiators]]
    try:
        attempted = Attempt(
            visit,
            attempt,
            attempt,
            times,
            results,
            settles_in_full=True,
            sending=sending,
            on_stopped=on_stopped,
            pages={name: pages[name] for name in taking_part if name in pages},
        )
        return attempts.run(attempted, equipment, Phases())
    finally:
        observers.close()
        for connection in (equipment.target, *equipment.initiators):
            connection.close()


class WarmedWorld:
    """The world of one server version, for cells that fit its size."""

    @forks.frozen_heap()
    def __init__(self, parameters: Parameters, server_version: str, size: WorldSize, *, seed: int) -> None:
        """Build the world, which takes seconds of real time, or raise LabError."""
        self.server_version = server_version
        self.size = size
        seed = derived_seed(seed, server_version, size.used[-1][0])
        lab = self.lab = simulated_lab.open(parameters, version=server_version, initiators=size.initiators, seed=seed)
        link.link(lab)
        dialog_pool.build(lab, initiators=len(lab.initiators), dialogs=size.dialogs, used=size.used)
        self.pages = {instance.name: dialog_pages.located(instance) for instance in lab.initiators}
        self._rehearse()
        launch_readers(lab, MAX_QUEUE_READERS)

    def _rehearse(self) -> None:
        """Run a short cell in this world itself: so queries and procedures are compiled once, not in every fork."""
        cell = Cell(self.server_version, len(self.lab.initiators), 1, 1, PAYLOADS_BYTES[0])
        with tempfile.TemporaryDirectory() as folder:
            run(self.lab, Visit(cell), 1, Times(0.0, 0.2), Path(folder), pages=self.pages)

    def run(self, visit: Visit, attempt: int, times: Times, results: Path) -> Measured:
        """Run a cell in a fork of this world and write its records, or raise CellFailed."""
        cell = visit.cell
        assert cell.server_version == self.server_version and cell.dialogs <= self.size.dialogs, cell.id
        try:
            return forks.in_fork(partial(self._run_here, visit, attempt, times, results))
        except ForkDied as death:
            raise CellFailed(str(death)) from None

    def _run_here(self, visit: Visit, attempt: int, times: Times, results: Path) -> Measured:
        """Run a cell in this world itself, with the entropy of its block: so blocks differ as repetitions do."""
        self.lab.world.reseed(derived_seed(self.lab.world.seed, "block", visit.block))
        return run(self.lab, visit, attempt, times, results, pages=self.pages)


def one_on_each(clients: Sequence[Connection]) -> int:
    """Send one message on each of the first dialogs, as many as there can be threads; return their number."""
    sent = 0
    for connection, handles in zip(clients, dialog_pool.used(clients, 1, USED_DIALOGS), strict=True):
        for handle in handles:
            scripts.execute(connection, plan.SEND_MESSAGE.call, handle, b"x" * WARM_UP_BYTES)
            sent += 1
    return sent


def launch_readers(lab: SimulatedLab, most: int, *, send: Callable[[Sequence[Connection]], int] = one_on_each) -> None:
    """Have the queue monitor launch `most` queue readers at the target, its MAX_QUEUE_READERS.

    `send` sends messages of more conversations than there are readers, and the target's log is slowed down meanwhile. A
    reader that has received is busy until its commit is on disk, while more messages wait in the queue. In the end only
    the readers are left, waiting for messages.
    """
    target_instance = lab.target
    assert isinstance(target_instance, SimulatedInstance)
    log = target_instance.server.computer.log
    with connections(lab.initiators) as clients, connections([lab.target]) as (target,):
        readers = partial(queue_readers.running, target, target_instance.queue)
        log.slowdown = _RAMP_FLUSH_S * 1e6 / lab.world.parameters.log.flush_latency_us
        # Earlier messages may still be processed; a flush that has begun keeps its duration.
        expected = dialog_pool.processed(target) + send(clients)
        _sleep_until(lab, lambda: readers() >= most, f"the queue monitor did not launch {most} queue readers")
        log.slowdown = 1.0
        _sleep_until(
            lab,
            lambda: dialog_pool.processed(target) >= expected,
            "the target did not process all messages of the warm-up",
        )
        dialog_pool.wait_until_drained(lab, lab.initiators, clients, target, expected=expected, timeout_s=_RAMP_LIMIT_S)
        dialog_pool.empty_tables(lab, target)
        if (left := readers()) < most:
            raise LabError(f"only {left} of {most} queue readers are left: the others ended for lack of messages")


def _sleep_until(lab: SimulatedLab, condition: Callable[[], bool], complaint: str) -> None:
    until_s = lab.clock.now_s() + _RAMP_LIMIT_S
    while not condition():
        if lab.clock.now_s() > until_s:
            raise LabError(complaint)
        lab.clock.sleep(_POLL_S)


@dataclass
class _Observer:
    """The observations of one instance in one cell."""

    connection: Connection
    queue: str
    recording: Recording = field(default_factory=Recording)
    watched: Watched = field(default_factory=Watched)
    objects: PageObjects = field(default_factory=PageObjects)


class SimulatedObservers:
    """Implement `run.attempt.Observers`: the same queries as in other labs, at the same intervals.

    They visit the world from outside (`World.visit`) while the cell sleeps, each with its own connection. A query takes
    no virtual time, so all numbers of a visit belong to one moment.
    """

    def __init__(self, lab: SimulatedLab) -> None:
        self._lab = lab
        self._observers: Mapping[str, _Observer] = {}
        self._is_sampling = self._is_looking = False
        self._before: Mapping[str, Snapshot] = {}
        self._after: Mapping[str, Snapshot] = {}

    def begin(self, count: int) -> None:
        """Observe the first `count` instances from now on."""
        self._observers = {
            instance.name: _Observer(instance.connect(query_timeout_s=QUERY_TIMEOUT_S), instance.queue)
            for instance in self._lab.instances[:count]
        }
        self._is_sampling = True
        self._repeat(self._sample, INTERVAL_S, lambda: self._is_sampling)

    def target_progress(self) -> TargetProgress:
        target = self._observers[self._lab.target.name]
        return target_progress(target.connection, target.queue)

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
        for observer in self._observers.values():
            latch_watch.resolve(observer.connection, observer.watched, observer.objects, within_s=inf)
        return observed(
            {name: observer.recording for name, observer in self._observers.items()},
            {name: observer.watched for name, observer in self._observers.items()},
        )

    def close(self) -> None:
        self._is_sampling = self._is_looking = False
        for observer in self._observers.values():
            observer.connection.close()

    def _repeat(self, action: Callable[[], None], interval_s: float, condition: Callable[[], bool]) -> None:
        """Act now and after each interval while the condition holds."""
        if condition():
            action()
            self._lab.world.visit(interval_s, lambda: self._repeat(action, interval_s, condition))

    def _sample(self) -> None:
        at_ns = self._lab.clock.utc_ns()
        for observer in self._observers.values():
            for question in SAMPLED:
                observer.recording.samples += [
                    (at_ns, sample) for sample in question(observer.connection, observer.queue)
                ]

    def _look(self) -> None:
        at_ns = self._lab.clock.utc_ns()
        for observer in self._observers.values():
            latch_watch.take_sample(observer.connection, observer.watched, at_ns)

    def _snapshots(self) -> dict[str, Snapshot]:
        utc_ns = self._lab.clock.utc_ns
        return {name: snapshots.snapshot(observer.connection, utc_ns) for name, observer in self._observers.items()}
