"""A message from each initiator to the target and back, which bypasses the lab's own queue.

The target's activated procedure would count a message for the lab's service. So each database temporarily gets a probe
service with its own queue (`sql/doctor/probe_service.sql`). Endpoints and certificates are the lab's. Routes, bindings
and rights name a service, so the probe has its own. They are copies of those of the lab's service: the route's address,
the binding's user, the principals that may send. So the probe has their faults too. The target's probe queue activates
no procedure: the doctor's connection receives and answers.

Afterwards service, routes, bindings and conversations are always removed, without notifying the other side.
"""

from __future__ import annotations

import html
import re
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from harness.doctor import dialog_security, routes
from harness.doctor.facts import Facts
from harness.doctor.findings import Finding, error, information, warning
from harness.doctor.transmission_remedies import remedy_for
from harness.failures import MachineFailure
from harness.lab import scripts
from harness.lab.instances import Instance, Lab, connections, in_parallel

if TYPE_CHECKING:
    import pyodbc

SERVICE = "//MySSB.com/Lab/S_Probe"
TIMEOUT_S = 15.0  # the first message between two instances waits for a connection and its handshakes
GIVE_UP_S = 4.0  # a transmission status that lasts so long is taken to be permanent
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
        others = [initiators, *([target] for _ in initiators)]
        found: list[Finding] = []
        try:
            in_parallel(_clear, sides, others, opened)
            in_parallel(lambda *row: _install(lab, *row), sides, others, opened)
            course.deadline = time.monotonic() + (TIMEOUT_S if timeout_s is None else timeout_s)
            answering = threading.Thread(target=_answer, args=(target, opened[0], course), daemon=True)
            answering.start()
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
                answering.join()
            _note_answers_status(target, opened[0], course)
            for side, connection in zip(initiators, opened[1:], strict=True):
                found.append(_finding(side, course.attempts[side.local_name]))
                found += _handles(side, target, connection)
        finally:
            found += [one for some in in_parallel(_cleared, sides, others, opened) for one in some]
    lab.check()
    return found


# -- temporary objects of the probe ------------------------------------------------------------------------------------


def _clear(side: Facts, others: Sequence[Facts], connection: pyodbc.Connection) -> None:
    database = {"Database": side.instance.database}
    scripts.run(connection, "doctor/probe_drop.sql", database)
    for other in others:
        scripts.run(connection, "doctor/probe_unlink.sql", database | {"RemoteName": other.local_name})


def _cleared(side: Facts, others: Sequence[Facts], connection: pyodbc.Connection) -> list[Finding]:
    try:
        _clear(side, others, connection)
    except MachineFailure as reason:
        try:  # The connection itself may have broken.
            again = side.instance.connect()
            _clear(side, others, again)
            again.close()
        except MachineFailure:
            text = f"the service {SERVICE} could not be removed: {reason}"
            return [warning(side.name, "probe", text, "run sql/doctor/probe_drop.sql and probe_unlink.sql there")]
    return []


def _install(lab: Lab, side: Facts, others: Sequence[Facts], connection: pyodbc.Connection) -> None:
    variables = {"Database": side.instance.database}
    scripts.run(connection, "doctor/probe_service.sql", variables)
    for grantee in {str(row["grantee_name"]) for row in side.rows("service_grants")}:
        if dialog_security.may_send(side, grantee):
            scripts.run(connection, "doctor/probe_grant.sql", variables | {"Grantee": grantee})
    for other in others:
        for route in routes.used_routes(side, other)[:1]:
            named = {"RouteName": f"Probe_{other.local_name}", "ServiceName": SERVICE}
            there = {"BrokerInstance": other.broker_instance, "BrokerAddress": str(route["address"])}
            scripts.run(connection, "link/route.sql", variables | named | there)
    binding = side.row("bindings")
    if binding is not None and side.instance is not lab.target:
        anonymous = "ON" if binding["is_anonymous_on"] else "OFF"
        named = {"RemoteName": others[0].local_name, "BindingUser": str(binding["user_name"]), "Anonymous": anonymous}
        scripts.run(connection, "doctor/probe_binding.sql", variables | named)


# -- the message -------------------------------------------------------------------------------------------------------


