"""Decides when a cell is steady enough to measure: rate sent, rate processed, queue depth, number of queue readers.

All four are judged over the last seconds, as long as the shortest settling, so that the start is forgotten:

* The rates sent and processed are steady if those of the two halves do not differ, or only by what their spread
  explains (`run.steadiness`).
* The queue depth is steady if its means in the two halves differ by at most 5 % of the messages sent in a half. A
  depth that falls counts too: a target that still drains the backlog of the start processes more than is sent.
* The number of queue readers is steady if it varied by no more than one, or a tenth: where there are fewer dialogs than
  readers, the last one comes and goes. The queue monitor adds a reader every five seconds while messages are left over,
  so ten seconds show a number that grows. Where the longest settling is too short for that, as on the embedded lab, no
  reader can be added within a cell either.

Measuring begins when all are steady, and after the longest settling in any case. It begins earlier too where the target
cannot keep up: time makes its backlog longer, and nothing steadier. Whether the cell counts is decided by the measured
window alone (`run.validity`).
"""

import math
from dataclasses import dataclass, field

import numpy as np

from harness.definitions.measures import WINDOW_PARTS
from harness.definitions.whitepaper import ACTIVATION_PERIOD_S
from harness.observe.observers import TargetProgress
from harness.run.steadiness import TOLERANCE, Counts, change, processed_error

# A target cannot keep up if its queue grows by this share of what is sent, in both halves. It is twice the tolerance,
# so that no swing of a target that keeps up is taken for it.
GROWTH_SHARE = 2 * TOLERANCE
# The shortest settling is a quarter of the longest, within these limits, and at most half of it. Rates of less than
# half a second say little; ten seconds show that two readers were not added.
SHORTEST_MIN_S, SHORTEST_MAX_S = 1.0, 2.0 * ACTIVATION_PERIOD_S
# The target is read so often in the shortest settling, within these limits: a reading costs the target a millisecond.
READINGS = 10
INTERVAL_MIN_S, INTERVAL_MAX_S = 0.1, 1.0


def shortest_s(longest_s: float) -> float:
    return min(longest_s / 2, max(SHORTEST_MIN_S, min(longest_s / 4, SHORTEST_MAX_S)))


@dataclass
class Settling:
    """The readings since the clients started, of a cell that settles for at most `longest_s`."""

    longest_s: float
    _sent: list[tuple[float, int]] = field(default_factory=lambda: [(0.0, 0)])  # seconds since the start, messages
    _target: list[tuple[float, TargetProgress]] = field(default_factory=list)

    @property
    def span_s(self) -> float:
        """The time over which the readings are judged."""
        return shortest_s(self.longest_s)

    @property
    def interval_s(self) -> float:
        """The time between two readings of the target."""
        return min(INTERVAL_MAX_S, max(INTERVAL_MIN_S, self.span_s / READINGS))

    @property
    def readers(self) -> int:
        """The number of queue readers at the last reading."""
        return self._target[-1][1].readers

    def add_sent(self, at_s: float, sent: int) -> None:
        """Add what the clients have sent so far, unless they have not counted anew since the last time."""
        if at_s > self._sent[-1][0]:
            self._sent.append((at_s, sent))

    def add_target(self, at_s: float, progress: TargetProgress) -> None:
        self._target.append((at_s, progress))

    def is_due(self, at_s: float) -> bool:
        """Whether it is time to read the target again."""
        return not self._target or at_s >= self._target[-1][0] + self.interval_s

    def processed_error(self, first_s: float) -> float:
        """Return how well the rate processed since `first_s` is known, as a part of it; infinite without readings."""
        last_s = min(self._sent[-1][0], self._target[-1][0])
        parts = min(WINDOW_PARTS, sum(first_s <= at_s <= last_s for at_s, _ in self._target))
        if parts < 2:
            return math.inf
        sent = _parts(self._sent, first_s, last_s, parts)
        return processed_error(sent, self._processed(sent, first_s, last_s))

    def unsteady(self) -> list[str]:
        """Say of each quantity that is not steady how it changed; empty if all are steady."""
        if len(self._target) < 2:
            return ["the target was not read often enough"]
        last_s = min(self._sent[-1][0], self._target[-1][0])
        first_s = last_s - self.span_s
        # The span has passed if no more than one reading is missing at its beginning.
        if first_s < self._target[0][0] - self.interval_s:
            return [f"only {last_s:.2g} s had passed"]
        inside = [progress for at_s, progress in self._target if at_s >= first_s]
        sent = _parts(self._sent, first_s, last_s)
        processed = self._processed(sent, first_s, last_s)
        rates = change("sent", sent, self.span_s) + change("processed", processed, self.span_s)
        return rates + _depth_change(inside, float(sent[READINGS // 2 :].sum())) + _readers_change(inside)

    def _processed(self, sent: Counts, first_s: float, last_s: float) -> Counts:
        """Return the messages processed in each part. What is not read is counted: sent, and waiting in no queue."""
        if self._target[0][1].untransmitted is None:
            return _parts([(at_s, progress.processed) for at_s, progress in self._target], first_s, last_s, len(sent))
        waiting = [(at_s, progress.queue_depth + (progress.untransmitted or 0)) for at_s, progress in self._target]
        return (sent - _parts(waiting, first_s, last_s, len(sent))).clip(min=0)

    def cannot_keep_up(self) -> bool:
        """Whether the target's queue grows all the time, and no queue reader can be added within the settling.

        The first half span does not count: the first messages wait for the queue monitor to launch a reader.
        """
        if len(self._target) < 2 or self.longest_s >= ACTIVATION_PERIOD_S:
            return False
        last_s = min(self._sent[-1][0], self._target[-1][0])
        first_s = last_s - self.span_s
        depths = [(at_s, progress.queue_depth) for at_s, progress in self._target]
        sent, growth = (_parts(counts, first_s, last_s).reshape(2, -1).sum(axis=1) for counts in (self._sent, depths))
        return first_s >= self.span_s / 2 and bool((growth > GROWTH_SHARE * sent).all())


def _parts(counts: list[tuple[float, int]], first_s: float, last_s: float, parts: int = READINGS) -> Counts:
    """Return the messages of equal parts, counted at the moments between readings by line."""
    at_s, totals = zip(*counts, strict=True)
    return np.diff(np.interp(np.linspace(first_s, last_s, parts + 1), at_s, totals))


def _depth_change(readings: list[TargetProgress], sent_in_half: float) -> list[str]:
    middle = len(readings) // 2
    if not middle:
        return []
    depths = [reading.queue_depth for reading in readings]
    before, after = float(np.mean(depths[:middle])), float(np.mean(depths[-middle:]))
    if abs(after - before) <= max(TOLERANCE * sent_in_half, math.sqrt(2 * sent_in_half)):
        return []
    return [f"the target's queue went from {before:,.0f} to {after:,.0f} messages"]


def _readers_change(readings: list[TargetProgress]) -> list[str]:
    counts = [reading.readers for reading in readings]
    if not readers_changed(min(counts), max(counts)):
        return []
    return [f"the number of queue readers was between {min(counts)} and {max(counts)}"]


def readers_changed(fewest: int, most: int) -> bool:
    """Whether two numbers of queue readers differ by more than one that comes and goes."""
    return most - fewest > max(1, most // 10)
