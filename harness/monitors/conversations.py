"""Say why conversations stay, or become more and more: most often nobody ends them."""

from harness.definitions.units import counted
from harness.files.script_text import literal
from harness.monitors import state
from harness.monitors.state import Conversations, Database, Queue
from harness.monitors.ways import Why
from harness.monitors.wording import time_text

LASTS_S = 30.0  # what is seen for so long is not just on its way
_CLOSED_MANY = 10_000  # which cost room, and nothing else
_END = "let the programs of both sides END CONVERSATION when it is over"
# States in which a conversation waits for a program of this side, and why it does.
_STAYING = {
    "DISCONNECTED_INBOUND": "the other side has ended conversations, and nothing here receives that and ends them too",
    "ERROR": "conversations have ended with an error, and nothing here receives the Error message and ends them too",
}
_GROWING = {
    "CONVERSING": "conversations are begun, and nobody ends them",
    "STARTED_OUTBOUND": "conversations are begun, and nothing answers or ends them",
}


def of_their_number(database: Database) -> Why | None:
    """Say it of so many conversations that they are not read by state."""
    if (database.conversation_rows or 0) <= state.CONVERSATIONS_MAX:
        return None
    evidence = f"{database.conversation_rows:,} rows in sys.sysdesend"
    remedy = "sql/monitors/conversations.sql says, at a quiet time, of which service they are and in which state"
    return "very many conversations are begun, and nobody ends them", evidence, f"{_END}; {remedy}"


def of_conversations(database: Database, conversations: Conversations) -> Why | None:
    """Say why conversations of a service are in a state; None where they may just be on their way."""
    evidence = f"{counted(conversations.number, 'conversation')} {conversations.state}"
    if conversations.oldest_s is not None:
        evidence += f", the oldest begun {time_text(conversations.oldest_s)} ago"
    queue_id = database.services.get(conversations.service)
    queue = next((queue for queue in database.queues if queue.queue_id == queue_id), None)
    if queue is not None and 0 < conversations.stays_s >= state.THRESHOLD_S:
        lasting = f"{evidence}, one of them for {time_text(conversations.stays_s)} at least"
        if (why := _that_are_over(conversations, queue, lasting) or _that_last(conversations, lasting)) is not None:
            return why
    if conversations.state in _GROWING and conversations.grows_s >= LASTS_S:
        evidence += f", more at each look for {time_text(conversations.grows_s)}"
        return _GROWING[conversations.state], evidence, f"{_END}: which of them are over, only the programs know"
    return None


def _that_are_over(conversations: Conversations, queue: Queue, evidence: str) -> Why | None:
    """Say it of those that only this side has to end. Their ends may be among the messages that lie in the queue."""
    if conversations.is_kept:
        reason = "they are CLOSED and stay until their lifetime ends: the initiator ended them before it had an answer"
        remedy = "END CONVERSATION at the initiator only when the target's EndDialog message has come"
        condition = "e.state = 'CD' AND e.security_timestamp < '19010101'"
        evidence += "; security_timestamp is of the year 1900"
        return reason, evidence, f"{remedy}; {_end_all(conversations, queue, condition, ' WITH CLEANUP')}"
    if conversations.state == "ERROR" and queue.rows and queue.error:
        reason = "conversations have ended with an error, and the Error message lies in the queue"
        return (
            reason,
            f"{evidence}; the first: {queue.error}",
            f"RECEIVE it FROM {queue.full_name}, and END CONVERSATION",
        )
    if conversations.state in _STAYING and not queue.rows:
        condition = f"e.state_desc = N'{conversations.state}'"
        return _STAYING[conversations.state], evidence, f"{_END}; {_end_all(conversations, queue, condition)}"
    return None


def _that_last(conversations: Conversations, evidence: str) -> Why | None:
    if conversations.state == "CLOSED" and conversations.number >= _CLOSED_MANY:
        reason = "they are over: the server keeps each for half an hour, so that a late message begins nothing anew"
        return reason, evidence, "wait; for fewer of them, send more messages on each conversation"
    if conversations.stays_s < LASTS_S:
        return None
    if conversations.state == "DISCONNECTED_OUTBOUND":
        remedy = (
            "let the program of the other side RECEIVE the EndDialog message and END CONVERSATION; see its queue there"
        )
        return "this side has ended conversations, and the other has not", evidence, remedy
    if conversations.state in _GROWING and conversations.ends_soon:
        first = time_text(max(0.0, conversations.first_ends_s))
        evidence += f"; {conversations.ends_soon:,} end within an hour, the first in {first}"
        remedy = "begin others before, with a longer LIFETIME, or with none"
        return "their lifetime is about to end: both sides then get Error -8489", evidence, remedy
    return None


def _end_all(conversations: Conversations, queue: Queue, condition: str, clause: str = "") -> str:
    """Return what ends conversations that are over, but for those with messages to be read."""
    return (
        "those that are there: DECLARE @h uniqueidentifier; WHILE 1 = 1 BEGIN SET @h = (SELECT TOP (1) "
        "e.conversation_handle FROM sys.conversation_endpoints AS e JOIN sys.services AS s ON s.service_id = "
        f"e.service_id WHERE s.name = {literal(conversations.service)} AND {condition} "
        f"AND NOT EXISTS (SELECT 1 FROM {queue.full_name} AS q WHERE q.conversation_handle = e.conversation_handle)); "
        f"IF @h IS NULL BREAK; END CONVERSATION @h{clause}; END;"
    )
