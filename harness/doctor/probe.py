"""A message from each initiator to the target and back, which bypasses the lab's own queue.

The target's activated procedure would count a message for the lab's service. So each database temporarily gets a probe
service with its own queue (`sql/doctor/probe_service.sql`). Endpoints and certificates are the lab's. Routes, bindings
and rights name a service, so the probe has its own. They are copies of those of the lab's service: the route's address,
the binding's user, the principals that may send. So the probe has their faults too. The target's probe queue activates
a procedure as the lab's queue does, which answers; if none starts, the doctor says so and calls it.

Afterwards service, routes, bindings and conversations are always removed, without notifying the other side.
"""

import html
import re
import threading
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from harness.doctor.dialog_security import may_send
from harness.doctor.facts import Facts, Finding
from harness.doctor.transport import used_routes
from harness.failures import MachineFailure
from harness.files.script_text import quoted
from harness.lab import scripts, statuses
from harness.lab.drivers import Connection
from harness.lab.instances import Lab, connections, in_parallel

SERVICE = "//MySSB.com/Lab/S_Probe"
TIMEOUT_S = 45.0  # the first message between two instances waits for a connection and its handshakes
GIVE_UP_S = 4.0  # a transmission status that lasts so long is taken to be permanent
# One about the connection may pass later: the broker waits longer after each attempt, and an endpoint may just start.
GIVE_UP_CONNECTING_S = 20.0
_CONNECTING = re.compile(
    "connection attempt|error occurred while|closed by the remote host|dns|timed out", re.IGNORECASE
)
ACTIVATION_S = 10.0  # a queue monitor activates at once; a busy machine needs a while for it
_SLICE_MS = 250
_ANSWER = "DEFAULT"


@dataclass
class _Attempt:
    """The outcome of one initiator's probe."""

    seconds: float | None = None
    arrived: bool = False  # at the target
    refusal: str = ""  # the text of an Error that came instead of the answer
    status: str = ""  # transmission status of the message at the initiator
    status_of_target: str = ""  # transmission status of the answer at the target
    lasted_s: float = 0.0


@dataclass
class _Course:
    """The state that the threads of one probe share."""

    deadline: float
    over: threading.Event = field(default_factory=threading.Event)
    is_activated: bool = True  # the procedure that answers was started by the target's queue
    attempts: dict[str, _Attempt] = field(default_factory=dict)  # by the initiator's local name

    def goes_on(self) -> bool:
        return not self.over.is_set() and time.monotonic() < self.deadline


def there_and_back(lab: Lab, sides: Sequence[Facts], *, timeout_s: float | None = None) -> list[Finding]:
    """Probe the links between the first of `sides`, the target, and all others at once."""
    target, *initiators = sides
    if not initiators:
        return []
    instances = [side.instance for side in sides]
    course = _Course(0.0, attempts={side.local_name: _Attempt() for side in initiators})
    with connections(instances) as opened:
        far_sides = [initiators, *([target] for _ in initiators)]
        findings: list[Finding] = []
        try:
            in_parallel(_clear, sides, far_sides, opened)
            in_parallel(lambda *row: _install(lab, *row), sides, far_sides, opened)
            course.deadline = time.monotonic() + (TIMEOUT_S if timeout_s is None else timeout_s)
            watching = threading.Thread(target=_watch_target, args=(target, opened[0], course, initiators), daemon=True)
            watching.start()
            try:
                encryption = "ON" if lab.security.dialog else "OFF"
                in_parallel(
                    lambda side, connection: _ask(side, connection, target, course, encryption),
                    initiators,
                    opened[1:],
                    on_interrupt=course.over.set,
                )
            finally:
                course.over.set()
                watching.join()
            _note_answers_status(target, opened[0], course)
            findings += _activation(target, course)
            for side, connection in zip(initiators, opened[1:], strict=True):
                findings.append(_finding(side, course.attempts[side.local_name]))
                findings += _handles(side, target, connection)
        finally:
            findings += [finding for some in in_parallel(_cleared, sides, far_sides, opened) for finding in some]
    lab.check()
    return findings


