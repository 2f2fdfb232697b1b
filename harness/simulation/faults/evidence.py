"""What the checkers are given: what clients were told, what the target's tables hold, what was seen on the wire."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import NamedTuple


class Told(StrEnum):
    """What a client knows of its call."""

    COMMITTED = "committed"
    CUT_OFF = "cut off"  # the connection broke: committed or not, nobody has told
    REFUSED = "refused"  # an error of the server's; nothing was sent


class Message(NamedTuple):
    """A message's name: the header of its body says it, whatever table it ends up in."""

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
    on_new_dialog: bool = False  # a dialog of its own, so no order to keep
    is_poison: bool = False
    error: str = ""


@dataclass(frozen=True, slots=True)
class Stored:
    """A row of the target's tables, in the order of its id."""

    message: Message
    set_aside: bool = False  # in messageErrors, where poison belongs


@dataclass(frozen=True, slots=True)
class Reading:
    """A reader had a conversation group from one moment to another, and committed or rolled back later."""

    group: str
    session: int
    began_ns: int
    ended_ns: int


@dataclass(frozen=True, slots=True)
class Sent:
    """A message's frame that an instance has put on the wire."""

    at_ns: int
    instance: str
    start: int  # which start of the instance
    conversation: str
    sequence: int


@dataclass(slots=True)
class Evidence:
    """Everything the checkers know of one seed."""

    calls: list[Call] = field(default_factory=list)
    stored: list[Stored] = field(default_factory=list)
    readings: list[Reading] = field(default_factory=list)
    sent: list[Sent] = field(default_factory=list)
    reconnections: int = 0  # at most: kills and ends of cuts, after each of which what was on the wire is sent again
    noted: list[str] = field(default_factory=list)  # errors that are in the target's error table without a message
    left: list[str] = field(default_factory=list)  # what had not drained when its time was up, in words
    unrest: list[str] = field(default_factory=list)  # what still went on long after everything had drained
