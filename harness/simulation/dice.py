"""Random choices that follow from a seed."""

from collections.abc import Sequence
from typing import TypeVar

from harness.embedded.runtime.tasks import SECOND, Entropy

Item = TypeVar("Item")


class Dice:
    """Random choices for one purpose; each purpose has its own dice, so that none changes the others."""

    def __init__(self, entropy: Entropy) -> None:
        self._entropy = entropy

    def between(self, low: float, high: float) -> float:
        return low + (high - low) * (int.from_bytes(self._entropy.random_bytes(8), "big") >> 11) / 2**53

    def integer(self, low: int, high: int) -> int:
        """Both ends included."""
        return low + int.from_bytes(self._entropy.random_bytes(8), "big") % (high - low + 1)

    def one_of(self, items: Sequence[Item]) -> Item:
        return items[self.integer(0, len(items) - 1)]

    def happens(self, probability: float) -> bool:
        return self.between(0, 1) < probability

    def duration_ns(self, low_s: float, high_s: float) -> int:
        return int(self.between(low_s, high_s) * SECOND)
