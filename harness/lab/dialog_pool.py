"""Dialog pools: begun, warmed up, and proved to be there; and waiting until everything sent has been processed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from harness.lab import reset, scripts
from harness.lab.error_remedies import explain
from harness.lab.instances import Instance, Lab, LabError, connections, in_parallel

if TYPE_CHECKING:
    import pyodbc

WARM_UP_TIMEOUT_S = 600.0
_POLL_S = 0.01
_POLL_MAX_S = 0.1
_LOOK_EVERY_S = 1.0  # at what the target has noted
# A queue that stands still for so long will not empty by itself; its transmission status says why.
_STANDSTILL_S = 30.0

_IS_ENABLED = """\
SELECT CAST(is_receive_enabled AS int) FROM sys.service_queues WHERE object_id = OBJECT_ID(N'dbo.MySSBLabTestQueue');
"""
_SEE_ITS_LOG = "the target's error log says why"
_CREATE = "{CALL dbo.CreateDialogs (?, ?, ?)}"
_WARM_UP = "{CALL dbo.WarmUpDialogs}"


def build(lab: Lab, *, initiators: int, used_dialogs: int, dialog_ratio: int, warm_up: bool = True) -> int:
    """Begins `used_dialogs` × `dialog_ratio` dialogs on each of the first initiators and warms up every one.

    Without `warm_up` none has sent anything, and the target knows none of them: "otherwise sys.sysdercv could become a
    bottleneck", says the paper.
    Waits until the target has processed all warm-up messages, and empties its tables. Returns how many dialogs there
    are.
    """
    guid = str(lab.identities[0]["service_broker_guid"])
    taking_part = lab.initiators[:initiators]
    begun = initiators * used_dialogs * dialog_ratio
    expected = begun if warm_up else 0
    with connections(taking_part) as clients, connections([lab.target]) as (target,):
        reset.messages(lab, target)  # what is there counts as processed

        def make(instance: Instance, connection: pyodbc.Connection) -> None:
            scripts.execute(connection, _CREATE, used_dialogs, dialog_ratio, guid)
            if warm_up:
                scripts.execute(connection, _WARM_UP)

        in_parallel(make, taking_part, clients, on_interrupt=lab.close)
        wait_until_drained(lab, taking_part, clients, target, expected=expected, timeout_s=WARM_UP_TIMEOUT_S)
        reset.messages(lab, target)
    return begun


def used(initiators: Sequence[pyodbc.Connection]) -> list[list[str]]:
    """The handles of the dialogs in use, by initiator: thread n sends on the nth."""
    statement = "SELECT handle FROM dbo.dialogs ORDER BY id;"
    return [[str(handle) for handle in scripts.values(connection, statement)] for connection in initiators]


def wait_until_drained(
    lab: Lab,
    initiators: Sequence[Instance],
    clients: Sequence[pyodbc.Connection],
    target: pyodbc.Connection,
    *,
    expected: int,
    timeout_s: float,
) -> None:
    """Waits until the target has stored `expected` messages and no queue holds any.

    Depths are read from metadata, at no cost; the messages are counted, which reads the whole table, only once the
    queues are empty. LabError says what still lies where, at once if the target has noted an error or given up.
    """
    clock = lab.clock
    deadline = clock.now_s() + timeout_s
    last_change = last_look = clock.now_s()
    before: tuple[int, ...] = ()
    pause_s = _POLL_S
    while True:
        depths = (queue_depth(target), *(transmission_queue_depth(connection) for connection in clients))
        stored = 0 if any(depths) else processed(target)
        if stored >= expected and not any(depths):
            return
        now = clock.now_s()
        if (stored, *depths) != before:
            before, last_change = (stored, *depths), now
        is_hopeless = False
        if now - last_look > _LOOK_EVERY_S:
            last_look, is_hopeless = now, not is_enabled(target) or bool(noted_errors(target))
        if is_hopeless or now > deadline or now - last_change > _STANDSTILL_S:
            lab.check()
            raise LabError(_what_is_left(expected, target, depths, initiators, clients))
        lab.check()
        clock.sleep(pause_s)
        pause_s = min(_POLL_MAX_S, pause_s * 1.5)


def _what_is_left(
    expected: int,
    target: pyodbc.Connection,
    depths: Sequence[int],
    initiators: Sequence[Instance],
    clients: Sequence[pyodbc.Connection],
) -> str:
    parts = [f"{processed(target)} of {expected} messages processed, {depths[0]} in the target's queue"]
    if why := _why_it_stands_still(target, depths[0]):
        parts.append(why)
    for instance, connection, depth in zip(initiators, clients, depths[1:], strict=True):
        if not depth:
            continue
        statuses = scripts.rows(connection, "observe/transmission_status.sql", {})
        told = [str(row["transmission_status"]) for row in statuses if row["transmission_status"]]
        parts.append(f"{depth} in the transmission queue of {instance.name}" + (f": {told[0]}" if told else ""))
    return "; ".join(parts)


def _why_it_stands_still(target: pyodbc.Connection, depth: int) -> str:
    """The target's own account; "" if it has none and nothing lies there."""
    noted = noted_errors(target)
    if not is_enabled(target):
        return f"its queue is disabled, after five rollbacks in a row; {noted or _SEE_ITS_LOG}"
    if depth and not noted:
        return f"no procedure takes them; {_SEE_ITS_LOG}"
    return noted


def is_enabled(target: pyodbc.Connection) -> bool:
    """Whether messages can be received from the target's queue."""
    return bool(scripts.scalar(target, _IS_ENABLED))


def noted_errors(target: pyodbc.Connection) -> str:
    """What the activation procedure has written to the error table, in one line; "" if nothing."""
    rows = scripts.rows(target, "observe/errors.sql", {})
    if not rows:
        return ""
    first = rows[0]
    number = f" (error {first['error_number']})" if first["error_number"] is not None else ""
    text = explain(f"{first['error_message']}{number}")
    return f"the activation procedure noted {sum(row['errors'] for row in rows)} errors: {text}"


def processed(target: pyodbc.Connection) -> int:
    """Messages that the target has stored and committed."""
    return int(scripts.scalar(target, "SELECT COUNT_BIG(*) FROM dbo.messageDrop;"))


def queue_depth(connection: pyodbc.Connection) -> int:
    return sum(int(row["messages"]) for row in scripts.rows(connection, "observe/queue_depth.sql", {}))


def transmission_queue_depth(connection: pyodbc.Connection) -> int:
    return sum(int(row["messages"]) for row in scripts.rows(connection, "observe/transmission_queue.sql", {}))
