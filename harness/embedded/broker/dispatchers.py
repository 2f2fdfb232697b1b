"""Dispatchers and inboxes: the work of the tasks that transmit, and of those that take frames from the network.

The platform sets their number; a conversation always has the same ones.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from zlib import crc32

from harness.embedded.broker.database import ConversationEndpoint
from harness.embedded.broker.environment import Counters
from harness.embedded.broker.frames import Frame
from harness.embedded.runtime.tasks import Signal


@lru_cache(maxsize=4096)  # called for every frame; few conversations are active at a time
def share(conversation_id: str, dispatchers: int) -> int:
    """Computes the number of a conversation's dispatcher: the same in every process, unlike hash()."""
    return crc32(conversation_id.encode()) % dispatchers if dispatchers > 1 else 0


class Dispatcher:
    """The work of one transmitting task."""

    __slots__ = ("woken", "work")

    def __init__(self) -> None:
        self.woken: dict[ConversationEndpoint, None] = {}
        self.work = Signal()


class Dispatchers:
    def __init__(self, count: int) -> None:
        self.all = [Dispatcher() for _ in range(count)]

    def wake(self, endpoint: ConversationEndpoint) -> None:
        """Lets the endpoint's dispatcher check whether it has something to send."""
        dispatcher = self.all[share(endpoint.terms.conversation_id, len(self.all))]
        dispatcher.woken[endpoint] = None
        if dispatcher.work.waiters:
            dispatcher.work.notify_one()


class Inbox:
    __slots__ = ("frames", "signal")

    def __init__(self) -> None:
        self.frames: list[Frame] = []
        self.signal = Signal()

    def emptied(self) -> list[Frame]:
        frames, self.frames = self.frames, []
        return frames


class Inboxes:
    """Frames from the network that no task has taken yet."""

    def __init__(self, count: int, counters: Counters) -> None:
        self.all = [Inbox() for _ in range(count)]
        self._counters = counters

    def put(self, frames: Sequence[Frame]) -> None:
        self._counters.fragments_received += len(frames)
        inboxes = self.all
        for frame in frames:
            inbox = inboxes[share(frame.conversation_id, len(inboxes))]
            inbox.frames.append(frame)
            if inbox.signal.waiters:
                inbox.signal.notify_one()
