"""A warmed world: linked, with its dialogs and all queue readers. Each cell runs in a fork of it.

Cells of one server version and dialog ratio begin in the same world: three initiators, each with fifty used dialogs and
the dialogs between them, all warmed up, and a target with as many queue readers as it may have. The paper's runs lasted
minutes, in which the queue monitor launches a reader every five seconds; a cell of one second is too short for that.

The result of a cell depends on the seed, the cell and the attempt, but on no earlier cell.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Sequence
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
from harness.simulation.simulated_lab import SimulatedInstance, SimulatedLab
from harness.simulation.world import derived_seed
from harness.sweep.attempt import CellFailed, Measured
from harness.whitepaper import ACTIVATION_PERIOD_S, MAX_QUEUE_READERS, WARM_UP_BYTES

if TYPE_CHECKING:
    import pyodbc

USED_DIALOGS = THREADS[-1]
# A flush of the target's log takes this long while readers are launched, so every reader is busy with one message.
_RAMP_FLUSH_S = 1.25 * MAX_QUEUE_READERS * ACTIVATION_PERIOD_S
_RAMP_LIMIT_S = 10 * _RAMP_FLUSH_S
_POLL_S = 0.5  # well below the three seconds after which an idle reader ends


class WarmedWorld:
    """The world of one server version and dialog ratio."""

    @forks.frozen_heap()
    def __init__(self, parameters: Parameters, server_version: str, dialog_ratio: int, *, seed: int) -> None:
        """Build the world, which takes seconds of real time, or raise LabError."""
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
        """Run a short cell in this world itself: so queries and procedures are compiled once, not in every fork."""
        cell = Cell(self.server_version, len(self.lab.initiators), self.dialog_ratio, 1, PAYLOADS_BYTES[0])
        with tempfile.TemporaryDirectory() as folder:
            cell_run.run(self.lab, cell, 1, Times(0.0, 0.2), Path(folder), pages=self.pages)

    def run(self, cell: Cell, attempt: int, times: Times, results: Path) -> Measured:
        """Run a cell in a fork of this world and write its records, or raise CellFailed."""
        assert (cell.server_version, cell.dialog_ratio) == (self.server_version, self.dialog_ratio), cell.id
        try:
            return forks.in_fork(partial(cell_run.run, self.lab, cell, attempt, times, results, pages=self.pages))
        except ForkDied as death:
            raise CellFailed(str(death)) from None


def one_on_each(clients: Sequence[pyodbc.Connection]) -> int:
    """Send one message on every used dialog; return their number."""
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
    """Have the queue monitor launch `most` queue readers at the target, its MAX_QUEUE_READERS.

    `send` sends messages of more conversations than there are readers, and the target's log is slowed down meanwhile. A
    reader that has received is busy until its commit is on disk, while more messages wait in the queue. In the end only
    the readers are left, waiting for messages.
    """
    target_instance = lab.target
    assert isinstance(target_instance, SimulatedInstance)
    log = target_instance.server.computer.log
    with connections(lab.initiators) as clients, connections([lab.target]) as (target,):
        log.slowdown = _RAMP_FLUSH_S * 1e6 / lab.world.parameters.log.flush_latency_us
        # Earlier messages may still be processed; a flush that has begun keeps its duration.
        expected = dialog_pool.processed(target) + send(clients)
        readers = partial(_readers, target)
        _sleep_until(lab, lambda: readers() >= most, f"the queue monitor did not launch {most} queue readers")
        log.slowdown = 1.0
        _sleep_until(
            lab,
            lambda: dialog_pool.processed(target) >= expected,
            "the target did not process all messages of the warm-up",
        )
        dialog_pool.wait_until_drained(lab, lab.initiators, clients, target, expected=expected, timeout_s=_RAMP_LIMIT_S)
        reset.messages(lab, target)
        if (left := readers()) < most:
            raise LabError(f"only {left} of {most} queue readers are left: the others ended for lack of messages")


def _readers(target: pyodbc.Connection) -> int:
    return sum(int(row["tasks"]) for row in scripts.rows(target, "observe/activated_tasks.sql", {}))


def _sleep_until(lab: SimulatedLab, condition: Callable[[], bool], complaint: str) -> None:
    until_s = lab.clock.now_s() + _RAMP_LIMIT_S
    while not condition():
        if lab.clock.now_s() > until_s:
            raise LabError(complaint)
        lab.clock.sleep(_POLL_S)