def _ask(side: Facts, connection: pyodbc.Connection, target: Facts, course: _Course, encryption: str) -> None:
    """Send from one initiator and wait for the answer."""
    attempt, database = course.attempts[side.local_name], {"Database": side.instance.database}
    sending = {"LocalName": side.local_name, "BrokerInstance": target.broker_instance, "Encryption": encryption}
    began = since = time.monotonic()
    scripts.run(connection, "doctor/probe_send.sql", database | sending)
    while course.goes_on():
        row = _received(connection, "doctor/probe_receive.sql", side.instance)
        if row is not None:
            if row["message_type_name"] == _ANSWER:
                attempt.seconds = time.monotonic() - began
            else:
                attempt.refusal = _description(str(row["message_text"]))
            return
        status = _status(side, connection)
        if status != attempt.status:
            attempt.status, since = status, time.monotonic()
        attempt.lasted_s = time.monotonic() - began
        if status and time.monotonic() - since > GIVE_UP_S:
            return


def _answer(target: Facts, connection: pyodbc.Connection, course: _Course) -> None:
    while course.goes_on():
        try:
            row = _received(connection, "doctor/probe_answer.sql", target.instance)
        except MachineFailure:
            return  # the initiators time out, and report what is known
        if row is not None and row["message_type_name"] == _ANSWER:
            course.attempts[str(row["message_text"])].arrived = True


def _received(connection: pyodbc.Connection, script: str, instance: Instance) -> dict[str, Any] | None:
    rows = scripts.rows(connection, script, {"Database": instance.database, "TimeoutMs": str(_SLICE_MS)})
    return rows[0] if rows else None


def _status(side: Facts, connection: pyodbc.Connection) -> str:
    rows = scripts.rows(connection, "doctor/probe_status.sql", {})
    return next((str(row["transmission_status"]) for row in rows if row["transmission_status"]), "")


def _description(text: str) -> str:
    """Return the description in an Error message, any other text unchanged."""
    found = re.search(r"<Description>(.*?)</Description>", text, re.DOTALL)
    return html.unescape(found[1]) if found else text


def _note_answers_status(target: Facts, connection: pyodbc.Connection, course: _Course) -> None:
    waiting = [attempt for attempt in course.attempts.values() if attempt.arrived and attempt.seconds is None]
    status = _status(target, connection) if waiting else ""
    for attempt in waiting:
        attempt.status_of_target = status


def _finding(side: Facts, attempt: _Attempt) -> Finding:
    if attempt.seconds is not None:
        return information(side.name, "probe", f"a message to the target and back took {attempt.seconds * 1000:.1f} ms")
    waited = f"no answer within {attempt.lasted_s:.0f} s"
    if attempt.refusal:
        return error(
            side.name, "probe", f"the target refused the message: {attempt.refusal}", remedy_for(attempt.refusal)
        )
    if attempt.arrived:
        status = attempt.status_of_target
        text = f"{waited}: the message arrived, the answer did not; the target reports {status!r}"
        return error(side.name, "probe", text, f"for the way back: {remedy_for(status)}")
    text = f"{waited}: the message did not arrive; {side.name} reports {attempt.status!r}"
    return error(side.name, "probe", text, remedy_for(attempt.status))


# -- handles -----------------------------------------------------------------------------------------------------------


def _handles(side: Facts, target: Facts, connection: pyodbc.Connection) -> list[Finding]:
    """Check whether handles ascend on this instance. The paper says so of 2005 and 2008; later versions may differ."""
    variables = {"Database": side.instance.database, "BrokerInstance": target.broker_instance}
    rows = scripts.rows(connection, "doctor/handles.sql", variables)
    ranks = [row["handle_rank"] for row in rows]
    misplaced = sum(1 for number, rank in enumerate(ranks, start=1) if number != rank)
    if not misplaced:
        text = f"the handles of {len(ranks)} new dialogs ascend, as the 150 trick requires"
        return [information(side.name, "handles", text)]
    text = f"{misplaced} of {len(ranks)} new dialogs have a handle out of order: used dialogs may share a page"
    return [warning(side.name, "handles", text, "read the report's section on pages before you compare dialog ratios")]
