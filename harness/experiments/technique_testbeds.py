"""The testbeds of techniques: each step has its dialogs, its clients' calls and its way of receiving.

On servers a lab is set up for one step after another. In virtual time each step runs on its own fork of a world.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from harness.experiments.technique_scenario import Turn
from harness.lab import dialog_pool, link, scripts
from harness.lab.instances import Lab, LabError, connections
from harness.lab.opening import Topology
from harness.lab.processes import ChildError
from harness.load import plan
from harness.load.plan import LoadError, Sending
from harness.run import attempt as attempts
from harness.run import outside_readers
from harness.run.attempt import Attempt, Equipment, Measured
from harness.run.cell_failures import CellFailed, NotReady, not_ready
from harness.run.equipment import LabEquipment, Preflight, locust_clients
from harness.run.phases import Phases
from harness.script_text import ScriptError
from harness.settings import SimulationSettings
from harness.simulation import forks, simulated_cell, simulated_lab
from harness.simulation.forks import ForkDied
from harness.simulation.parameters import Parameters
from harness.simulation.simulated_cell import Times
from harness.simulation.simulated_lab import SimulatedLab
from harness.simulation.world import derived_seed
from harness.whitepaper import MAX_QUEUE_READERS, RECEIVE_TIMEOUT_MS, RECEIVE_TOP, WARM_UP_BYTES
from harness.workload_file import Receiving, Workload

if TYPE_CHECKING:
    import pyodbc

# How the target receives once a step's clients have stopped, unless it processes in batch: a slow step must not take an
# hour to drain. These readers end soon after the queue is empty.
DRAINING = Receiving(receive_top=RECEIVE_TOP, receive_timeout_ms=100, max_queue_readers=MAX_QUEUE_READERS)

# The dialogs begun for a step: used per initiator, dialog ratio, warmed up.
Pool = tuple[int, int, bool]

# A reader needs one message to be busy with while others are launched, and one more until the last of them has
# committed. With just these two, some seeds leave a reader without a message.
RAMP_MESSAGES = 6


class ServerTestbed:
    """Implements `run.engine.Testbed` for techniques on servers, with Locust. Use it from the main thread."""

    def __init__(self, topology: Topology, preflight: Preflight) -> None:
        self._settings = preflight.settings
        self._results = preflight.results
        self._clients = locust_clients(preflight)
        self._equipment = LabEquipment(topology, preflight, self._clients)
        self._pool: Pool | None = None
        self._is_clean = True  # the lab has no conversations

    def make_ready(self, cell: Turn, phases: Phases) -> None:
        try:
            with phases.phase("clients"):
                self._clients.launch(cell.cell.initiators)
            if self._equipment.parts is None:
                with phases.phase("lab"):
                    self._equipment.open(cell.cell.server_version, cell.cell.initiators)
            arrangement = cell.technique.arrangement
            with phases.phase("dialogs"):
                assert self._equipment.parts is not None
                link.retain(self._equipment.parts.lab, retention=arrangement.workload.queue.retention)
                parts = self._with_dialogs(cell)
            with phases.phase("receiving"):
                link.change_workload(parts.lab, arrangement.workload)
                if arrangement.batch:
                    link.stop_activation(parts.lab)
        except (LabError, ScriptError, LoadError, ChildError) as error:
            opened = self._equipment.parts
            raise not_ready(error, opened.lab if opened else None) from None

    def run(self, cell: Turn, attempt: int, run: int, phases: Phases) -> Measured:
        parts = self._equipment.parts
        assert parts is not None
        arrangement = cell.technique.arrangement
        if not arrangement.warm_up or arrangement.workload.queue.retention:
            self._pool = None  # the step warms it up, or leaves its messages behind
        self._is_clean = False
        folder, receiving = cell.folder(self._results), arrangement.workload.target
        draining = receiving if arrangement.batch else DRAINING

        def on_stopped() -> None:
            if not arrangement.outside_readers:  # they drain the queue as they are
                link.apply_to_new_readers(parts.lab, draining)

        how = sending(parts.lab, parts.initiators, cell)
        attempted = Attempt(cell.visit, attempt, run, self._settings, folder, on_stopped=on_stopped, sending=how)
        if not arrangement.outside_readers:
            return attempts.run(attempted, parts, phases)
        try:
            with outside_readers.running(parts.lab, receiving, folder / "activator"):
                return attempts.run(attempted, parts, phases)
        except (LabError, ScriptError) as error:
            raise not_ready(error, parts.lab) from None

    def tear_down(self) -> None:
        self._pool, self._is_clean = None, True
        self._equipment.close()
        self._clients.end_cell()

    def close(self) -> None:
        self._equipment.close()
        self._clients.close()

    def _with_dialogs(self, turn: Turn) -> Equipment:
        """Begin the dialogs of the step, and end all others, unless they already exist."""
        assert self._equipment.parts is not None
        pool = pool_of(turn)
        if pool is not None and pool == self._pool:
            return self._equipment.parts
        self._pool = None
        parts = self._equipment.parts if self._is_clean else self._equipment.without_conversations()
        self._is_clean = pool is None
        if pool is not None:
            _build(parts.lab, turn.cell.initiators, pool)
            self._pool = pool
        return parts


class SimulatedTestbed:
    """Implements `run.engine.Testbed`. Its world is kept while steps of a run need the same dialogs."""

    def __init__(self, settings: SimulationSettings, hardware: Parameters, workload: Workload, results: Path) -> None:
        self._settings = settings
        self._hardware = hardware
        self._workload = workload
        self._times = Times.of(settings, settings.open_loop)
        self._results = results
        self._lab: SimulatedLab | None = None
        self._made_for: tuple[Pool | None, int] | None = None

    def make_ready(self, cell: Turn, phases: Phases) -> None:
        key = (pool_of(cell), cell.block)
        if self._lab is not None and self._made_for == key:
            return
        self.tear_down()
        with phases.phase("dialogs"):
            try:
                with forks.frozen_heap():
                    self._lab = self._world(cell)
            except (LabError, ScriptError) as error:
                raise NotReady(str(error)) from None
        self._made_for = key

    def run(self, cell: Turn, attempt: int, run: int, phases: Phases) -> Measured:
        """Run on a fork of the world, so that the result depends on the seed and the step, but on no earlier step."""
        assert self._lab is not None
        folder = cell.folder(self._results)
        with phases.phase("copy"):
            try:
                return forks.in_fork(partial(_run, self._lab, cell, attempt, self._times, folder))
            except ForkDied as death:
                raise CellFailed(str(death)) from None

    def tear_down(self) -> None:
        self._lab, self._made_for = None, None

    def close(self) -> None:
        self.tear_down()

    def _world(self, turn: Turn) -> SimulatedLab:
        """Build the world of a turn, with a seed for each block, so that blocks differ as they do on servers."""
        pool, cell = pool_of(turn), turn.cell
        lab = simulated_lab.open(
            self._hardware,
            version=cell.server_version,
            initiators=cell.initiators,
            seed=derived_seed(self._settings.seed, "techniques", turn.block, pool),
        )
        lab.workload = self._workload
        link.link(lab)
        if pool is not None:
            _build(lab, cell.initiators, pool)
        return lab


def _run(lab: SimulatedLab, turn: Turn, attempt: int, times: Times, folder: Path) -> Measured:
    workload = turn.technique.arrangement.workload
    try:
        link.change_workload(lab, workload)
        # Readers with a shorter timeout than the paper's may have ended before the clients begin.
        if workload.target.receive_timeout_ms >= RECEIVE_TIMEOUT_MS:
            most = workload.target.max_queue_readers
            simulated_cell.launch_readers(lab, most, send=partial(_one_on_new_dialogs, lab, RAMP_MESSAGES * most))
        with connections(lab.initiators) as clients:
            how = sending(lab, clients, turn)
    except (LabError, ScriptError) as error:
        raise NotReady(str(error)) from None
    drain = partial(link.apply_to_new_readers, lab, DRAINING)
    return simulated_cell.run(lab, turn.visit, attempt, times, folder, pages={}, sending=how, on_stopped=drain)


def _one_on_new_dialogs(lab: SimulatedLab, count: int, clients: Sequence[pyodbc.Connection]) -> int:
    """Send messages on new dialogs, so that the step's own dialogs stay as cold as they are."""
    guid = dialog_pool.broker_instance(lab)
    for _ in range(count):
        scripts.execute(clients[0], plan.SEND_MESSAGE_ON_NEW_DIALOG.call, guid, b"x" * WARM_UP_BYTES)
    return count


def pool_of(turn: Turn) -> Pool | None:
    """Return the dialogs that must exist before a step, or None if the step begins its own."""
    arrangement = turn.technique.arrangement
    if arrangement.workload.client.begins_dialogs:
        return None
    return (arrangement.used_dialogs(turn.cell.threads), arrangement.dialog_ratio, arrangement.warm_up)


def _build(lab: Lab, initiators: int, pool: Pool) -> None:
    used, ratio, warm_up = pool
    dialog_pool.build(lab, initiators=initiators, dialogs=used * ratio, warm_up=warm_up)


def sending(lab: Lab, initiators: Sequence[pyodbc.Connection], turn: Turn) -> Sending:
    """Return the procedure that the clients call, and its arguments."""
    arrangement = turn.technique.arrangement
    share_one = arrangement.used_dialogs(turn.cell.threads) == 1
    return attempts.sending_of(lab, initiators, turn.cell, arrangement.workload, share_one=share_one)
