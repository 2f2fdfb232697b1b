"""The evidence for the checkers: what clients were told, the target's tables, and what was on the wire."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import NamedTuple


class Told(StrEnum):
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
    told: Told
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
    reconnections: int = 0  # greatest number: after kills and ends of cuts, frames on the wire are sent again
    noted: list[str] = field(default_factory=list)  # errors in the target's error table without a message
    left: list[str] = field(default_factory=list)  # what had not drained in time
    unrest: list[str] = field(default_factory=list)  # activity long after everything had drained
