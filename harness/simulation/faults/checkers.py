"""The evidence of one run, and the checkers: each takes the evidence and yields a line for each violation.

They know nothing of the broker. They see that a client was told that its SEND was committed, or failed, or nothing if
its connection broke; and whether the message is later in a table of the target.
"""

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from enum import StrEnum
from typing import NamedTuple

from harness.embedded.runtime.tasks import SECOND

# "4, 8, 16, 32 seconds, then every 64 seconds": an earlier repetition without a new connection is a storm. Half a
# second less, since a frame may have waited for its turn the first time.
RESEND_EARLIEST_NS = 4 * SECOND - SECOND // 2


class CallOutcome(StrEnum):
    """The result of a call as its client knows it."""

    COMMITTED = "committed"
    CUT_OFF = "cut off"  # the connection broke: it may be committed or not
    REFUSED = "refused"  # the server returned an error; nothing was sent


class Message(NamedTuple):
    """The identity of a message, from the header of its body."""

    initiator: int
    thread: int
    sequence: int

    def __str__(self) -> str:
        return f"message {self.sequence} of thread {self.thread} at initiator {self.initiator}"


@dataclass(frozen=True, slots=True)
class Call:
    """One call of a client."""

    message: Message
    outcome: CallOutcome
    at_ns: int
    on_new_dialog: bool = False  # the message has its own dialog, so there is no order
    is_poison: bool = False
    error: str = ""


@dataclass(frozen=True, slots=True)
class Stored:
    """A row of the target's tables; rows are in the order of their ids."""

    message: Message
    set_aside: bool = False  # in messageErrors, as poison should be


@dataclass(frozen=True, slots=True)
class Reading:
    """The time for which a reader had a conversation group, before it committed or rolled back."""

    group: str
    session: int
    began_ns: int
    ended_ns: int


@dataclass(frozen=True, slots=True)
class Sent:
    """A message that an instance has put on the wire."""

    at_ns: int
    instance: str
    start: int  # number of the instance's start
    conversation: str
    sequence: int


@dataclass(slots=True)
class Evidence:
    """Everything that the checkers know about a seed."""

    calls: list[Call] = field(default_factory=list)
    stored: list[Stored] = field(default_factory=list)
    readings: list[Reading] = field(default_factory=list)
    sent: list[Sent] = field(default_factory=list)
    was_full: bool = False  # a disk, for a while
    reconnections: int = 0  # greatest number: after kills and ends of cuts, frames on the wire are sent again
    noted: list[str] = field(default_factory=list)  # errors in the target's error table without a message
    left: list[str] = field(default_factory=list)  # what had not drained in time
    unrest: list[str] = field(default_factory=list)  # activity long after everything had drained


Checker = Callable[[Evidence], Iterator[str]]


def nothing_is_lost(evidence: Evidence) -> Iterator[str]:
    """Every message that a client was told is committed is in the target's tables."""
    stored = {row.message for row in evidence.stored}
    for call in evidence.calls:
        if call.outcome is CallOutcome.COMMITTED and call.message not in stored:
            yield f"{call.message} was committed at {_at(call.at_ns)} and is in no table of the target"


def exactly_once(evidence: Evidence) -> Iterator[str]:
    """No message is stored twice, in the wrong table, although it was refused, or without having been sent."""
    calls = {call.message: call for call in evidence.calls}
    for message, times in Counter(row.message for row in evidence.stored).items():
        if times > 1:
            yield f"{message} is stored {times} times"
        if message not in calls:
            yield f"{message} is stored, but nobody sent it"
        elif calls[message].outcome is CallOutcome.REFUSED:
            yield f"{message} is stored, but its SEND was refused"
    for row in evidence.stored:
        if row.message in calls and calls[row.message].is_poison != row.set_aside:
            yield f"{row.message} was {'set aside, but is not poison' if row.set_aside else 'processed, but is poison'}"


def in_order(evidence: Evidence) -> Iterator[str]:
    """The messages of one dialog are stored in the order in which they were sent."""
    sent_alone = {(call.message.initiator, call.message.thread) for call in evidence.calls if call.on_new_dialog}
    last: dict[tuple[int, int], Message] = {}
    for row in evidence.stored:
        message = row.message
        dialog = (message.initiator, message.thread)
        if dialog in sent_alone or row.set_aside:
            continue
        if dialog in last and message.sequence < last[dialog].sequence:
            yield f"{message} is stored after message {last[dialog].sequence} of its dialog"
        last[dialog] = message


def one_reader_a_group(evidence: Evidence) -> Iterator[str]:
    """No two readers have the same conversation group at the same time."""
    before: dict[str, Reading] = {}
    for reading in sorted(
        evidence.readings, key=lambda reading_: (reading_.group, reading_.began_ns, reading_.ended_ns, reading_.session)
    ):
        last = before.get(reading.group)
        if last is not None and reading.began_ns < last.ended_ns:
            yield (
                f"conversation group {reading.group} had two readers at {_at(reading.began_ns)}: "
                f"sessions {last.session} and {reading.session}"
            )
        if last is None or reading.ended_ns > last.ended_ns:
            before[reading.group] = reading


def queues_drain(evidence: Evidence) -> Iterator[str]:
    """After the faults, queues and transmission queues empty, ended dialogs disappear, and no error is left."""
    yield from evidence.left
    yield from evidence.noted


def no_endless_retry(evidence: Evidence) -> Iterator[str]:
    """Messages are sent again no more often than retries and reconnections explain; at the end nothing goes on."""
    sent_before: set[tuple[str, int, str, int]] = set()
    rounds: dict[tuple[str, int, str], dict[int, None]] = {}  # when a conversation sent again
    for sent in evidence.sent:
        conversation = (sent.instance, sent.start, sent.conversation)
        if (*conversation, sent.sequence) in sent_before:
            rounds.setdefault(conversation, {})[sent.at_ns] = None
        sent_before.add((*conversation, sent.sequence))
    for (instance, _, name), moments in rounds.items():
        first_ns, last_ns = min(moments), max(moments)
        allowed = 1 + (last_ns - first_ns) // RESEND_EARLIEST_NS + evidence.reconnections
        if len(moments) > allowed:
            span = f"{(last_ns - first_ns) / SECOND:.3f} s"
            yield f"{instance} sent messages of {name} again {len(moments)} times in {span}; {allowed} are explained"
    yield from evidence.unrest


def all_are_served(evidence: Evidence) -> Iterator[str]:
    """No SEND is refused, but by a full disk: no other fault is a reason."""
    for call in evidence.calls:
        if call.outcome is CallOutcome.REFUSED and not (evidence.was_full and call.error.startswith("error 9002")):
            yield f"{call.message} was refused at {_at(call.at_ns)}: {call.error}"


CHECKERS: dict[str, Checker] = {
    "nothing lost": nothing_is_lost,
    "exactly once": exactly_once,
    "in order": in_order,
    "one reader a group": one_reader_a_group,
    "queues drain": queues_drain,
    "no endless retry": no_endless_retry,
    "all served": all_are_served,
}


def violations(evidence: Evidence) -> list[str]:
    """All violations, each line headed by its checker."""
    return [f"{name}: {text}" for name, check in CHECKERS.items() for text in check(evidence)]


def _at(at_ns: int) -> str:
    return f"{at_ns / SECOND:.3f} s"
