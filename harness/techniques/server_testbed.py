"""Where techniques run: a lab whose dialogs and whose target's receiving are arranged for each step."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from harness.lab import dialog_pool, receive_settings
from harness.lab.instances import Lab, LabError
from harness.lab.opening import Topology
from harness.lab.processes import ChildError
from harness.lab.receive_settings import ReceiveSettings
from harness.lab.scripts import ScriptError
from harness.load.plan import SEND_MESSAGE, SEND_MESSAGE_ON_NEW_DIALOG, LoadError, Sending
from harness.reporting import Reporter
from harness.settings import Settings
from harness.sweep.attempt import Attempt, Equipment, Measured, NotReady
from harness.sweep.equipment import LabEquipment
from harness.sweep.phases import Phases
from harness.sweep.preflight import Preflight
from harness.techniques.technique_scenario import Arrangement, Turn
from harness.whitepaper import MAX_QUEUE_READERS, RECEIVE_TOP

if TYPE_CHECKING:
    import pyodbc

# What a slow step has left in the queue need not leave it as slowly. Readers of this kind end soon when it is empty.
HASTE = ReceiveSettings(RECEIVE_TOP, 100, MAX_QUEUE_READERS)

# Of dialogs that stand: how many are used an initiator, the ratio, whether they are warm.
Pool = tuple[int, int, bool]


class ServerTestbed:
    """Implements `sweep.loop.Testbed` for techniques with a real lab and Locust. Use it from the main thread."""

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
        self._is_clean = True  # no conversation has ever begun in this lab, or all have been ended

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
            self._pool = None  # it warms up now
        self._is_clean = False
        return Attempt(
            cell.cell,
            attempt,
            run,
            parts,
            self._settings,
            folder_of(self._results, cell),
            phases,
            on_stopped=lambda: receive_settings.apply_to_new_readers(parts.lab, HASTE),
            sending=sending(parts.lab, parts.initiators, cell),
        ).run()

    def tear_down(self) -> None:
        self._pool, self._is_clean = None, True
        self._equipment.close()

    def _with_dialogs(self, turn: Turn) -> Equipment:
        """The step's dialogs stand, and no others."""
        assert self._equipment.parts is not None
        pool = needed(turn)
        if pool is not None and pool == self._pool:
            return self._equipment.parts
        self._pool = None
        parts = self._equipment.parts if self._is_clean else self._equipment.without_conversations()
        self._is_clean = pool is None
        if pool is not None:
            build(parts.lab, turn.cell.initiators, pool)
            self._pool = pool
        return parts


def needed(turn: Turn) -> Pool | None:
    """The dialogs that a step wants to find; None: it begins its own."""
    arrangement = turn.technique.arrangement
    if arrangement.conversations == "one_per_message":
        return None
    return (used_dialogs(arrangement, turn.cell.threads), arrangement.dialog_ratio, arrangement.warm_up)


def used_dialogs(arrangement: Arrangement, threads: int) -> int:
    """How many of the dialogs begun beforehand an initiator's threads send on."""
    return {"one": 1, "one_per_thread": threads, "one_per_message": 0}[arrangement.conversations]


def build(lab: Lab, initiators: int, pool: Pool) -> None:
    used, ratio, warm_up = pool
    dialog_pool.build(lab, initiators=initiators, used_dialogs=used, dialog_ratio=ratio, warm_up=warm_up)


def sending(lab: Lab, initiators: Sequence[pyodbc.Connection], turn: Turn) -> Sending:
    """What the clients call, and with what."""
    cell = turn.cell
    if turn.technique.arrangement.conversations == "one_per_message":
        guid = str(lab.identities[0]["service_broker_guid"])
        return Sending(SEND_MESSAGE_ON_NEW_DIALOG, [[guid] * cell.threads] * cell.initiators)
    used = dialog_pool.used(initiators[: cell.initiators])
    if turn.technique.arrangement.conversations == "one":
        used = [handles[:1] * cell.threads for handles in used]
    return Sending(SEND_MESSAGE, used)


def folder_of(results: Path, turn: Turn) -> Path:
    """Where a turn's raw records lie, as those of a sweep in its own folder."""
    return results / "techniques" / turn.id
