"""Say why messages do not move, with evidence and the statement that cures it.

For queues by the tree of "Understanding Queue Monitors" (R. Rusanu): is there a monitor, and if not, what is missing;
else what its state says. Messages that wait for transmission are explained in `ways`.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from harness.definitions.units import counted
from harness.files.script_text import quoted
from harness.lab import statuses
from harness.lab.procedure_text import HIDES_ERRORS
from harness.monitors import state, ways
from harness.monitors.conversations import of_conversations, of_their_number
from harness.monitors.state import NOT_COMPLETE, RETAINED, Certificate, Database, Queue, Server, Session
from harness.monitors.ways import Why
from harness.monitors.wording import time_text

_EVENT_CONTRACT = "http://schemas.microsoft.com/SQL/Notifications/PostEventNotification"
_LISTED = 3  # sessions that an explanation names
_ENDS_SOON_H = 30 * 24
_CERTIFIES = {
    "endpoint": "of this instance's endpoint",
    "peer": "of a server that may connect to this one",
    "dialogs": "of encrypted dialogs",
}
_START_ACTIVATOR = "start the activator that reads this service: harness activator, or Microsoft's External Activator"


@dataclass(frozen=True)
class Explanation:
    """Why messages of a queue, or to a service, stay."""

    database: str
    what: str  # the queue or the service
    reason: str
    evidence: str
    remedy: str  # a statement, or what else to do

    def __str__(self) -> str:
        return f"{self.database}, {self.what}: {self.reason}. Evidence: {self.evidence}. Remedy: {self.remedy}"


def explain(server: Server, servers: Sequence[Server] = ()) -> list[Explanation]:
    """Return the reason for each queue and each way whose messages stay, in the order of the databases.

    `servers` are all that are looked at: the other side of a way may be on one of them.
    """
    explanations: list[Explanation] = []
    for database in server.databases:
        for queue in database.queues:
            for why in _of_queue(server, database, queue):
                explanations.append(Explanation(database.shown_name, queue.full_name, *_of_mail(database, *why)))
        for conversations in database.conversations or ():
            if (cause := of_conversations(database, conversations)) is not None:
                what = f"conversations of {conversations.service}"
                explanations.append(Explanation(database.shown_name, what, *cause))
        if (cause := of_their_number(database)) is not None:
            explanations.append(Explanation(database.shown_name, "conversations", *cause))
        explanations += [
            Explanation(database.shown_name, *cause) for cause in map(_of_certificate, database.certificates) if cause
        ]
        for waiting in database.transmission:
            if not database.transmission_rows:
                continue
            if (reason := ways.of_way(server, database, waiting, servers or [server])) is not None:
                explanations.append(Explanation(database.name, f"to {waiting.to_service}", *reason))
    of_server = [Explanation("master", *cause) for cause in map(_of_certificate, server.certificates) if cause]
    return explanations + of_server


def _of_certificate(certificate: Certificate) -> tuple[str, str, str, str] | None:
    """Say which certificate ends within a month, or has ended; with its name first."""
    if certificate.hours_left >= _ENDS_SOON_H:
        return None
    is_over = certificate.hours_left <= 0
    reason = f"a certificate {_CERTIFIES[certificate.purpose]} {'has ended' if is_over else 'ends'}"
    if not is_over:
        reason += f" in {time_text(3600 * certificate.hours_left)}"
    remedy = statuses.table()["28025" if certificate.purpose == "dialogs" else "28036"].remedy
    if certificate.purpose == "peer":
        remedy = f"at that server, {remedy}; here: CREATE CERTIFICATE ... FROM FILE for the same user"
    return f"certificate {certificate.name}", reason, f"expiry_date = {certificate.expiry_date}", remedy


def _of_mail(database: Database, reason: str, evidence: str, remedy: str) -> Why:
    """Leave a queue of Database Mail to its own procedures."""
    if database.is_system:
        remedy = "EXECUTE msdb.dbo.sysmail_help_status_sp; it says whether mail was stopped: sysmail_start_sp starts it"
    return reason, evidence, remedy


def _of_queue(server: Server, database: Database, queue: Queue) -> Iterator[Why]:
    if queue.is_outdated:
        return
    if not (queue.is_receive_enabled and queue.is_enqueue_enabled):
        if queue.rows or database.transmission_rows:
            yield _switched_off(database, queue)
        return
    if queue.stands_still and not database.is_broker_enabled:
        yield "the broker of the database is disabled", "is_broker_enabled = 0", statuses.enable(database.name)
        return
    if queue.stands_still and queue.statuses is not None and not queue.ready:
        yield _not_ready(queue)
    elif queue.stands_still and server.knows_monitors:
        yield from _without_reader(database, queue)
    elif queue.is_growing and (why := _at_limit(queue) or _too_slow(queue)) is not None:
        yield why


def _switched_off(database: Database, queue: Queue) -> Why:
    off = [direction for direction in ("receive", "enqueue") if not getattr(queue, f"is_{direction}_enabled")]
    evidence = ", ".join(f"is_{what}_enabled = 0" for what in off)
    reason = "the queue is switched off"
    if queue.is_poison_message_handling_enabled:
        reason += ": somebody has done it, or five rollbacks in a row (poison message) have"
    if queue.log:
        evidence += f"; error log: {queue.log[-1]}"
    if database.transmission_rows:
        evidence += f"; {counted(database.transmission_rows, 'row')} in the database's transmission queue"
    mend = "mend what rolls back, if anything does"
    if queue.procedure_hides_errors:
        evidence += f"; {HIDES_ERRORS}"
    if queue.first_handle:
        evidence += f"; the first message: {queue.first_message}"
        mend += (
            f"; if it is this message, END CONVERSATION '{queue.first_handle}' WITH ERROR = 1 DESCRIPTION = N'poison'"
        )
    return reason, evidence, f"{mend}; then ALTER QUEUE {queue.full_name} WITH STATUS = ON;"


def _not_ready(queue: Queue) -> Why:
    """INACTIVE with rows: none of them has the status 1."""
    statuses = queue.statuses or {}
    evidence = ", ".join(
        f"{counted(count, 'row')} of status {status}" for status, count in sorted(statuses.items()) if count
    )
    if statuses.get(NOT_COMPLETE):
        reason = "its messages are not complete: a fragment or a message before them is missing"
        remedy = (
            "the sender sends that again within about a minute; if it is not in sys.transmission_queue there any more: "
        )
        return reason, evidence, remedy + "END CONVERSATION '<conversation_handle of such a row>';"
    retained = sum(statuses.get(status, 0) for status in RETAINED)
    reason = "all its rows are retained until their conversations end" if retained else "it has no row that is ready"
    remedy = "END CONVERSATION where it is over"
    if queue.is_retention_enabled:
        remedy += f"; so that no more are retained: ALTER QUEUE {queue.full_name} WITH RETENTION = OFF;"
    return reason, evidence, remedy


def _without_reader(database: Database, queue: Queue) -> Iterator[Why]:
    """Messages are ready, and none is taken."""
    settings = list(_missing_for_activation(database, queue))
    if queue.activation_procedure is None and queue.notification is None and _holders(database, queue):
        # No view says from which queue a session receives.
        reason, evidence, remedy = _locked(database, queue, "no procedure is activated")
        reason = f"a program has received from it, and {reason}; or nothing reads it"
        yield reason, evidence, f"if that session receives from this queue: {remedy} else {settings[0][2]}"
        return
    yield from settings
    if settings:
        return
    if queue.monitor is None:
        reason = "no queue monitor watches it, though all that one needs is there"
        yield reason, "no row in sys.dm_broker_queue_monitors", _again(queue)
        return
    monitor_state = queue.monitor.state
    evidence = f"its monitor has been {monitor_state} for {time_text(queue.monitor.since_s)}"
    if monitor_state == "NOTIFIED":
        # A server may send a notification again after a time-out, and then the last one is always young.
        waiting_s = 0.0 if queue.is_activation_enabled else queue.oldest_s or 0.0
        if max(queue.monitor.since_s, waiting_s) >= state.THRESHOLD_S:
            yield _notified(database, queue, evidence)
    elif queue.monitor.readers and (why := _at_limit(queue)) is not None:
        yield why
    elif monitor_state == "INACTIVE" or queue.monitor.readers:
        yield _locked(database, queue, evidence)
    else:
        yield _received_by_others(database, queue, evidence)


def _missing_for_activation(database: Database, queue: Queue) -> Iterator[Why]:
    """What a monitor and a reader need, and the queue lacks."""
    if queue.notification is not None and not queue.is_activation_enabled:
        if queue.notification_is_local and not queue.notification_service_exists:
            reason = f"its event notification {queue.notification} goes to a service that does not exist"
            service = quoted(queue.notification_service or "")
            create = f"CREATE SERVICE {service} ON QUEUE dbo.<queue of notifications> ([{_EVENT_CONTRACT}]);"
            remedy = f"{create} then {_notify_again(queue)}"
            yield reason, f"no service {queue.notification_service} in this database", remedy
        return
    change = f"ALTER QUEUE {queue.full_name} WITH ACTIVATION"
    if queue.activation_procedure is None:
        if watched := [
            watched_queue
            for watched_queue in database.queues
            if _place_of_notifications(database, watched_queue) is queue
        ]:
            more = f" and {len(watched) - 1} more" if len(watched) > 1 else ""
            reason = f"no activator receives the event notifications of {watched[0].full_name}{more}, which arrive here"
            yield reason, f"it is the queue of {watched[0].notification_service}", _START_ACTIVATOR
            return
        reason = "nothing reads it: it has no activation procedure, no event notification, and no program receives"
        remedy = f"{change} (STATUS = ON, PROCEDURE_NAME = dbo.<procedure>, MAX_QUEUE_READERS = 1, EXECUTE AS OWNER);"
        yield reason, "activation_procedure is NULL", remedy
        return
    if not queue.is_activation_enabled:
        yield "its activation is off", "is_activation_enabled = 0", f"{change} (STATUS = ON);"
    if not queue.procedure_exists:
        reason = f"its activation procedure {queue.activation_procedure} does not exist, or the login may not see it"
        evidence = f"error log: {queue.log[-1]}" if queue.log else "OBJECT_ID of it is NULL"
        yield reason, evidence, f"create it, or {change} (PROCEDURE_NAME = dbo.<procedure>);"
    if queue.execute_as is None:
        evidence = "execute_as_principal_id names nobody"
        yield "its procedure runs as a user that does not exist", evidence, f"{change} (EXECUTE AS OWNER);"
    if not queue.max_readers:
        yield "it may have no reader", "max_readers = 0", f"{change} (MAX_QUEUE_READERS = 1);"


def _place_of_notifications(database: Database, queue: Queue) -> Queue | None:
    """Return the queue in which the event notifications of another arrive, if that is in the same database."""
    if queue.notification_service is None or not queue.notification_is_local:
        return None
    place = database.services.get(queue.notification_service)
    return next((one for one in database.queues if one.queue_id == place), None)


def _notified(database: Database, queue: Queue, evidence: str) -> Why:
    """A procedure was launched, or a notification sent, and nobody has issued a RECEIVE since."""
    assert queue.monitor is not None
    if not queue.is_activation_enabled:
        reason = (
            f"a notification went to {queue.notification_service}, and no program has received from this queue since"
        )
        if queue.oldest_s is not None:
            evidence += f", and its oldest message has been there for {time_text(queue.oldest_s)}"
        place = _place_of_notifications(database, queue)
        if place is None or place.rows is None:
            return reason, evidence, "start the activator that reads that service's queue, and see its log"
        evidence += f"; {counted(place.rows, 'row')} in {place.full_name}, where it arrives"
        lost = f"see the activator's log; if none has come there, {_notify_again(queue)}"
        return reason, evidence, _START_ACTIVATOR if place.rows else lost
    if queue.log:
        reason = "its activation procedure fails before it issues a RECEIVE"
        evidence += f"; error log: {queue.log[-1]}"
        return reason, evidence, f"mend {queue.activation_procedure}, then {_again(queue)}"
    reason = f"its procedure {queue.activation_procedure} was launched and issues no RECEIVE on this queue"
    evidence = _hinted(queue, evidence)
    if queue.procedure_receives is False:
        evidence += "; its text has no RECEIVE with this queue's name"
    if queue.monitor.readers:
        evidence += f"; {counted(queue.monitor.readers, 'task')} of it still {_verb(queue.monitor.readers, 'run')}"
    return reason, evidence, f"mend the procedure, then, because the monitor does not notice that, {_again(queue)}"


def _at_limit(queue: Queue) -> Why | None:
    """As many readers as allowed run, and they are too few or too slow."""
    if queue.monitor is None or not queue.max_readers or queue.monitor.readers < queue.max_readers:
        return None
    messages = counted(queue.rows or 0, "message")
    run = _verb(queue.monitor.readers, "run")
    evidence = f"{queue.monitor.readers} of {counted(queue.max_readers, 'reader')} {run}, {messages} in the queue"
    more = f"ALTER QUEUE {queue.full_name} WITH ACTIVATION (MAX_QUEUE_READERS = {2 * queue.max_readers});"
    if queue.conversation_groups is not None and queue.conversation_groups < queue.monitor.readers:
        return _of_few_groups(queue, evidence)
    remedy = f"find what they wait for, or, once their transactions have ended, {more}"
    return "all readers that MAX_QUEUE_READERS allows run", _hinted(queue, evidence), remedy


def _too_slow(queue: Queue) -> Why | None:
    """Readers run, fewer than allowed, and more comes than they take."""
    if queue.monitor is None or not queue.monitor.readers or (queue.oldest_s or 0.0) < state.THRESHOLD_S:
        return None
    messages = counted(queue.rows or 0, "message")
    evidence = f"{queue.monitor.readers} of {counted(queue.max_readers or 0, 'reader')} run, {messages} in the queue"
    if queue.conversation_groups is not None and queue.conversation_groups <= queue.monitor.readers:
        return _of_few_groups(queue, evidence)
    if queue.out_per_s:
        evidence += f"; a message takes a reader {1000 * queue.monitor.readers / queue.out_per_s:.3g} ms"
    remedy = f"see what {queue.activation_procedure} waits for: sys.dm_exec_requests of its sessions"
    return "its readers are slower than its messages come", _hinted(queue, evidence), remedy


def _of_few_groups(queue: Queue, evidence: str) -> Why:
    groups = counted(queue.conversation_groups or 0, "conversation group")
    reason = "more readers find nothing to receive: a conversation group has one reader at a time"
    evidence += f"; its ready messages are of {groups}"
    return reason, _hinted(queue, evidence), "let the senders use more conversations: a pool of dialogs"


def _hinted(queue: Queue, evidence: str) -> str:
    return "; ".join([evidence, *queue.receive_hints])


def _locked(database: Database, queue: Queue, evidence: str) -> Why:
    """Rows are ready, and the monitor or its readers find none: others have locked the conversation groups."""
    holders = _holders(database, queue)
    reason = "open transactions have locked the conversation groups of its messages"
    if not holders:
        return reason, f"{evidence}; no session with one is seen", "look again; VIEW SERVER STATE shows the sessions"
    open_here = "has a transaction" if len(holders) == 1 else "have transactions"
    evidence += f"; {_listed(holders)} {open_here} open in this database"
    return reason, evidence, f"commit it, or KILL {holders[0].session_id};"


def _holders(database: Database, queue: Queue) -> list[Session]:
    """Return the sessions whose open transaction may have locked conversation groups of a queue."""
    return [
        session
        for session in database.sessions or ()
        if session.open_transactions and session.activated_for in (None, queue.queue_id)
    ]


def _received_by_others(database: Database, queue: Queue, evidence: str) -> Why:
    """RECEIVES_OCCURRING, and the monitor has launched no reader."""
    other_sessions = [session for session in database.sessions or () if session.activated_for is None]
    receivers = [other for other in other_sessions if other.is_receiving] or [
        one for one in other_sessions if one.open_transactions
    ]
    waiting = queue.monitor.tasks_waiting if queue.monitor else 0
    evidence += (
        f"; it has launched no reader that runs; {counted(waiting, 'session')} {_verb(waiting, 'wait')} in RECEIVE"
    )
    reason = "somebody else receives from this queue, so its monitor launches nothing"
    if not receivers:
        return reason, evidence, "look again: the session was not seen"
    evidence += f"; {_listed(receivers)} {_verb(len(receivers), 'receive')} in this database"
    return reason, evidence, f"stop that program, or KILL {receivers[0].session_id};"


def _again(queue: Queue) -> str:
    change = f"ALTER QUEUE {queue.full_name} WITH ACTIVATION"
    return f"{change} (STATUS = OFF); {change} (STATUS = ON);"


def _notify_again(queue: Queue) -> str:
    """The conversation of an event notification that has ended does not begin anew."""
    return f"DROP EVENT NOTIFICATION {quoted(queue.notification or '')} ON QUEUE {queue.full_name}; and create it again"


def _listed(sessions: list[Session]) -> str:
    more = f" and {len(sessions) - _LISTED} more" if len(sessions) > _LISTED else ""
    return f"{', '.join(map(str, sessions[:_LISTED]))}{more}"


def _verb(number: int, verb: str) -> str:
    return f"{verb}s" if number == 1 else verb
