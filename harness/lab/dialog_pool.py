"""Dialog pools: begin dialogs, warm them up, and wait until every message sent has been processed.

A pool serves every dialog ratio: cells of ratio r use the r-th, the 2r-th, ... of its dialogs.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from harness.lab import scripts
from harness.lab.error_remedies import explain
from harness.lab.instances import Instance, Lab, LabError, connections, in_parallel
from harness.lab.scripts import ScriptError
from harness.workload_file import Client

if TYPE_CHECKING:
    import pyodbc

WARM_UP_TIMEOUT_S = 600.0
_POLL_S = 0.01
_POLL_MAX_S = 0.1
_CHECK_ERRORS_EVERY_S = 1.0
# A queue that has not changed for so long will not empty by itself. Its transmission status says why.
_STANDSTILL_S = 30.0

_IS_ENABLED = """\
SELECT CAST(is_receive_enabled AS int) FROM sys.service_queues WHERE object_id = OBJECT_ID(N'dbo.MySSBLabTestQueue');
"""
_SEE_ITS_LOG = "the target's error log says why"
_CREATE = "{CALL dbo.CreateDialogs (?, ?)}"
_WARM_UP = "{CALL dbo.WarmUpDialogs}"


def build(lab: Lab, *, initiators: int, dialogs: int, warm_up: bool = True) -> None:
    """Begin so many dialogs on each of the first initiators and warm up all of them.

    Waits until the target has processed all warm-up messages, and empties its tables.
    Without `warm_up` no dialog has sent anything and the target knows none of them: "otherwise sys.sysdercv could
    become a bottleneck", says the paper.
    """
    guid = broker_instance(lab)
    taking_part = lab.initiators[:initiators]
    expected = initiators * dialogs if warm_up else 0
    with connections(taking_part) as clients, connections([lab.target]) as (target,):
        empty_tables(lab, target)  # older messages would count as processed

        def make(instance: Instance, connection: pyodbc.Connection) -> None:
            scripts.execute(connection, _CREATE, dialogs, guid)
            if warm_up:
                scripts.execute(connection, _WARM_UP)

        in_parallel(make, taking_part, clients, on_interrupt=lab.close)
        wait_until_drained(lab, taking_part, clients, target, expected=expected, timeout_s=WARM_UP_TIMEOUT_S)
        empty_tables(lab, target)


def empty_tables(lab: Lab, target: pyodbc.Connection) -> None:
    """Empty the target's tables. Queues and transmission queues must be empty."""
    scripts.run(target, "reset/messages.sql", {"Database": lab.target.database})


def used(initiators: Sequence[pyodbc.Connection], dialog_ratio: int, threads: int) -> list[list[str]]:
    """Return the handles of the dialogs in use, by initiator: thread n sends on the nth."""
    last = dialog_ratio * threads
    statement = f"SELECT handle FROM dbo.dialogs WHERE id <= {last} AND id % {dialog_ratio} = 0 ORDER BY id;"
    return [[str(handle) for handle in scripts.values(connection, statement)] for connection in initiators]


def identifiers(
    lab: Lab, initiators: Sequence[pyodbc.Connection], client: Client, dialog_ratio: int, threads: int
) -> list[list[str]]:
    """Return what each thread of each initiator passes on: its dialog, or the target's broker instance."""
    if client.begins_dialogs:
        return [[broker_instance(lab)] * threads for _ in initiators]
    return used(initiators, dialog_ratio, threads)


def broker_instance(lab: Lab) -> str:
    """Return the target's, to which initiators begin dialogs."""
    return str(lab.identities[0]["service_broker_guid"])


