"""Dispatchers: which task transmits for a conversation, and which conversations it has to look at.

There are as many as the platform says; a conversation always has the same one.
"""

from __future__ import annotations

from functools import lru_cache
from zlib import crc32

from harness.embedded.broker.database import ConversationEndpoint
from harness.embedded.runtime.tasks import Signal


@lru_cache(maxsize=4096)  # called for every frame, with few conversations at a time
def share(conversation_id: str, dispatchers: int) -> int:
    """The number of a conversation's dispatcher: the same in every process, unlike hash()."""
    return crc32(conversation_id.encode()) % dispatchers if dispatchers > 1 else 0


class Dispatcher:
    """What a task that transmits has to do."""

    __slots__ = ("woken", "work")

    def __init__(self) -> None:
        self.woken: dict[ConversationEndpoint, None] = {}
        self.work = Signal()


class Dispatchers:
    def __init__(self, count: int) -> None:
        self.all = [Dispatcher() for _ in range(count)]

    def wake(self, endpoint: ConversationEndpoint) -> None:
        """Lets the endpoint's dispatcher look whether it has something to send."""
        dispatcher = self.all[share(endpoint.terms.conversation_id, len(self.all))]
        dispatcher.woken[endpoint] = None
        if dispatcher.work.waiters:
            dispatcher.work.notify_one()