# -- temporary objects of the probe ------------------------------------------------------------------------------------


def _clear(side: Facts, far_sides: Sequence[Facts], connection: Connection) -> None:
    database = {"Database": side.instance.database}
    scripts.run(connection, "doctor/probe_drop.sql", database)
    for other in far_sides:
        scripts.run(connection, "doctor/probe_unlink.sql", database | {"RemoteName": other.local_name})


def _cleared(side: Facts, far_sides: Sequence[Facts], connection: Connection) -> list[Finding]:
    try:
        _clear(side, far_sides, connection)
    except MachineFailure as reason:
        try:  # The connection itself may have broken.
            new_connection = side.instance.connect()
            _clear(side, far_sides, new_connection)
            new_connection.close()
        except MachineFailure:
            text = f"the service {SERVICE} could not be removed: {reason}"
            return [side.warning("probe", text, "run sql/doctor/probe_drop.sql and probe_unlink.sql there")]
    return []


def _install(lab: Lab, side: Facts, far_sides: Sequence[Facts], connection: Connection) -> None:
    variables = {"Database": side.instance.database}
    scripts.run(connection, "doctor/probe_service.sql", variables)
    for grantee in {str(row["grantee_name"]) for row in side.rows("service_grants")}:
        if may_send(side, grantee):
            scripts.run(connection, "doctor/probe_grant.sql", variables | {"Grantee": grantee})
    for other in far_sides:
        for route in used_routes(side, other)[:1]:
            names = {"RouteName": f"Probe_{other.local_name}", "ServiceName": SERVICE}
            far_variables = {"BrokerInstance": other.broker_instance, "BrokerAddress": str(route["address"])}
            scripts.run(connection, "link/route.sql", variables | names | far_variables)
    if side.instance is lab.target:
        scripts.run(connection, "doctor/probe_answer.sql", variables)
    binding = side.row("bindings")
    if binding is not None and side.instance is not lab.target:
        anonymous = "ON" if binding["is_anonymous_on"] else "OFF"
        names = {
            "RemoteName": far_sides[0].local_name,
            "BindingUser": str(binding["user_name"]),
            "Anonymous": anonymous,
        }
        scripts.run(connection, "doctor/probe_binding.sql", variables | names)


# -- the message -------------------------------------------------------------------------------------------------------


def _ask(side: Facts, connection: Connection, target: Facts, course: _Course, encryption: str) -> None:
    """Send from one initiator and wait for the answer."""
    attempt, database = course.attempts[side.local_name], {"Database": side.instance.database}
    sending = {"LocalName": side.local_name, "BrokerInstance": target.broker_instance, "Encryption": encryption}
    began = last_at = time.monotonic()
    scripts.run(connection, "doctor/probe_send.sql", database | sending)
    while course.goes_on():
        for row in scripts.rows(connection, "doctor/probe_receive.sql", database | {"TimeoutMs": str(_SLICE_MS)}):
            if row["message_type_name"] == _ANSWER:
                attempt.seconds = time.monotonic() - began
            else:
                attempt.refusal = _description(str(row["message_text"]))
            return
        status = _status(side, connection)
        if status != attempt.status:
            attempt.status, last_at = status, time.monotonic()
        attempt.lasted_s = time.monotonic() - began
        if status and time.monotonic() - last_at > (GIVE_UP_CONNECTING_S if _CONNECTING.search(status) else GIVE_UP_S):
            return


def _watch_target(target: Facts, connection: Connection, course: _Course, initiators: Sequence[Facts]) -> None:
    """Note whose messages arrive, and call the procedure that answers them if the target does not."""
    names = {side.broker_instance.lower(): side.local_name for side in initiators}
    last_at = time.monotonic()  # when no message waited
    while course.goes_on():
        try:
            rows = scripts.rows(connection, "doctor/probe_arrivals.sql", {"Database": target.instance.database})
            for broker_instance in {str(row["far_broker_instance"]).lower() for row in rows} & set(names):
                course.attempts[names[broker_instance]].arrived = True
            if not rows or not rows[0]["waiting"]:
                last_at = time.monotonic()
            elif time.monotonic() - last_at > ACTIVATION_S:
                course.is_activated = False
                scripts.execute(connection, "EXEC dbo.MySSBLabProbeAnswer;")
        except MachineFailure:
            return  # the initiators time out, and report what is known
        course.over.wait(_SLICE_MS / 1000)


