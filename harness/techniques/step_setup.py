"""The setup of a step of the scenario on any lab: its dialogs, its clients' calls, the folder of its records."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from harness.lab import dialog_pool
from harness.lab.instances import Lab
from harness.lab.receive_settings import ReceiveSettings
from harness.load.plan import SEND_MESSAGE, SEND_MESSAGE_ON_NEW_DIALOG, Sending
from harness.techniques.technique_scenario import Arrangement, Turn
from harness.whitepaper import MAX_QUEUE_READERS, RECEIVE_TOP

if TYPE_CHECKING:
    import pyodbc

# How the target receives once a step's clients have stopped: a slow step must not take an hour to drain. These readers
# end soon after the queue is empty.
DRAINING = ReceiveSettings(RECEIVE_TOP, 100, MAX_QUEUE_READERS)

# The dialogs begun for a step: used per initiator, dialog ratio, warmed up.
Pool = tuple[int, int, bool]


def pool_of(turn: Turn) -> Pool | None:
    """Return the dialogs that must exist before a step, or None if the step begins its own."""
    arrangement = turn.technique.arrangement
    if arrangement.conversations == "one_per_message":
        return None
    return (used_dialogs(arrangement, turn.cell.threads), arrangement.dialog_ratio, arrangement.warm_up)


def used_dialogs(arrangement: Arrangement, threads: int) -> int:
    """Count the dialogs begun beforehand on which the threads of an initiator send."""
    return {"one": 1, "one_per_thread": threads, "one_per_message": 0}[arrangement.conversations]


def build(lab: Lab, initiators: int, pool: Pool) -> None:
    used, ratio, warm_up = pool
    dialog_pool.build(lab, initiators=initiators, used_dialogs=used, dialog_ratio=ratio, warm_up=warm_up)


def sending(lab: Lab, initiators: Sequence[pyodbc.Connection], turn: Turn) -> Sending:
    """Return the procedure that the clients call, and its arguments."""
    cell = turn.cell
    if turn.technique.arrangement.conversations == "one_per_message":
        guid = str(lab.identities[0]["service_broker_guid"])
        return Sending(SEND_MESSAGE_ON_NEW_DIALOG, [[guid] * cell.threads] * cell.initiators)
    used = dialog_pool.used(initiators[: cell.initiators])
    if turn.technique.arrangement.conversations == "one":
        used = [handles[:1] * cell.threads for handles in used]
    return Sending(SEND_MESSAGE, used)


def folder_of(results: Path, turn: Turn) -> Path:
    """Return the folder of a turn's raw records; it is laid out like that of a sweep."""
    return results / "techniques" / turn.id
