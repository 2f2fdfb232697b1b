"""What takes time on real hardware is asked of a platform, so that a simulated one can give it a price.

Of processor, latch, flush and transfer only the latch is asked for so far: the flush is the store's, the transfer the
transport's. The real platform answers with an empty tuple, which `yield from` passes at no cost; one whose latches are
waited for is in `latches`.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple, Protocol

from harness.embedded.runtime.tasks import Wait


class Page(NamedTuple):
    """A page of a data file; as text what a wait for it has as its resource: `7:1:305`."""

    database_id: int
    file_id: int
    page_id: int

    def __str__(self) -> str:
        return f"{self.database_id}:{self.file_id}:{self.page_id}"


class Platform(Protocol):
    def latch(self, page: Page) -> Iterable[Wait]:
        """An exclusive latch on a page, taken, held for one row's change and given up again."""
        ...


class RealPlatform:
    """The hardware this runs on."""

    def latch(self, page: Page) -> Iterable[Wait]:
        return ()
