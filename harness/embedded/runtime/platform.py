"""What takes time on real hardware is asked of a platform, so that a simulated one can give it a price.

Of processor, latch, flush and transfer only the latch is asked for so far: the flush is the store's, the transfer the
transport's. The real platform answers with an empty tuple, which `yield from` passes at no cost; a simulated one with
waits on a modelled latch.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol

from harness.embedded.runtime.tasks import Wait

Page = tuple[str, int]  # table and page number


class Platform(Protocol):
    def latch(self, page: Page) -> Iterable[Wait]:
        """An exclusive latch on a page, taken, held for one row's change and given up again."""
        ...


class RealPlatform:
    """The hardware this runs on."""

    def latch(self, page: Page) -> Iterable[Wait]:
        return ()
