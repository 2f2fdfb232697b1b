"""When test clients send: the paper's closed loop, or an open loop with a rate of its own.

In the closed loop each thread calls again when its call has returned: a slow server gets fewer calls, and the latencies
of the calls that a stall kept from being sent are missing (coordinated omission). In the open loop the sends of an
initiator have intended starts that no answer delays. A latency counts from there, so it includes the time in which no
thread was free.
"""

import itertools
import random
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Literal

Arrivals = Literal["constant", "poisson"]

CLOSED_LOOP = "closed loop"
OPEN_LOOP = "open loop"
ARRIVAL_WORDS: Mapping[Arrivals, str] = {"constant": "constant intervals", "poisson": "Poisson arrivals"}
# Measured against a server that answers at once, a worker makes 62,000 calls/s (`harness.load`).
RATE_MAX_PER_S = 60_000
# A thread that sleeps wakes up to 0.1 ms late. A send that is later than this met no free thread, or no free processor.
LATE_NS = 1_000_000

_RATE = re.compile(r"(\d+(?:\.\d+)?)\s*(?:/\s*(s|min))?")
_PER_S = {"s": 1, "min": 60, None: 1}
_NS_PER_S = 1_000_000_000


def parse_rate(text: object) -> float:
    """Sends a second of `500/s`, `30/min`, or of a bare number a second."""
    if isinstance(text, (int, float)) and not isinstance(text, bool):
        return float(text)
    match = _RATE.fullmatch(str(text).strip())
    if match is None:
        raise ValueError(f"invalid rate {text!r}: write 500/s or 30/min")
    return float(match[1]) / _PER_S[match[2]]


@dataclass(frozen=True, slots=True)
class OpenLoop:
    """The intended starts of each initiator's sends, which depend on nothing but these values."""

    rate_per_s: float  # per initiator
    arrivals: Arrivals
    seed: int

    def __str__(self) -> str:
        return f"open loop, {self.rate_per_s:,g}/s per initiator, {ARRIVAL_WORDS[self.arrivals]}"

    def starts_ns(self, initiator: int, block: int, *, number: int = 1, of: int = 1) -> Iterator[int]:
        """Yield the intended starts of an initiator's sends, without end, in nanoseconds after the cell's start.

        With `number` and `of` every `of`-th, from the `number`-th on: the part of one of its workers.

        All cells of a block have the same: those of a pair differ in nothing else than the dialog ratio.
        Constant intervals begin at a random moment of the first one: initiators of their own never send at the same
        moments.
        """
        return itertools.islice(self._all_starts_ns(initiator, block), number - 1, None, of)

    def due(self, initiator: int, block: int, from_ns: int, to_ns: int, *, number: int = 1, of: int = 1) -> int:
        """Count the sends whose intended start lies in [from, to), in nanoseconds after the cell's start."""
        starts = itertools.takewhile(
            lambda at_ns: at_ns < to_ns, self.starts_ns(initiator, block, number=number, of=of)
        )
        return sum(at_ns >= from_ns for at_ns in starts)

    def _all_starts_ns(self, initiator: int, block: int) -> Iterator[int]:
        draw = random.Random(f"{self.seed} {initiator} {block}")
        if self.arrivals == "poisson":
            gaps_s = (draw.expovariate(self.rate_per_s) for _ in itertools.count())
            return (round(at_s * _NS_PER_S) for at_s in itertools.accumulate(gaps_s))
        interval_ns = _NS_PER_S / self.rate_per_s
        phase = draw.random()
        return (round((number + phase) * interval_ns) for number in itertools.count())


def describe(open_loop: OpenLoop | None) -> str:
    """Name the load model in a few words."""
    return str(open_loop) if open_loop else CLOSED_LOOP
