"""When a cell's rate is steady enough to measure.

The rate is steady when the median rates of the two halves of the time since the start differ by at most 5 %. The rule
applies from `floor_s` on. Measuring begins at `cap_s` in any case; the cell's record says whether the rate was steady.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass, field
from statistics import median

TOLERANCE = 0.05
SAMPLES_MIN = 4  # two rates a half


@dataclass
class Settling:
    """Decides when measuring begins, from (seconds since the start, messages sent so far)."""

    floor_s: float
    cap_s: float
    samples: list[tuple[float, int]] = field(default_factory=list)

    def add(self, at_s: float, sent: int) -> None:
        """Adds a reading, unless the count has not changed: it is refreshed more slowly than it is read."""
        if not self.samples or sent > self.samples[-1][1]:
            self.samples.append((at_s, sent))

    def is_steady(self) -> bool:
        return bool(self.samples) and self.samples[-1][0] >= self.floor_s and halves_agree(rates(self.samples))

    def is_over(self, at_s: float) -> bool:
        return at_s >= self.cap_s or self.is_steady()


def rates(samples: Sequence[tuple[float, int]]) -> list[float]:
    """Messages a second between neighbouring samples."""
    return [
        (sent - sent_before) / (at_s - before_s)
        for (before_s, sent_before), (at_s, sent) in itertools.pairwise(samples)
        if at_s > before_s
    ]


def halves_agree(values: Sequence[float]) -> bool:
    """Whether the medians of the first and the second half differ by at most TOLERANCE of the larger."""
    if len(values) < SAMPLES_MIN:
        return False
    middle = len(values) // 2
    first, second = median(values[:middle]), median(values[-middle:])
    return abs(first - second) <= TOLERANCE * max(first, second)
