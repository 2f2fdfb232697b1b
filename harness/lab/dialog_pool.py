"""Dialog pools: begin dialogs, warm them up, and wait until every message sent has been processed.

A pool serves every dialog ratio: cells of ratio r use the r-th, the 2r-th, ... of its dialogs.
"""

import html
import re
from collections.abc import Sequence

from harness.definitions.units import counted
from harness.files.script_text import ScriptError
from harness.files.workload_file import Client
from harness.lab import procedure_text, scripts
from harness.lab.drivers import Connection
from harness.lab.error_remedies import explain, is_lasting
from harness.lab.instances import Instance, Lab, LabError, ProcedureFails, connections, in_parallel

WARM_UP_TIMEOUT_S = 600.0
_POLL_S = 0.01
_POLL_MAX_S = 0.1
_CHECK_ERRORS_EVERY_S = 1.0
# A queue that has not changed for so long will not empty by itself. Its transmission status says why.
_STANDSTILL_S = 30.0
# So long a count of the messages waits for those that are received and not committed.
_LOCK_TIMEOUT_MS = 1000
_LOCKED = "(error 1222)"

_IS_ENABLED = """\
SELECT CAST(is_receive_enabled AS int) FROM sys.service_queues WHERE object_id = OBJECT_ID(N'{}');
"""
_UNQUOTED = {ord("["): None, ord("]"): None}
_SEE_ITS_LOG = "the target's error log says why"
QUEUE_IS_OFF = "is currently disabled"  # what readers write after it was switched off: a consequence
_CREATE = "{CALL dbo.CreateDialogs (?, ?)}"
_WARM_UP_TEXT = 25 * "x"  # 50 bytes
_WARM_UP = "{CALL dbo.WarmUpDialogs (?, ?, ?, ?)}"
_GROUP = "{CALL dbo.GroupDialogs (?, ?, ?)}"


