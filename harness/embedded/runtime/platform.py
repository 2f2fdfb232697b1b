"""What takes time on real hardware is asked of a platform, so that a simulated one can give it a price.

The broker asks for processor time and page latches; the flush is the store's, the transfer the transport's. It knows no
price: it names the work. The real platform answers with an empty tuple, which `yield from` passes at no cost.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal, NamedTuple, Protocol

from harness.embedded.runtime.tasks import Wait


class Page(NamedTuple):
    """A page of a data file; as text what a wait for it has as its resource: `7:1:305`."""

    database_id: int
    file_id: int
    page_id: int

    def __str__(self) -> str:
        return f"{self.database_id}:{self.file_id}:{self.page_id}"


# What the broker does with a processor. `count` says how often, `size_bytes` what of messages it moves.
Work = Literal[
    "begin_dialog",
    "send",  # the whole statement with its share of BEGIN and COMMIT TRANSACTION
    "transmit",  # a message from the transmission queue to the transport
    "acknowledge",  # an acknowledgement that has arrived
    "enqueue",  # a message that has arrived, into its queue
    "create_target",  # the target's endpoint of a conversation, on its first message
    "receive",  # the statement, whatever it finds
    "received_message",  # each message it returns, with what the procedure does with it
    "end_conversation",
    "launch",  # of an activation procedure
]


class Platform(Protocol):
    @property
    def dispatchers(self) -> int:
        """How many tasks transmit, and how many take what arrives. Each has its conversations to itself."""
        ...

    def cpu(self, work: Work, count: int = 1, size_bytes: int = 0) -> Iterable[Wait]:
        """Processor time."""
        ...

    def latch(self, page: Page) -> Iterable[Wait]:
        """An exclusive latch on a page, taken, held for one row's change and given up again."""
        ...


class RealPlatform:
    """The hardware this runs on, which takes its time by itself."""

    dispatchers = 1

    def cpu(self, work: Work, count: int = 1, size_bytes: int = 0) -> Iterable[Wait]:
        return ()

    def latch(self, page: Page) -> Iterable[Wait]:
        return ()
