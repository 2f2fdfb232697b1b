"""Conversations that a cell leaves behind: those that a workload's procedures begin, and nobody ends.

All messages may be processed and the application still fill its database. Rows of sys.sysdesend say cheaply whether
there are more endpoints than before. Only then the endpoints are read by state, because CLOSED ones are no leak: a
server keeps them for half an hour, so that a message that comes late begins nothing anew. Those that were CLOSED before
the cell are not told apart: they hide as many open ones on their instance.
"""

from collections import Counter
from collections.abc import Callable, Sequence
from typing import NamedTuple

from harness.definitions.units import counted
from harness.lab import scripts
from harness.lab.drivers import Connection
from harness.lab.instances import Clock, Instance

Sides = Sequence[tuple[Instance, "Connection"]]

SHARE_MIN = 0.5  # of the messages, which is far beyond what the ends of dialogs take
MESSAGES_MIN = 10
ENDS_WITHIN_S = 5.0  # EndDialog messages have their way too
POLL_S = 0.2
_ROWS = """\
SELECT SUM(p.rows) FROM sys.partitions AS p WHERE p.object_id = OBJECT_ID(N'sys.sysdesend') AND p.index_id = 1;
"""
_WHY = {
    "DISCONNECTED_INBOUND": "the other side has ended them, and nothing here receives that and issues END CONVERSATION",
    "DISCONNECTED_OUTBOUND": "this side has ended them, and the other has not",
    "ERROR": "they ended with an error, and nothing here receives that and issues END CONVERSATION",
}
_OPEN = "nobody ends them: END CONVERSATION belongs to both sides"


class Leak(NamedTuple):
    """Conversations that a cell has left on an instance, most of them in one state: a raw record."""

    instance: str
    state: str
    conversations: int  # more than before the cell
    share: float  # of all open ones of the instance: those in that state
    messages: int  # of the cell

    def __str__(self) -> str:
        return (
            f"{counted(self.messages, 'message')} left {counted(self.conversations, 'conversation')} more on "
            f"{self.instance}, where {self.share:.0%} are {self.state}: {_WHY.get(self.state, _OPEN)}"
        )


class Leaks:
    """Make it before a cell, and ask after its drain."""

    def __init__(self, sides: Callable[[], Sides], clock: Clock) -> None:
        """`sides` returns the connections of the moment."""
        self._sides = sides
        self._clock = clock
        self._before = {instance.name: _rows(connection) for instance, connection in sides()}

    def after(self, messages: int) -> list[Leak]:
        """Return where a cell of so many messages has left conversations, once the ends of dialogs had their time."""
        if messages < MESSAGES_MIN:
            return []
        deadline_s = self._clock.now_s() + ENDS_WITHIN_S
        while leaks := list(filter(None, (self._of(*side, messages) for side in self._sides()))):
            if self._clock.now_s() > deadline_s:
                return leaks
            self._clock.sleep(POLL_S)
        return []

    def _of(self, instance: Instance, connection: Connection, messages: int) -> Leak | None:
        least = SHARE_MIN * messages
        if _rows(connection) - self._before[instance.name] < least:
            return None
        states: Counter[str] = Counter()
        for row in scripts.rows(connection, "observe/conversations.sql", {}):
            states[str(row["state_desc"])] += int(row["conversations"])
        del states["CLOSED"]
        more = states.total() - self._before[instance.name]
        if more < least:
            return None
        [(state, number)] = states.most_common(1)
        return Leak(instance.name, state, more, number / states.total(), messages)


def _rows(connection: Connection) -> int:
    return int(scripts.scalar(connection, _ROWS) or 0)