def wait_until_drained(
    lab: Lab,
    initiators: Sequence[Instance],
    clients: Sequence[pyodbc.Connection],
    target: pyodbc.Connection,
    *,
    expected: int,
    timeout_s: float,
) -> None:
    """Wait until the target has stored `expected` messages and all queues are empty.

    Queue depths come from metadata and cost nothing. Counting the messages reads the whole table, so it waits until the
    queues are empty. LabError says how many messages remain and where; it is raised at once if the target has recorded
    an error or its queue is disabled.
    """
    clock = lab.clock
    deadline = clock.now_s() + timeout_s
    last_change = last_check = clock.now_s()
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
        if now - last_check > _CHECK_ERRORS_EVERY_S:
            last_check, is_hopeless = now, not is_enabled(target) or bool(recorded_errors(target))
        if is_hopeless or now > deadline or now - last_change > _STANDSTILL_S:
            lab.check()
            raise LabError(_remaining(lab, expected, target, depths, initiators, clients))
        lab.check()
        clock.sleep(pause_s)
        pause_s = min(_POLL_MAX_S, pause_s * 1.5)


def _remaining(  # noqa: PLR0917
    lab: Lab,
    expected: int,
    target: pyodbc.Connection,
    depths: Sequence[int],
    initiators: Sequence[Instance],
    clients: Sequence[pyodbc.Connection],
) -> str:
    """Say how many messages remain, where, and why."""
    parts = [f"{processed(target)} of {expected} messages processed, {depths[0]} in the target's queue"]
    if why := _reason_at_target(lab, target, depths[0]):
        parts.append(why)
    for instance, connection, depth in zip(initiators, clients, depths[1:], strict=True):
        if not depth:
            continue
        statuses = scripts.rows(connection, "observe/transmission_status.sql", {})
        reasons = [str(row["transmission_status"]) for row in statuses if row["transmission_status"]]
        parts.append(f"{depth} in the transmission queue of {instance.name}" + (f": {reasons[0]}" if reasons else ""))
    return "; ".join(parts)


def _reason_at_target(lab: Lab, target: pyodbc.Connection, depth: int) -> str:
    """Return why the target does not process its messages; "" if it knows no reason and its queue is empty."""
    recorded = recorded_errors(target)
    if not is_enabled(target):
        return f"its queue is disabled, after five rollbacks in a row; {recorded or _logged_error(lab, target)}"
    if depth and not recorded:
        return f"no procedure receives them; {_logged_error(lab, target)}"
    return recorded


def _logged_error(lab: Lab, target: pyodbc.Connection) -> str:
    """Return the newest entry of the target's error log about its activation procedure, or where to look for one."""
    try:
        rows = scripts.rows(target, "observe/activation_errors.sql", {"Database": lab.target.database})
    except ScriptError:  # the login may not read the log
        rows = []
    return explain(" ".join(str(rows[-1]["Text"]).split())) if rows else _SEE_ITS_LOG


def is_enabled(target: pyodbc.Connection) -> bool:
    """Return whether messages can be received from the target's queue."""
    return bool(scripts.scalar(target, _IS_ENABLED))


def recorded_errors(target: pyodbc.Connection) -> str:
    """Return what the activation procedure has written to the error table, in one line; "" if nothing."""
    rows = scripts.rows(target, "observe/errors.sql", {})
    if not rows:
        return ""
    first = rows[0]
    number = f" (error {first['error_number']})" if first["error_number"] is not None else ""
    text = explain(f"{first['error_message']}{number}")
    return f"the activation procedure recorded {sum(row['errors'] for row in rows)} errors: {text}"


def processed(target: pyodbc.Connection) -> int:
    """Count the messages that the target has stored and committed."""
    return int(scripts.scalar(target, "SELECT COUNT_BIG(*) FROM dbo.messageDrop;"))


def queue_depth(connection: pyodbc.Connection) -> int:
    return sum(int(row["messages"]) for row in scripts.rows(connection, "observe/queue_depth.sql", {}))


def transmission_queue_depth(connection: pyodbc.Connection) -> int:
    return sum(int(row["messages"]) for row in scripts.rows(connection, "observe/transmission_queue.sql", {}))