def _status(side: Facts, connection: Connection) -> str:
    rows = scripts.rows(connection, "doctor/probe_status.sql", {})
    return next((str(row["transmission_status"]) for row in rows if row["transmission_status"]), "")


def _description(text: str) -> str:
    """Return the description in an Error message, any other text unchanged."""
    match = re.search(r"<Description>(.*?)</Description>", text, re.DOTALL)
    return html.unescape(match[1]) if match else text


def _note_answers_status(target: Facts, connection: Connection, course: _Course) -> None:
    waiting = [attempt for attempt in course.attempts.values() if attempt.arrived and attempt.seconds is None]
    status = _status(target, connection) if waiting else ""
    for attempt in waiting:
        attempt.status_of_target = status


def _finding(side: Facts, attempt: _Attempt) -> Finding:
    if attempt.seconds is not None:
        return side.information("probe", f"a message to the target and back took {attempt.seconds * 1000:.1f} ms")
    waited = f"no answer within {attempt.lasted_s:.0f} s"
    if attempt.refusal:
        return side.error(
            "probe", f"the target refused the message: {attempt.refusal}", remedy_for(attempt.refusal, side)
        )
    if attempt.arrived:
        status = attempt.status_of_target
        text = f"{waited}: the message arrived, the answer did not; the target reports {status!r}"
        return side.error("probe", text, f"for the way back: {remedy_for(status, side)}")
    text = f"{waited}: the message did not arrive; {side.name} reports {attempt.status!r}"
    return side.error("probe", text, remedy_for(attempt.status, side))


def _activation(target: Facts, course: _Course) -> Iterator[Finding]:
    """Say whether the target activates a procedure; nothing if no message has been answered."""
    database = quoted(target.instance.database)
    if not course.is_activated:
        text = f"the probe's queue activated no procedure for {ACTIVATION_S:.0f} s: the doctor called it"
        remedy = f"the error log says why; for an unknown owner ALTER AUTHORIZATION ON DATABASE::{database} TO [sa];"
        yield target.error("activation", text, remedy)
    elif any(attempt.seconds is not None for attempt in course.attempts.values()):
        yield target.information("activation", "the probe's queue activated its procedure as the owner")


# -- handles -----------------------------------------------------------------------------------------------------------


def _handles(side: Facts, target: Facts, connection: Connection) -> list[Finding]:
    """Check whether handles ascend on this instance. The paper says so of 2005 and 2008; later versions may differ."""
    variables = {"Database": side.instance.database, "BrokerInstance": target.broker_instance}
    rows = scripts.rows(connection, "doctor/handles.sql", variables)
    ranks = [row["handle_rank"] for row in rows]
    misplaced = sum(1 for number, rank in enumerate(ranks, start=1) if number != rank)
    if not misplaced:
        text = f"the handles of {len(ranks)} new dialogs ascend, as the 150 trick requires"
        return [side.information("handles", text)]
    text = f"{misplaced} of {len(ranks)} new dialogs have a handle out of order: used dialogs may share a page"
    return [side.warning("handles", text, "read the report's section on pages before you compare dialog ratios")]


# -- remedies ----------------------------------------------------------------------------------------------------------

SILENT = (
    "the other side drops messages that it cannot verify without an answer: compare its copy of the dialog certificate "
    "by thumbprint, watch the event Broker:Message Undeliverable there, and check the route back"
)


def remedy_for(text: str, side: Facts) -> str:
    """Return reason and remedy for a transmission status, or the description of an Error message, on a side."""
    if not text.strip():
        return SILENT
    understood = statuses.understand(text)
    if understood is None:
        return "search the error logs of both instances for this text"
    return f"{understood.reason}: {understood.remedy(**statuses.names(side.instance.database, '<service>'))}"
