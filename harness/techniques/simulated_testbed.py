"""The testbed of techniques in virtual time: each step runs on its own fork of a world with its dialogs."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from harness.lab import link, receive_settings, scripts
from harness.lab.instances import LabError, connections
from harness.lab.scripts import ScriptError
from harness.load import plan
from harness.settings import SimulationSettings
from harness.simulation import forks, simulated_cell, simulated_lab
from harness.simulation.forks import ForkDied
from harness.simulation.parameters import Parameters
from harness.simulation.simulated_cell import Times
from harness.simulation.simulated_lab import SimulatedLab
from harness.simulation.world import derived_seed
from harness.sweep.attempt import CellFailed, Measured, NotReady
from harness.sweep.journal import Phases
from harness.techniques.step_setup import DRAINING, Pool, build, folder_of, pool_of, sending
from harness.techniques.technique_scenario import Turn
from harness.whitepaper import RECEIVE_TIMEOUT_MS, WARM_UP_BYTES

if TYPE_CHECKING:
    import pyodbc

# A reader needs one message to be busy with while others are launched, and one more until the last of them has
# committed. With just these two, some seeds leave a reader without a message.
RAMP_MESSAGES = 6


class SimulatedTestbed:
    """Implements `sweep.loop.Testbed`. Its world is kept while steps of a run need the same dialogs."""

    def __init__(self, settings: SimulationSettings, hardware: Parameters, drain_s: float, results: Path) -> None:
        self._settings = settings
        self._hardware = hardware
        self._times = Times(settings.settle, settings.measure, drain_s)
        self._results = results
        self._lab: SimulatedLab | None = None
        self._made_for: tuple[Pool | None, int] | None = None

    def make_ready(self, cell: Turn, phases: Phases) -> None:
        wanted = (pool_of(cell), cell.run)
        if self._lab is not None and self._made_for == wanted:
            return
        self.tear_down()
        with phases.phase("dialogs"):
            try:
                with forks.frozen_heap():
                    self._lab = self._world(cell)
            except (LabError, ScriptError) as error:
                raise NotReady(str(error)) from None
        self._made_for = wanted

    def run(self, cell: Turn, attempt: int, run: int, phases: Phases) -> Measured:
        """Run on a fork of the world, so that the result depends on the seed and the step, but on no earlier step."""
        assert self._lab is not None
        folder = folder_of(self._results, cell)
        with phases.phase("copy"):
            try:
                return forks.in_fork(partial(_run, self._lab, cell, attempt, self._times, folder))
            except ForkDied as death:
                raise CellFailed(str(death)) from None

    def tear_down(self) -> None:
        self._lab, self._made_for = None, None

    def _world(self, turn: Turn) -> SimulatedLab:
        """Build the world of a turn, with a seed for each run, so that runs differ as they do on servers."""
        pool, cell = pool_of(turn), turn.cell
        lab = simulated_lab.open(
            self._hardware,
            version=cell.server_version,
            initiators=cell.initiators,
            seed=derived_seed(self._settings.seed, "techniques", turn.run, pool),
        )
        link.link(lab)
        if pool is not None:
            build(lab, cell.initiators, pool)
        return lab


def _run(lab: SimulatedLab, turn: Turn, attempt: int, times: Times, folder: Path) -> Measured:
    arrangement = turn.technique.arrangement
    try:
        receive_settings.apply(lab, arrangement.receiving)
        # Readers with a shorter timeout than the paper's may have ended before the clients begin.
        if arrangement.receive_timeout_ms >= RECEIVE_TIMEOUT_MS:
            most = arrangement.max_queue_readers
            simulated_cell.launch_readers(lab, most, send=partial(_one_on_new_dialogs, lab, RAMP_MESSAGES * most))
        with connections(lab.initiators) as clients:
            how = sending(lab, clients, turn)
    except (LabError, ScriptError) as error:
        raise NotReady(str(error)) from None
    drain = partial(receive_settings.apply_to_new_readers, lab, DRAINING)
    return simulated_cell.run(lab, turn.cell, attempt, times, folder, pages={}, sending=how, on_stopped=drain)


def _one_on_new_dialogs(lab: SimulatedLab, count: int, clients: Sequence[pyodbc.Connection]) -> int:
    """Send messages on new dialogs, so that the step's own dialogs stay as cold as they are."""
    guid = str(lab.identities[0]["service_broker_guid"])
    for _ in range(count):
        scripts.execute(clients[0], plan.call(plan.SEND_MESSAGE_ON_NEW_DIALOG), guid, b"x" * WARM_UP_BYTES)
    return count
