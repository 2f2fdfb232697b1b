"""This machine's clock, and others compared with it."""

import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass

SAMPLES = 9


@dataclass(frozen=True, slots=True)
class ClockDifference:
    """Another clock minus this machine's. The uncertainty is half the duration of the question."""

    difference_ns: int
    uncertainty_ns: int

    @property
    def known_ns(self) -> int:
        """The difference; 0 where it is within its uncertainty."""
        return self.difference_ns if abs(self.difference_ns) > self.uncertainty_ns else 0


def compare(read_utc_ns: Callable[[], int]) -> ClockDifference:
    """Read another clock several times and return the median. It is assumed that it answers halfway through."""
    answers: list[tuple[int, int]] = []
    for _ in range(SAMPLES):
        before_ns, began_ns = time.time_ns(), time.monotonic_ns()
        there_ns = read_utc_ns()
        half_ns = (time.monotonic_ns() - began_ns) // 2
        answers.append((there_ns - before_ns - half_ns, half_ns))
    middle = statistics.median_low(difference for difference, _ in answers)
    return ClockDifference(*next(pair for pair in answers if pair[0] == middle))


def utc_offset_ns() -> int:
    """The difference from `perf_counter_ns` to nanoseconds since 1970: the best of a few close readings.

    It changes only when somebody sets this machine's clock.
    """
    best = None
    for _ in range(5):
        before, wall, after = time.perf_counter_ns(), time.time_ns(), time.perf_counter_ns()
        if best is None or after - before < best[0]:
            best = (after - before, wall - (before + after) // 2)
    assert best is not None
    return best[1]
