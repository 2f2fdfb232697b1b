"""The platform: charges work that takes time on real hardware, so that a simulated one can give it a cost.

The broker asks for processor time and page latches; the store charges flushes and the transport transfers. The broker
names the work and knows no cost. The real platform returns an empty tuple, which `yield from` passes at no cost.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal, NamedTuple, Protocol

from harness.embedded.runtime.tasks import Wait


class Page(NamedTuple):
    """A page of a data file; its text is the resource of a wait for it: `7:1:305`."""

    database_id: int
    file_id: int
    page_id: int

    def __str__(self) -> str:
        return f"{self.database_id}:{self.file_id}:{self.page_id}"


# Work of the broker on a processor: `count` times, with `size_bytes` of messages.
Work = Literal[
    "begin_dialog",
    "send",  # the whole statement with its share of BEGIN and COMMIT TRANSACTION
    "transmit",  # a message from the transmission queue to the transport
    "acknowledge",  # process an acknowledgement that has arrived
    "enqueue",  # put a message that has arrived into its queue
    "create_target",  # make the target's endpoint on the first message of a conversation
    "receive",  # the statement, with or without messages
    "received_message",  # each message it returns, and what the procedure does with it
    "end_conversation",
    "launch",  # start an activation procedure
]


class Platform(Protocol):
    @property
    def dispatchers(self) -> int:
        """How many tasks transmit, and how many accept frames. Each conversation belongs to one of each."""
        ...

    def cpu(self, work: Work, count: int = 1, size_bytes: int = 0) -> Iterable[Wait]:
        """Charges processor time."""
        ...

    def latch(self, page: Page) -> Iterable[Wait]:
        """Takes an exclusive latch on a page, holds it for the change of one row and releases it."""
        ...


class RealPlatform:
    """The hardware this runs on: work takes its time without being charged."""

    dispatchers = 1

    def cpu(self, work: Work, count: int = 1, size_bytes: int = 0) -> Iterable[Wait]:
        return ()

    def latch(self, page: Page) -> Iterable[Wait]:
        return ()
