"""Inboxes: frames that have come from the network and that no task has taken yet."""

from __future__ import annotations

from collections.abc import Sequence

from harness.embedded.broker.counters import Counters
from harness.embedded.broker.dispatchers import share
from harness.embedded.broker.frames import Frame
from harness.embedded.runtime.tasks import Signal


class Inbox:
    __slots__ = ("frames", "signal")

    def __init__(self) -> None:
        self.frames: list[Frame] = []
        self.signal = Signal()

    def emptied(self) -> list[Frame]:
        frames, self.frames = self.frames, []
        return frames


class Inboxes:
    """As many as the platform has dispatchers; a conversation always has the same one."""

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
