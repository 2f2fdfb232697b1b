"""A warmed world, and cells that each run on a copy of it.

Cells of one server version and dialog ratio begin in the same world: three initiators, each with fifty used dialogs and
those between them, every one warmed up, and a target that has all the queue readers it may have. The paper's runs
lasted minutes, in which the queue monitor launches a reader every five seconds; a cell of a second could not show it.

What a cell comes to depends on the seed, the cell and the attempt, and on no cell before it.
"""

from __future__ import annotations

import contextlib
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from harness.lab import dialog_pool, link, reset, scripts
from harness.lab.instances import LabError, connections
from harness.load import plan
from harness.matrix import INITIATORS, PAYLOADS_BYTES, THREADS, Cell
from harness.observe import dialog_pages
from harness.simulation import cell_run, forks, simulated_lab
from harness.simulation.cell_run import Times
from harness.simulation.forks import ForkDied
from harness.simulation.parameters import Parameters
from harness.simulation.simulated_instance import SimulatedInstance
from harness.simulation.simulated_lab import SimulatedLab
from harness.simulation.world import derived_seed
from harness.sweep.attempt import CellFailed, Measured
from harness.whitepaper import ACTIVATION_PERIOD_S, MAX_QUEUE_READERS, WARM_UP_BYTES

if TYPE_CHECKING:
    import pyodbc

    from harness.simulation.spark_job import Experiment

USED_DIALOGS = THREADS[-1]
# While readers are launched a flush of the target's log lasts so long: every reader is busy with one message.
_RAMP_FLUSH_S = 1.25 * MAX_QUEUE_READERS * ACTIVATION_PERIOD_S
_RAMP_LIMIT_S = 10 * _RAMP_FLUSH_S
_POLL_S = 0.5  # well below the three seconds after which a reader without work ends


class WarmedWorld:
    """The world of one server version and dialog ratio."""

    @forks.frozen_heap()
    def __init__(self, parameters: Parameters, server_version: str, dialog_ratio: int, *, seed: int) -> None:
        """Builds it, which takes seconds of real time; LabError where it does not come up."""
        self.server_version = server_version
        self.dialog_ratio = dialog_ratio
        seed = derived_seed(seed, server_version, dialog_ratio)
        lab = self.lab = simulated_lab.open(parameters, version=server_version, initiators=INITIATORS[-1], seed=seed)
        link.link(lab)
        dialog_pool.build(lab, initiators=len(lab.initiators), used_dialogs=USED_DIALOGS, dialog_ratio=dialog_ratio)
        self.pages = {instance.name: dialog_pages.located(instance) for instance in lab.initiators}
        self._rehearse()
        launch_readers(lab, MAX_QUEUE_READERS)

    def _rehearse(self) -> None:
        """A short cell in this world itself: whatever cells ask and call is compiled once, and not by each of them."""
        cell = Cell(self.server_version, len(self.lab.initiators), self.dialog_ratio, 1, PAYLOADS_BYTES[0])
        with tempfile.TemporaryDirectory() as folder:
            cell_run.run(self.lab, cell, 1, Times(0.0, 0.2), Path(folder), pages=self.pages)

    def run(self, cell: Cell, attempt: int, times: Times, results: Path) -> Measured:
        """The cell on a copy of this world, in a process of its own; its records are written when it returns.
        CellFailed with the reason otherwise."""
        assert (cell.server_version, cell.dialog_ratio) == (self.server_version, self.dialog_ratio), cell.id
        try:
            return forks.in_fork(partial(cell_run.run, self.lab, cell, attempt, times, results, pages=self.pages))
        except ForkDied as death:
            raise CellFailed(str(death)) from None


def one_on_each(clients: Sequence[pyodbc.Connection]) -> int:
    """Sends one message on every used dialog; how many."""
    sent = 0
    for connection, handles in zip(clients, dialog_pool.used(clients), strict=True):
        for handle in handles:
            scripts.execute(connection, plan.call(plan.SEND_MESSAGE), handle, b"x" * WARM_UP_BYTES)
            sent += 1
    return sent


def launch_readers(
    lab: SimulatedLab,
    most: int,
    *,
    send: Callable[[Sequence[pyodbc.Connection]], int] = one_on_each,
) -> None:
    """Brings the target's queue readers up to `most`, its MAX_QUEUE_READERS, by the queue monitor's own rule.

    `send` sends messages of more conversations than there are readers, and the target's log is slow for as long as it
    takes: a reader that has received is busy until its commit is on disk, while more lies in the queue. Afterwards
    nothing is left of it but the readers, which wait for messages.
    """
    target_instance = lab.target
    assert isinstance(target_instance, SimulatedInstance)
    log = target_instance.server.computer.log
    with connections(lab.initiators) as clients, connections([lab.target]) as (target,):
        log.slowdown = _RAMP_FLUSH_S * 1e6 / lab.world.parameters.log.flush_latency_us
        # Messages of before may still be stored; a flush that has begun lasts as long as it was to.
        expected = dialog_pool.processed(target) + send(clients)
        readers = partial(_readers, target)
        _sleep_until(lab, lambda: readers() >= most, "no further queue readers were launched")
        log.slowdown = 1.0
        _sleep_until(lab, lambda: dialog_pool.processed(target) >= expected, "the target does not catch up")
        dialog_pool.wait_until_drained(lab, lab.initiators, clients, target, expected=expected, timeout_s=_RAMP_LIMIT_S)
        reset.messages(lab, target)
        if (left := readers()) < most:
            raise LabError(f"{left} of {most} queue readers are left: the others found nothing to do meanwhile")


def _readers(target: pyodbc.Connection) -> int:
    return sum(int(row["tasks"]) for row in scripts.rows(target, "observe/activated_tasks.sql", {}))


def _sleep_until(lab: SimulatedLab, condition: Callable[[], bool], complaint: str) -> None:
    until_s = lab.clock.now_s() + _RAMP_LIMIT_S
    while not condition():
        if lab.clock.now_s() > until_s:
            raise LabError(complaint)
        lab.clock.sleep(_POLL_S)


@dataclass(frozen=True)
class _Warmed:
    """Implements `job.Warmed`."""

    group: WarmedWorld
    times: Times
    results: Path

    def run(self, cell: Cell, attempt: int) -> Measured:
        return self.group.run(cell, attempt, self.times, self.results)


@contextlib.contextmanager
def opened(experiment: Experiment, server_version: str, dialog_ratio: int) -> Iterator[_Warmed]:
    """Implements `spark_job.OpenGroup`."""
    group = WarmedWorld(experiment.parameters, server_version, dialog_ratio, seed=experiment.seed)
    yield _Warmed(group, Times(experiment.settle_s, experiment.measure_s), experiment.results)
