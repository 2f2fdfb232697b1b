"""How the target receives: what one RECEIVE takes, how long a reader waits for more, and how many there may be.

A lab is linked with the paper's numbers; `apply` and `apply_to_new_readers` give it others.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from harness.lab import scripts
from harness.lab.instances import Lab, LabError, connections

if TYPE_CHECKING:
    import pyodbc

_POLL_S = 0.05
# Beyond its timeout, for a reader that is still at work or sits in the queue monitor.
_READERS_END_S = 30.0


@dataclass(frozen=True, slots=True)
class ReceiveSettings:
    """Of the target's activation procedure and queue."""

    top: int
    timeout_ms: int
    max_queue_readers: int


def apply(lab: Lab, receiving: ReceiveSettings) -> None:
    """Installs the activation procedure anew, and sets the queue's readers. Nothing may be sent meanwhile.

    A running reader goes on with the procedure that it was started with, and lowering MAX_QUEUE_READERS ends none:
    so this waits until those that run have found nothing more. LabError where they do not.
    """
    timeout_before_ms = int(lab.variables["ReceiveTimeoutMs"])
    with connections([lab.target]) as (target,):
        _wait_for_readers(lab, target, timeout_before_ms / 1000 + _READERS_END_S)
        _install(lab, target, receiving)


def apply_to_new_readers(lab: Lab, receiving: ReceiveSettings) -> None:
    """The same in the midst of messages: readers that are started from now on receive so."""
    timeout_before_ms = int(lab.variables["ReceiveTimeoutMs"])
    with connections([lab.target]) as (target,):
        _install(lab, target, receiving)
    # Those that run go on as before: the next `apply` waits for them.
    lab.variables["ReceiveTimeoutMs"] = str(max(timeout_before_ms, receiving.timeout_ms))


def _install(lab: Lab, target: pyodbc.Connection, receiving: ReceiveSettings) -> None:
    lab.variables |= {
        "ReceiveTop": str(receiving.top),
        "ReceiveTimeoutMs": str(receiving.timeout_ms),
        "MaxQueueReaders": str(receiving.max_queue_readers),
    }
    for path in ("target/receive_procedure.sql", "target/queue.sql"):
        scripts.run(target, path, lab.variables | {"Database": lab.target.database})


def _wait_for_readers(lab: Lab, target: pyodbc.Connection, timeout_s: float) -> None:
    deadline_s = lab.clock.now_s() + timeout_s
    while running := sum(row["tasks"] for row in scripts.rows(target, "observe/activated_tasks.sql", {})):
        lab.check()
        if lab.clock.now_s() > deadline_s:
            raise LabError(f"{running} readers of the target's queue have not ended after {timeout_s:g} s")
        lab.clock.sleep(_POLL_S)
