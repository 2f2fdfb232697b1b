"""What takes time on real hardware is asked of a platform, so that a simulated one can give it a price.

The real platform adds nothing: the processor's time is spent by running this code, the flush is the store's, the
transfer is the network's. It answers with an empty tuple, which `yield from` passes at no cost. A simulated platform
answers with waits on modelled resources (cores, latches with a hand-over, links).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol

from harness.embedded.runtime.tasks import Wait

Page = tuple[str, int]  # table and page number


class Platform(Protocol):
    def cpu(self, work: str) -> Iterable[Wait]:
        """Processor time for a named piece of work."""
        ...

    def latch(self, page: Page) -> Iterable[Wait]:
        """An exclusive latch on a page, taken, held for one row's change and given up again."""
        ...

    def transfer(self, size_bytes: int) -> Iterable[Wait]:
        """The time on the wire of that many bytes."""
        ...


class RealPlatform:
    """The hardware this runs on."""

    def cpu(self, work: str) -> Iterable[Wait]:
        return ()

    def latch(self, page: Page) -> Iterable[Wait]:
        return ()

    def transfer(self, size_bytes: int) -> Iterable[Wait]:
        return ()
