"""Decides when a cell is steady enough to measure: rate sent, rate processed, queue depth, number of queue readers.

All four are judged over the last seconds, as long as the shortest settling, so that the start is forgotten:

* The rates sent and processed are steady if those of the two halves differ by at most 5 %.
* The queue depth is steady if its means in the two halves differ by at most 5 % of the messages sent in a half. A
  depth that falls counts too: a target that still drains the backlog of the start processes more than is sent.
* The number of queue readers is steady if it was the same in every reading. The queue monitor adds a reader every five
  seconds while messages are left over, so a number must stay for ten seconds before it says much. Where the longest
  settling is too short for that, as on the embedded lab, no reader can be added within a cell either.

Where a half has fewer than 400 messages, 5 % is less than what a count of independent events varies by, its square
root. The square root is the tolerance there.

Measuring begins when all are steady, and after the longest settling in any case. It begins earlier too where the target
cannot keep up: time makes its backlog longer, and nothing steadier. The cell's record says what was not steady then.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import numpy as np

from harness.definitions.whitepaper import ACTIVATION_PERIOD_S
from harness.observe.observers import TargetProgress

TOLERANCE = 0.05
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

    def add_sent(self, at_s: float, sent: int) -> None:
        """Add what the clients have sent so far, unless they have not counted anew since the last time."""
        if at_s > self._sent[-1][0]:
            self._sent.append((at_s, sent))

    def add_target(self, at_s: float, progress: TargetProgress) -> None:
        self._target.append((at_s, progress))

    def is_due(self, at_s: float) -> bool:
        """Whether it is time to read the target again."""
        return not self._target or at_s >= self._target[-1][0] + self.interval_s

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
        sent_halves = _halves(self._sent, first_s, last_s)
        quantities = [
            f"the rate {name} went from {halves[0] / half_s:,.0f} to {halves[1] / half_s:,.0f} messages/s"
            for name, halves in (("sent", sent_halves), ("processed", self._processed(sent_halves, first_s, last_s)))
            for half_s in [self.span_s / 2]
            if not _agree(*halves)
        ]
        return quantities + _depth_change(inside, sent_halves[1]) + _readers_change(inside)

    def _processed(self, sent: tuple[float, float], first_s: float, last_s: float) -> tuple[float, float]:
        """Return the messages processed in both halves. What is not read is counted: sent, and waiting in no queue."""
        if self._target[0][1].untransmitted is None:
            return _halves([(at_s, progress.processed) for at_s, progress in self._target], first_s, last_s)
        waiting = [(at_s, progress.queue_depth + (progress.untransmitted or 0)) for at_s, progress in self._target]
        growth = _halves(waiting, first_s, last_s)
        return max(0.0, sent[0] - growth[0]), max(0.0, sent[1] - growth[1])

    def cannot_keep_up(self) -> bool:
        """Whether the target's queue grows all the time, and no queue reader can be added within the settling.

        The first half span does not count: the first messages wait for the queue monitor to launch a reader.
        """
        if len(self._target) < 2 or self.longest_s >= ACTIVATION_PERIOD_S:
            return False
        last_s = min(self._sent[-1][0], self._target[-1][0])
        first_s = last_s - self.span_s
        depths = [(at_s, progress.queue_depth) for at_s, progress in self._target]
        halves = zip(_halves(self._sent, first_s, last_s), _halves(depths, first_s, last_s), strict=True)
        return first_s >= self.span_s / 2 and all(growth > GROWTH_SHARE * sent for sent, growth in halves)


def _halves(counts: list[tuple[float, int]], first_s: float, last_s: float) -> tuple[float, float]:
    """Return the messages of the first and of the second half, counted at the moments between readings by line."""
    at_s, totals = zip(*counts, strict=True)
    first, middle, last = np.interp([first_s, (first_s + last_s) / 2, last_s], at_s, totals)
    return float(middle - first), float(last - middle)


def _agree(first: float, second: float) -> bool:
    larger = max(first, second)
    return larger > 0 and abs(first - second) <= _tolerated(larger)


def _tolerated(messages: float) -> float:
    return max(TOLERANCE * messages, math.sqrt(messages))


def _depth_change(readings: list[TargetProgress], sent_in_half: float) -> list[str]:
    middle = len(readings) // 2
    if not middle:
        return []
    depths = [reading.queue_depth for reading in readings]
    before, after = float(np.mean(depths[:middle])), float(np.mean(depths[-middle:]))
    if abs(after - before) <= _tolerated(sent_in_half):
        return []
    return [f"the target's queue went from {before:,.0f} to {after:,.0f} messages"]


def _readers_change(readings: list[TargetProgress]) -> list[str]:
    counts = [reading.readers for reading in readings]
    if min(counts) == max(counts):
        return []
    return [f"the number of queue readers was between {min(counts)} and {max(counts)}"]
