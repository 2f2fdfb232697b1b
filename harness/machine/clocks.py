"""This machine's clock, and others compared with it."""

import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass

SAMPLES = 11
# On Windows SYSUTCDATETIME is GetSystemTimeAsFileTime, whose "accuracy depends on the computer hardware and version of
# Windows": it may stand still for 15.6 ms. https://learn.microsoft.com/sql/t-sql/functions/sysutcdatetime-transact-sql
LONGEST_TICK_S = 0.02


@dataclass(frozen=True, slots=True)
class ClockDifference:
    """Another clock minus this machine's."""

    difference_ns: int
    uncertainty_ns: int  # half a round trip, or half of what the answers spread over
    round_trip_ns: int = 0

    @property
    def known_ns(self) -> int:
        """The difference; 0 where it is within its uncertainty."""
        return self.difference_ns if abs(self.difference_ns) > self.uncertainty_ns else 0


def compare(read_utc_ns: Callable[[], int]) -> ClockDifference:
    """Read another clock several times and return the median; one that stands still, until its tick must have ended.

    It is assumed that it answers halfway through. The tenth of the answers at either end says nothing of the spread.
    """
    answers: list[tuple[int, int]] = []
    told: set[int] = set()
    until_s = time.monotonic() + LONGEST_TICK_S
    while len(answers) < SAMPLES or (len(told) < len(answers) and time.monotonic() < until_s):
        before_ns, began_ns = time.time_ns(), time.monotonic_ns()
        there_ns = read_utc_ns()
        round_trip_ns = time.monotonic_ns() - began_ns
        told.add(there_ns)
        answers.append((there_ns - before_ns - round_trip_ns // 2, round_trip_ns))
    answers.sort()
    late = len(answers) // 10
    difference_ns, _ = answers[(len(answers) - 1) // 2]
    spread_ns = answers[-1 - late][0] - answers[late][0]
    round_trip_ns = statistics.median_low(taken_ns for _, taken_ns in answers)
    return ClockDifference(difference_ns, max(round_trip_ns, spread_ns) // 2, round_trip_ns)


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