def build(
    lab: Lab, *, initiators: int, dialogs: int, warm_up: bool = True, used: Sequence[tuple[int, int]] = ()
) -> None:
    """Begin so many dialogs on each of the first initiators and warm up all, or those `used`: ratios with threads.

    Waits until the target has processed all warm-up messages, and empties its tables.
    Without `warm_up` no dialog has sent anything and the target knows none of them: "otherwise sys.sysdercv could
    become a bottleneck", says the paper.
    """
    guid, bodies = broker_instance(lab), lab.workload.bodies
    taking_part = lab.initiators[:initiators]
    warmed = used or [(1, dialogs)]
    expected = initiators * sum(threads for _, threads in warmed) if warm_up else 0
    with connections(taking_part) as clients, connections([lab.target]) as (target,):
        empty_tables(lab, target)  # older messages would count as processed

        def make(instance: Instance, connection: Connection) -> None:
            scripts.execute(connection, _CREATE, dialogs, guid)
            if not warm_up:
                return
            text = _WARM_UP_TEXT
            if bodies and bodies.template:
                number = lab.initiators.index(instance) + 1
                text = bodies.warm_up_text(run=lab.clock.utc_ns() // 10**6, initiator=number)
            sent = 0
            for dialog_ratio, threads in warmed:
                scripts.execute(connection, _WARM_UP, text, dialog_ratio, threads, sent)
                sent += threads

        in_parallel(make, taking_part, clients, on_interrupt=lab.close)
        wait_until_drained(lab, taking_part, clients, target, expected=expected, timeout_s=WARM_UP_TIMEOUT_S)
        empty_tables(lab, target)


def empty_tables(lab: Lab, target: Connection) -> None:
    """Empty the target's tables. Queues and transmission queues must be empty."""
    table = "errors" if lab.workload.is_counted else "messages"
    scripts.run(target, f"reset/{table}.sql", {"Database": lab.target.database})


def used(initiators: Sequence[Connection], dialog_ratio: int, threads: int) -> list[list[str]]:
    """Return the handles of the dialogs in use, by initiator: thread n sends on the nth."""
    last = dialog_ratio * threads
    statement = f"SELECT handle FROM dbo.dialogs WHERE id <= {last} AND id % {dialog_ratio} = 0 ORDER BY id;"
    return [[str(handle) for handle in scripts.values(connection, statement)] for connection in initiators]


def identifiers(
    lab: Lab, initiators: Sequence[Connection], client: Client, dialog_ratio: int, threads: int
) -> list[list[str]]:
    """Return what each thread of each initiator passes on: its dialog, or the target's broker instance.

    Where dialogs of the lab's workload share conversation groups, they are put into these first.
    """
    if client.begins_dialogs:
        return [[broker_instance(lab)] * threads for _ in initiators]
    if (per_group := lab.workload.dialogs.per_group) > 1:
        for connection in initiators:
            scripts.execute(connection, _GROUP, dialog_ratio, threads, per_group)
    return used(initiators, dialog_ratio, threads)


def broker_instance(lab: Lab) -> str:
    """Return the target's, to which initiators begin dialogs."""
    return str(lab.identities[0]["service_broker_guid"])


def wait_until_drained(
    lab: Lab,
    initiators: Sequence[Instance],
    clients: Sequence[Connection],
    target: Connection,
    *,
    expected: int,
    timeout_s: float,
) -> None:
    """Wait until the target has stored `expected` messages and all queues are empty.

    Queue depths come from metadata and cost nothing. They are approximate (sys.partitions), so where they stand still,
    the queues themselves are read. Counting the messages reads the whole table, so it waits until the queues are
    empty. LabError says how many messages remain and where; it is raised at once if the target has recorded
    an error or its queue is disabled.

    Where messages are counted, the target stores none. It has processed all once the transmission queues are empty, its
    own too, with which it answers, and then its queue has no row, not even one whose RECEIVE is not committed yet.
    """
    if lab.workload.is_counted:
        initiators, clients = [*initiators, lab.target], [*clients, target]
    clock = lab.clock
    deadline = clock.now_s() + timeout_s
    last_change = last_check = clock.now_s()
    before: tuple[int, ...] = ()
    pause_s = _POLL_S
    while True:
        depths = (
            queue_depth(target, lab.target.queue, retention=lab.target.retention),
            *(transmission_queue_depth(connection) for connection in clients),
        )
        left = expected if any(depths) else _left(lab, target, expected)
        if not left and not any(depths):
            return
        now = clock.now_s()
        if (left, *depths) != before:
            before, last_change = (left, *depths), now
        is_hopeless = False
        if now - last_check > _CHECK_ERRORS_EVERY_S:
            last_check, is_hopeless = now, not is_enabled(target, lab.target.queue) or bool(recorded_errors(target))
        if is_hopeless or now > deadline or now - last_change > _STANDSTILL_S:
            lab.check()
            if not is_hopeless and _is_drained(lab, clients, target, expected):
                return
            raise _remaining(lab, expected, left, target, depths, initiators, clients)
        lab.check()
        clock.sleep(pause_s)
        pause_s = min(_POLL_MAX_S, pause_s * 1.5)


def _is_drained(lab: Lab, clients: Sequence[Connection], target: Connection, expected: int) -> bool:
    """Whether all was processed and nothing waits, by reading the queues in place of their metadata."""
    if _left(lab, target, expected) or not (lab.target.retention or _unprocessed(lab, target) == 0):
        return False
    return not any(scripts.rows(each, "observe/transmission_status.sql", {}) for each in clients)


def _left(lab: Lab, target: Connection, expected: int) -> int:
    """Return how many messages the target has not processed, though all queues looked empty."""
    return _unprocessed(lab, target) if lab.workload.is_counted else max(0, expected - processed(target))


def _unprocessed(lab: Lab, target: Connection) -> int:
    """Return how many messages are in the target's queue, those included whose RECEIVE is not committed."""
    scripts.execute(target, f"SET LOCK_TIMEOUT {_LOCK_TIMEOUT_MS};")
    try:
        return int(scripts.rows(target, "observe/unprocessed.sql", {"Queue": lab.target.queue})[0]["messages"])
    except ScriptError as error:
        if _LOCKED not in str(error):
            raise
        return 1  # at least: a reader is in the middle of its transaction
    finally:
        scripts.execute(target, "SET LOCK_TIMEOUT -1;")


def _remaining(  # noqa: PLR0917
    lab: Lab,
    expected: int,
    left: int,
    target: Connection,
    depths: Sequence[int],
    initiators: Sequence[Instance],
    clients: Sequence[Connection],
) -> LabError:
    """Return the error that says how many messages remain, where, and why."""
    processed_count = max(0, expected - (sum(depths[:-1]) or left)) if lab.workload.is_counted else processed(target)
    parts = [f"{processed_count} of {counted(expected, 'message')} processed, {depths[0]} in the target's queue"]
    if lab.workload.is_counted and not any(depths):
        parts.append("its procedure does not commit what it has received")
    why = _reason_at_target(lab, target, depths[0])
    if why:
        parts.append(why)
    elif not lab.workload.is_counted and not any(depths):
        parts.append(
            "its procedure has not stored the others in dbo.messageDrop: INSERT all of them there, or count messages "
            '(by = "count" under [accounting])'
        )
    for instance, connection, depth in zip(initiators, clients, depths[1:], strict=True):
        if not depth:
            continue
        statuses = scripts.rows(connection, "observe/transmission_status.sql", {})
        reasons = [str(row["transmission_status"]) for row in statuses if row["transmission_status"]]
        parts.append(f"{depth} in the transmission queue of {instance.name}" + (f": {reasons[0]}" if reasons else ""))
    is_refused = not processed_count and not is_enabled(target, lab.target.queue) and is_lasting(why)
    return (ProcedureFails if is_refused else LabError)("; ".join(parts))


def _reason_at_target(lab: Lab, target: Connection, depth: int) -> str:
    """Return why the target does not process its messages; "" if it knows no reason and its queue is empty."""
    recorded = recorded_errors(target)
    if not is_enabled(target, lab.target.queue):
        return f"its queue is disabled, after five rollbacks in a row; {recorded or _logged_error(lab, target)}"
    if depth and not recorded:
        return f"no procedure receives them; {_logged_error(lab, target)}"
    return recorded


def _logged_error(lab: Lab, target: Connection) -> str:
    """Return the newest entry of the target's error log about its activation procedure, or where to look for one."""
    try:
        variables = {"Database": lab.target.database, "Queue": lab.target.queue.translate(_UNQUOTED)}
        log = scripts.rows(target, "observe/activation_errors.sql", variables)
        rows = [row for row in log if QUEUE_IS_OFF not in row["Text"]]
    except ScriptError:  # the login may not read the log
        rows = []
    if rows:
        return explain(" ".join(str(rows[-1]["Text"]).split()))
    texts = scripts.rows(target, "monitors/procedure.sql", {"Queue": lab.target.queue})
    hides = any(procedure_text.hides_errors(str(row["definition"] or "")) for row in texts)
    return procedure_text.HIDES_ERRORS if hides else _SEE_ITS_LOG


def is_enabled(target: Connection, queue: str) -> bool:
    """Return whether messages can be received from the target's queue."""
    return bool(scripts.scalar(target, _IS_ENABLED.format(queue)))


def recorded_errors(target: Connection) -> str:
    """Return what the activation procedure has written to the error table, in one line; "" if nothing."""
    rows = scripts.poll(target, "observe/errors.sql", {})
    if not rows:
        return ""
    first = rows[0]
    number = f" (error {first['error_number']})" if first["error_number"] is not None else ""
    text = explain(f"{first['error_message']}{number}")
    return f"the activation procedure recorded {counted(sum(row['errors'] for row in rows), 'error')}: {text}"


def sent_messages(connection: Connection) -> int:
    """Count the messages that an initiator has sent on the dialogs that it has."""
    return int(scripts.rows(connection, "observe/sent_messages.sql", {})[0]["messages"] or 0)


def error_messages(connection: Connection, queue: str) -> str:
    """Say how many Error messages the queue of an initiator holds, with the text of one; "" if none."""
    rows = scripts.rows(connection, "observe/error_messages.sql", {"Queue": queue})
    if not rows:
        return ""
    errors = sum(int(row["errors"]) for row in rows)
    return f"{counted(errors, 'conversation')} ended by an error: {error_message_text(bytes(rows[0]['message_body']))}"


def error_message_text(body: bytes) -> str:
    """Return the code and the text in the body of an Error message."""
    text = body.decode("utf-16", errors="replace")
    match = re.search(r"<Code>(.*?)</Code>.*<Description>(.*?)</Description>", text, re.DOTALL)
    return f"{match[1]} {html.unescape(match[2])}" if match else text


def processed(target: Connection) -> int:
    """Count the messages that the target has stored and committed."""
    return int(scripts.scalar(target, "SELECT COUNT_BIG(*) FROM dbo.messageDrop;"))


def queue_depth(connection: Connection, queue: str, *, retention: bool = False) -> int:
    path = f"observe/queue_depth{'_retention' if retention else ''}.sql"
    rows = scripts.poll(connection, path, {"Queue": queue})
    return sum(int(row["messages"]) for row in rows)


def transmission_queue_depth(connection: Connection) -> int:
    return sum(int(row["messages"]) for row in scripts.poll(connection, "observe/transmission_queue.sql", {}))
