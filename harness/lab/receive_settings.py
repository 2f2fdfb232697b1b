"""How the target receives: messages per RECEIVE, how long a reader waits for more, and how many readers there may be.

A lab is linked with the paper's numbers. `apply` and `apply_to_new_readers` change them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from harness.lab import scripts
from harness.lab.instances import Lab, LabError, connections

if TYPE_CHECKING:
    import pyodbc

_POLL_S = 0.05
# Added to its timeout, for a reader that is still working.
_READERS_END_S = 30.0


@dataclass(frozen=True, slots=True)
class ReceiveSettings:
    """Settings of the target's activation procedure and queue."""

    top: int
    timeout_ms: int
    max_queue_readers: int


def apply(lab: Lab, receiving: ReceiveSettings) -> None:
    """Install the activation procedure with other settings and set the queue's number of readers.

    Nothing may be sent meanwhile. A running reader keeps the procedure that it was started with, and lowering
    MAX_QUEUE_READERS ends none. So this first waits until the running readers have timed out; LabError if they do not.
    """
    timeout_before_ms = int(lab.variables["ReceiveTimeoutMs"])
    with connections([lab.target]) as (target,):
        _wait_for_readers(lab, target, timeout_before_ms / 1000 + _READERS_END_S)
        _install(lab, target, receiving)


def apply_to_new_readers(lab: Lab, receiving: ReceiveSettings) -> None:
    """Do the same while messages arrive: the settings hold for readers started from now on."""
    timeout_before_ms = int(lab.variables["ReceiveTimeoutMs"])
    with connections([lab.target]) as (target,):
        _install(lab, target, receiving)
    # Running readers keep their timeout, and the next `apply` waits for them.
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
            raise LabError(f"{running} readers of the target's queue have not ended within {timeout_s:g} s")
        lab.clock.sleep(_POLL_S)
