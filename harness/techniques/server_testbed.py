"""The testbed of techniques on servers: a lab whose dialogs and receive procedure are set up for each step."""

from __future__ import annotations

from pathlib import Path

from harness.lab import receive_settings
from harness.lab.instances import LabError
from harness.lab.opening import Topology
from harness.lab.processes import ChildError
from harness.lab.scripts import ScriptError
from harness.load.plan import LoadError
from harness.reporting import Reporter
from harness.settings import Settings
from harness.sweep.attempt import Attempt, Equipment, Measured, NotReady
from harness.sweep.equipment import LabEquipment
from harness.sweep.journal import Phases
from harness.sweep.preflight import Preflight
from harness.techniques.step_setup import DRAINING, Pool, build, folder_of, pool_of, sending
from harness.techniques.technique_scenario import Turn


class ServerTestbed:
    """Implements `sweep.loop.Testbed` for techniques on servers, with Locust. Use it from the main thread."""

    def __init__(
        self,
        settings: Settings,
        topology: Topology,
        results: Path,
        preflight: Preflight,
        reporter: Reporter,
    ) -> None:
        self._settings = settings
        self._results = results
        self._equipment = LabEquipment(settings, topology, results, preflight, reporter)
        self._pool: Pool | None = None
        self._is_clean = True  # the lab has no conversations

    def make_ready(self, cell: Turn, phases: Phases) -> None:
        try:
            if self._equipment.parts is None:
                with phases.phase("lab"):
                    self._equipment.open(cell.cell.server_version, cell.cell.initiators)
            with phases.phase("dialogs"):
                parts = self._with_dialogs(cell)
            with phases.phase("receiving"):
                receive_settings.apply(parts.lab, cell.technique.arrangement.receiving)
        except (LabError, ScriptError, LoadError, ChildError) as error:
            raise NotReady(str(error)) from None

    def run(self, cell: Turn, attempt: int, run: int, phases: Phases) -> Measured:
        parts = self._equipment.parts
        assert parts is not None
        if not cell.technique.arrangement.warm_up:
            self._pool = None  # the step warms it up
        self._is_clean = False
        return Attempt(
            cell.cell,
            attempt,
            run,
            parts,
            self._settings,
            folder_of(self._results, cell),
            phases,
            on_stopped=lambda: receive_settings.apply_to_new_readers(parts.lab, DRAINING),
            sending=sending(parts.lab, parts.initiators, cell),
        ).run()

    def tear_down(self) -> None:
        self._pool, self._is_clean = None, True
        self._equipment.close()

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
            build(parts.lab, turn.cell.initiators, pool)
            self._pool = pool
        return parts
