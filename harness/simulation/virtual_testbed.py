"""The testbed of virtual time: each item is attempted in a fork of a world.

So its result depends on the seed and the item, but on no earlier item.
"""

from collections.abc import Hashable, Sequence
from functools import partial
from pathlib import Path

from harness.definitions.whitepaper import RECEIVE_TIMEOUT_MS, WARM_UP_BYTES
from harness.files.script_text import ScriptError
from harness.files.settings import SimulationSettings
from harness.files.workload_file import Workload
from harness.lab import dialog_pool, link, scripts
from harness.lab.drivers import Connection
from harness.lab.instances import LabError, connections
from harness.load import plan
from harness.run import attempt as attempts
from harness.run.arrangement import Arrangement, Item
from harness.run.attempt import Measured, Times
from harness.run.cell_failures import CellFailed, NotReady
from harness.run.phases import Phases
from harness.run.testbed import DRAINING, LoadOf
from harness.simulation import forks, simulated_cell, simulated_lab
from harness.simulation.forks import ForkDied
from harness.simulation.parameters import Parameters
from harness.simulation.simulated_cell import WarmedWorld, WorldSize
from harness.simulation.simulated_lab import SimulatedLab
from harness.simulation.world import derived_seed

# A reader needs one message to be busy with while others are launched, and one more until the last of them has
# committed. With just these two, some seeds leave a reader without a message.
RAMP_MESSAGES = 6


class VirtualTestbed:
    """Implements `run.in_process.Testbed`. Its world is kept while items need the same dialogs."""

    def __init__(
        self,
        settings: SimulationSettings,
        hardware: Parameters,
        results: Path,
        *,
        size: WorldSize | None = None,
        workload: Workload | None = None,
        load_of: LoadOf | None = None,
    ) -> None:
        """`size` is that of the worlds of items without an arrangement, by default what an item needs; `workload` that
        of items with one, as far as they have it in common. `load_of` gives each item's load in place of the settings'.
        """
        self._settings = settings
        self._hardware = hardware
        self._results = results
        self._size = size
        self._workload = workload
        self._load_of = load_of or (lambda item: settings.open_loop)
        self._world: WarmedWorld | SimulatedLab | None = None
        self._made_for: Hashable = None

    def make_ready(self, cell: Item, phases: Phases) -> None:
        arrangement, version = cell.arrangement, cell.cell.server_version
        size = self._size or WorldSize.of([cell.cell])
        key = (version, size) if arrangement is None else (_pool_of(arrangement, cell), cell.block)
        if self._world is not None and self._made_for == key:
            return
        self.close()
        with phases.phase("dialogs"):
            try:
                if arrangement is None:
                    self._world = WarmedWorld(self._hardware, version, size, seed=self._settings.seed)
                else:
                    self._world = self._arranged(arrangement, cell)
            except (LabError, ScriptError) as error:
                raise NotReady(str(error)) from None
        self._made_for = key

    def run(self, cell: Item, attempt: int, run: int, phases: Phases) -> Measured:
        world, times = self._world, Times.of(self._settings, self._load_of(cell), attempt)
        folder = cell.folder(self._results)
        assert world is not None
        with phases.phase("copy"):
            if isinstance(world, WarmedWorld):
                return world.run(cell.visit, attempt, times, folder)
            try:
                return forks.in_fork(partial(_run, world, cell, attempt, times, folder))
            except ForkDied as death:
                raise CellFailed(str(death)) from None

    def tear_down(self) -> None:
        """Keep the world: what failed did so in a fork."""

    def close(self) -> None:
        self._world, self._made_for = None, None

    @forks.frozen_heap()
    def _arranged(self, arrangement: Arrangement, item: Item) -> SimulatedLab:
        """Build the world of an item, with a seed for each block, so that blocks differ as they do on servers."""
        pool, cell = _pool_of(arrangement, item), item.cell
        lab = simulated_lab.open(
            self._hardware,
            version=cell.server_version,
            initiators=cell.initiators,
            seed=derived_seed(self._settings.seed, "techniques", item.block, pool),
        )
        assert self._workload is not None
        lab.workload = self._workload
        link.link(lab)
        if pool is not None:
            dialog_pool.build(lab, **arrangement.pool(cell)._asdict())
        return lab


def _pool_of(arrangement: Arrangement, item: Item) -> tuple[int, int, bool] | None:
    """Return what names a world's dialogs, also in its seed: used by an initiator, dialog ratio, warmed up; None if
    clients begin their own."""
    used = arrangement.used_dialogs(item.cell.threads)
    return (used, arrangement.dialog_ratio, arrangement.warm_up) if used else None


def _run(lab: SimulatedLab, item: Item, attempt: int, times: Times, folder: Path) -> Measured:
    arrangement = item.arrangement
    assert arrangement is not None
    workload = arrangement.workload
    try:
        link.change_workload(lab, workload)
        # Readers with a shorter timeout than the paper's may have ended before the clients begin.
        if workload.target.receive_timeout_ms >= RECEIVE_TIMEOUT_MS:
            most = workload.target.max_queue_readers
            simulated_cell.launch_readers(lab, most, send=partial(_one_on_new_dialogs, lab, RAMP_MESSAGES * most))
        with connections(lab.initiators) as clients:
            sending = attempts.sending_of(lab, clients, item.cell, arrangement)
    except (LabError, ScriptError) as error:
        raise NotReady(str(error)) from None
    drain = partial(link.apply_to_new_readers, lab, DRAINING)
    return simulated_cell.run(lab, item.visit, attempt, times, folder, pages={}, sending=sending, on_stopped=drain)


def _one_on_new_dialogs(lab: SimulatedLab, count: int, clients: Sequence[Connection]) -> int:
    """Send messages on new dialogs, so that the step's own dialogs stay as cold as they are."""
    guid = dialog_pool.broker_instance(lab)
    for _ in range(count):
        scripts.execute(clients[0], plan.SEND_MESSAGE_ON_NEW_DIALOG.call, guid, b"x" * WARM_UP_BYTES)
    return count
