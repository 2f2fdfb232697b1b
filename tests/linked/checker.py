"""Judges both ends of all dialogs: every message once, in order, none lost, and nothing left.

It knows nothing of the broker, only what clients wrote into tables in the transactions in which they sent and received, what
they wrote into a file when such a transaction had been confirmed or rolled back, and which rows the instances still have.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

import pyodbc

TABLES = (  # of each end; `place` is the order, `attempt` the one number of its kind that a client ever used
    "CREATE TABLE dbo.Sent (place int IDENTITY PRIMARY KEY, dialog uniqueidentifier, number int, attempt bigint)",
    "CREATE TABLE dbo.Received (place int IDENTITY PRIMARY KEY, dialog uniqueidentifier, number int, attempt bigint)",
)
LEFT = {  # must be empty at the end; a target keeps closed conversations for half an hour
    "messages in the transmission queue": "SELECT COUNT(*) FROM sys.transmission_queue",
    "messages in the queue": "SELECT COUNT(*) FROM {queue}",
    "conversations that are not closed": "SELECT COUNT(*) FROM sys.conversation_endpoints WHERE state <> 'CD'",
}


class Message(NamedTuple):
    dialog: str
    number: int
    attempt: int


@dataclass
class End:
    """One end of dialogs: its tables, and what its clients were told: each is a list of attempts."""

    name: str
    sent: list[Message] = field(default_factory=list)
    received: list[Message] = field(default_factory=list)
    told: dict[str, list[int]] = field(default_factory=dict)  # sent, received, rolled_back
    problems: list[str] = field(default_factory=list)
    connections_lost: int = 0

    def about(self) -> str:
        told = {kind: len(attempts) for kind, attempts in self.told.items()}
        return f"{told.get('rolled_back', 0)} rolled back, {self.connections_lost} connections lost"


def left(connection: pyodbc.Connection, queue: str) -> dict[str, int]:
    """Count what is not drained yet."""
    counts = {what: connection.execute(query.format(queue=queue)).fetchval() for what, query in LEFT.items()}
    return {what: count for what, count in counts.items() if count}


def read(name: str, connection: pyodbc.Connection, journal: Path) -> End:
    """Read one end; the journal has lines `kind attempt ...`, and `problem text`."""
    end = End(name)
    for table, messages in (("Sent", end.sent), ("Received", end.received)):
        rows = connection.execute(f"SELECT dialog, number, attempt FROM dbo.{table} ORDER BY place")
        messages += [Message(*row) for row in rows]
    for line in journal.read_text(encoding="utf-8").splitlines():
        kind, _, rest = line.partition(" ")
        if kind == "problem":
            end.problems.append(rest)
        elif kind == "lost":
            end.connections_lost += 1
        else:
            end.told.setdefault(kind, []).extend(map(int, rest.split()))
    return end


def violations(target: End, initiators: Sequence[End]) -> list[str]:
    """Say what was broken, in lines; empty if nothing was."""
    lines: list[str] = []
    of_initiators: set[str] = set()
    for initiator in initiators:
        dialogs = {message.dialog for message in initiator.sent}
        of_initiators |= dialogs
        there, back = (
            [message for message in messages if message.dialog in dialogs]
            for messages in (target.received, target.sent)
        )
        lines += _compare(f"{initiator.name} to target", initiator.sent, there)
        lines += _compare(f"target to {initiator.name}", back, initiator.received)
    lines += _compare("nobody to target", [], [each for each in target.received if each.dialog not in of_initiators])
    for end in (target, *initiators):
        lines += _broken_promises(end)
    return lines


def _compare(way: str, sent: Iterable[Message], received: Iterable[Message]) -> Iterator[str]:
    sent_by_dialog, received_by_dialog = _by_dialog(sent), _by_dialog(received)
    for dialog in sorted(sent_by_dialog.keys() | received_by_dialog.keys()):
        went, came = sent_by_dialog.get(dialog, []), received_by_dialog.get(dialog, [])
        if went == came:
            continue
        missing, surplus = Counter(went) - Counter(came), Counter(came) - Counter(went)
        what = [
            f"lost {_numbers(missing)}" if missing else "",
            f"never sent, or received again, {_numbers(surplus)}" if surplus else "",
            "" if missing or surplus else f"out of order {_numbers(came)}",
        ]
        yield f"{way}, dialog {dialog}: {'; '.join(filter(None, what))} of {len(went)} messages"


def _by_dialog(messages: Iterable[Message]) -> dict[str, list[Message]]:
    by_dialog: dict[str, list[Message]] = {}
    for message in messages:
        by_dialog.setdefault(message.dialog, []).append(message)
    return by_dialog


def _numbers(messages: Iterable[Message]) -> str:
    return ", ".join(str(message.number) for message in messages)


def _broken_promises(end: End) -> Iterator[str]:
    sent, received = ({message.attempt for message in messages} for messages in (end.sent, end.received))
    told = {kind: set(end.told.get(kind, ())) for kind in ("sent", "received", "rolled_back")}
    for broken, what in (
        (told["sent"] - sent, "messages whose COMMIT was confirmed were not sent"),
        (told["received"] - received, "messages whose RECEIVE was confirmed were not received"),
        (told["rolled_back"] & sent, "messages that were rolled back were sent"),
    ):
        if broken:
            yield f"{end.name}: {len(broken)} {what}: attempts {sorted(broken)[:5]}"
    for dialog, messages in _by_dialog(end.sent).items():
        numbers = [message.number for message in messages]
        if numbers != sorted(set(numbers)):
            yield f"{end.name}, dialog {dialog}: its own table of sent messages has the numbers {numbers}"
    yield from (f"{end.name}: {problem}" for problem in end.problems)
