"""A message there and back between the target and each initiator, past the lab's own queue.

The target's activated procedure would count a message for the lab's service. So each database gets a probe service with
a queue of its own for the time of the probe (`sql/doctor/probe_service.sql`). Endpoints and certificates are the lab's.
Routes, bindings and rights name a service, so the probe has its own; they are copies of what the lab has for its
service as it stands: the route's address, the binding's user, whoever may send. What is wrong with those is wrong
with the probe too. On the target nobody is activated: the doctor's own connection receives and answers.

Whatever happens, service, routes, bindings and conversations are removed again, without a word to the other side.
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
GIVE_UP_S = 4.0  # the same transmission status for so long will not go away
_SLICE_MS = 250
_ANSWER = "DEFAULT"


@dataclass
class _Attempt:
    """What became of one initiator's probe."""

    seconds: float | None = None
    arrived: bool = False  # at the target
    refusal: str = ""  # the text of an Error that came instead of the answer
    status: str = ""  # transmission status at the initiator
    status_of_target: str = ""  # and at the target, of the answer
    lasted_s: float = 0.0


@dataclass
class _Course:
    """What the threads of one probe share."""

    deadline: float
    over: threading.Event = field(default_factory=threading.Event)
    attempts: dict[str, _Attempt] = field(default_factory=dict)  # by the initiator's local name

    def goes_on(self) -> bool:
        return not self.over.is_set() and time.monotonic() < self.deadline


def there_and_back(lab: Lab, sides: Sequence[Facts], *, timeout_s: float | None = None) -> list[Finding]:
    """Probes between the first of `sides`, the target, and each of the others, all at once."""
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
                found.append(_judged(side, course.attempts[side.local_name]))
                found += _handles(side, target, connection)
        finally:
            found += [one for some in in_parallel(_cleared, sides, others, opened) for one in some]
    lab.check()
    return found


# -- what is there for the time of the probe ---------------------------------------------------------------------------


def _clear(side: Facts, others: Sequence[Facts], connection: pyodbc.Connection) -> None:
    database = {"Database": side.instance.database}
    scripts.run(connection, "doctor/probe_drop.sql", database)
    for other in others:
        scripts.run(connection, "doctor/probe_unlink.sql", database | {"RemoteName": other.local_name})


def _cleared(side: Facts, others: Sequence[Facts], connection: pyodbc.Connection) -> list[Finding]:
    try:
        _clear(side, others, connection)
    except MachineFailure as reason:
        try:  # The connection may be what is broken.
            again = side.instance.connect()
            _clear(side, others, again)
            again.close()
        except MachineFailure:
            text = f"the service {SERVICE} could not be removed: {reason}"
            return [warning(side.name, "probe", text, "run sql/doctor/probe_drop.sql and probe_unlink.sql")]
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
    """Sends from one initiator and waits for the answer."""
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
            return  # the initiators' waiting ends by itself, and says what is known
        if row is not None and row["message_type_name"] == _ANSWER:
            course.attempts[str(row["message_text"])].arrived = True


def _received(connection: pyodbc.Connection, script: str, instance: Instance) -> dict[str, Any] | None:
    rows = scripts.rows(connection, script, {"Database": instance.database, "TimeoutMs": str(_SLICE_MS)})
    return rows[0] if rows else None


def _status(side: Facts, connection: pyodbc.Connection) -> str:
    rows = scripts.rows(connection, "doctor/probe_status.sql", {})
    return next((str(row["transmission_status"]) for row in rows if row["transmission_status"]), "")


def _description(text: str) -> str:
    """What an Error message says; any other message as it is."""
    found = re.search(r"<Description>(.*?)</Description>", text, re.DOTALL)
    return html.unescape(found[1]) if found else text


def _note_answers_status(target: Facts, connection: pyodbc.Connection, course: _Course) -> None:
    waiting = [attempt for attempt in course.attempts.values() if attempt.arrived and attempt.seconds is None]
    status = _status(target, connection) if waiting else ""
    for attempt in waiting:
        attempt.status_of_target = status


def _judged(side: Facts, attempt: _Attempt) -> Finding:
    if attempt.seconds is not None:
        return information(side.name, "probe", f"a message to the target and back took {attempt.seconds * 1000:.1f} ms")
    waited = f"no answer in {attempt.lasted_s:.0f} s"
    if attempt.refusal:
        return error(
            side.name, "probe", f"the target refused the message: {attempt.refusal}", remedy_for(attempt.refusal)
        )
    if attempt.arrived:
        status = attempt.status_of_target
        text = f"{waited}: the message arrived, the answer did not; the target says {status!r}"
        return error(side.name, "probe", text, f"for the way back: {remedy_for(status)}")
    text = f"{waited}: the message did not arrive; {side.name} says {attempt.status!r}"
    return error(side.name, "probe", text, remedy_for(attempt.status))


# -- handles -----------------------------------------------------------------------------------------------------------


def _handles(side: Facts, target: Facts, connection: pyodbc.Connection) -> list[Finding]:
    """Whether handles ascend on this version and machine; nothing is known of those after 2008."""
    variables = {"Database": side.instance.database, "BrokerInstance": target.broker_instance}
    rows = scripts.rows(connection, "doctor/handles.sql", variables)
    ranks = [row["handle_rank"] for row in rows]
    strays = sum(1 for number, rank in enumerate(ranks, start=1) if number != rank)
    if not strays:
        return [
            information(side.name, "handles", f"the handles of {len(ranks)} new dialogs ascend, as the 150 trick needs")
        ]
    text = f"{strays} of {len(ranks)} new dialogs have a handle out of turn: dialogs of one page may be used together"
    return [warning(side.name, "handles", text, "read what the report says of pages before you compare dialog ratios")]
