"""The accounting of a cell by count: how many messages were processed by a moment, from what was sent and what waits.

    processed = sent - waiting

`sent` are the calls that had returned; `waiting` the messages in the initiators' transmission queues and in the
target's queue. The depths are read at both ends of the measured window, several times while a cell settles, and in each
sample; between two readings they are taken to change evenly. So the rate of the window is wrong by the messages that
moved from one queue to the next while the depths at its two ends were read, which is about a millisecond for each
instance. The course within a second is less certain. A message of any type counts where it waits: an EndDialog does
too.

A message counts as processed when it is received, and again as waiting if the receiver rolls back.
"""

from collections import defaultdict
from collections.abc import Sequence
from itertools import pairwise

import numpy as np
import numpy.typing as npt

SLOT_NS = 10_000_000

Numbers = npt.NDArray[np.int64]


class Depths:
    """Readings of how many messages wait in each queue."""

    def __init__(self) -> None:
        self._readings: dict[str, list[tuple[int, float]]] = defaultdict(list)

    def add(self, queue: str, at_ns: int, messages: float) -> None:
        self._readings[queue].append((at_ns, messages))

    def at(self, moments_ns: Numbers) -> npt.NDArray[np.float64]:
        """Return how many messages waited at each moment, in all queues together."""
        waiting = np.zeros(len(moments_ns))
        for readings in self._readings.values():
            at_ns, depths = zip(*sorted(readings), strict=True)
            waiting += np.interp(moments_ns, at_ns, depths)
        return waiting


def course(returned_ns: Numbers, depths: Depths, moments_ns: Sequence[int]) -> dict[str, Numbers]:
    """Return the columns of the record `processed`: how many messages were processed in each slot.

    `returned_ns` is when each call returned. `moments_ns` are those of the cell: the clients start, the measured window
    begins and ends, all is drained. A slot begins at each of them, so that none lies in two phases; no message is
    processed before it is sent, and at the last moment all are.
    """
    parts = [np.arange(begin, end, SLOT_NS, dtype=np.int64) for begin, end in pairwise(moments_ns)]
    edges = np.concatenate([*parts, [moments_ns[-1]]])
    sent = np.searchsorted(np.sort(returned_ns), edges)
    processed = np.clip(sent - depths.at(edges), 0, sent)
    processed[-1] = len(returned_ns)
    # A backlog that seems to grow by more than was sent, or a rollback, would be a negative number of messages.
    for begin, end in pairwise(np.searchsorted(edges, moments_ns)):
        processed[end] = max(processed[begin], processed[end])
        processed[begin : end + 1] = np.minimum(np.maximum.accumulate(processed[begin : end + 1]), processed[end])
    messages = np.diff(np.rint(processed).astype(np.int64))
    some = messages > 0
    return {"processed_at_ns": edges[:-1][some], "messages": messages[some]}
