"""The accounting of a cell by header: every message that a client committed is processed exactly once, in order on its
dialog.

Clients report how many messages each (initiator, thread) committed, numbered 0, 1, 2, ... The target shows which
messages `dbo.messageDrop` holds and in which order they were stored (sql/observe/deliveries.sql). Differences are
messages lost, duplicated, misordered, or of no client.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt


class Stored(NamedTuple):
    """One client's messages as the target stored them."""

    messages: int  # rows
    sequences: int  # different sequence numbers among them
    first_sequence: int
    last_sequence: int
    misordered: int  # rows whose sequence number is below that of the row before


@dataclass(frozen=True)
class Accounting:
    """Totals of a cell."""

    sent: int = 0
    processed: int = 0
    lost: int = 0
    duplicated: int = 0
    misordered: int = 0
    unknown: int = 0  # messages of no client of this cell
    example: str = ""  # the first client with a difference
    fault: str = ""  # any other, where messages are counted

    @property
    def is_exact(self) -> bool:
        return not (self.lost or self.duplicated or self.misordered or self.unknown or self.fault)

    def reason(self) -> str:
        """The differences in one line; empty without any."""
        if self.is_exact or self.fault:
            return self.fault
        parts = {
            "lost": self.lost,
            "duplicated": self.duplicated,
            "misordered": self.misordered,
            "messages belong to no client": self.unknown,
        }
        counts = ", ".join(f"{count} {name}" for name, count in parts.items() if count)
        where = f" ({self.example})" if self.example else ""
        return f"the accounting of {self.sent} sent messages failed: {counts}{where}"


def compare(
    sent: Mapping[tuple[int, int], int], stored: Mapping[tuple[int, int], Stored], *, has_order: bool = True
) -> Accounting:
    """Compare what clients committed with what the target stored.

    Only messages of one conversation have an order: `has_order` is False where a thread's messages had many.
    """
    processed = lost = duplicated = misordered = unknown = 0
    examples: list[str] = []
    for key in sorted(set(sent) | set(stored)):
        counts = stored.get(key, Stored(0, 0, 0, 0, 0))
        if not has_order:
            counts = counts._replace(misordered=0)
        committed = sent.get(key, 0)
        processed += counts.messages
        # Numbers run from 0 to committed - 1: no client of this cell committed one outside.
        outside = max(0, counts.last_sequence - committed + 1) if counts.sequences else 0
        outside = min(outside, counts.sequences)
        missing = committed - (counts.sequences - outside)
        repeated = counts.messages - counts.sequences
        lost += missing
        duplicated += repeated
        misordered += counts.misordered
        unknown += outside
        if missing or repeated or counts.misordered or outside:
            examples.append(
                f"initiator {key[0]} thread {key[1]}: {committed} committed, {counts.messages} stored, "
                f"numbers {counts.first_sequence} to {counts.last_sequence}"
            )
    example = examples[0] if examples else ""
    return Accounting(sum(sent.values()), processed, lost, duplicated, misordered, unknown, example)


def stored_by_client(deliveries: Mapping[str, Sequence[int]]) -> dict[tuple[int, int], Stored]:
    """Return what was stored of each (initiator, thread), from all messages in the order in which they were stored."""
    initiators, threads, sequences = (np.array(deliveries[name], np.int64) for name in _HEADER)
    by_client = np.lexsort((threads, initiators))  # stable: the order of each client stays
    initiators, threads, sequences = initiators[by_client], threads[by_client], sequences[by_client]
    changes = np.flatnonzero((np.diff(initiators) != 0) | (np.diff(threads) != 0)) + 1
    return {
        (int(initiators[first]), int(threads[first])): _of_client(sequences[first:last])
        for first, last in zip([0, *changes], [*changes, len(sequences)], strict=True)
        if first < last
    }


_HEADER = ("initiator", "thread", "sequence")


def _of_client(sequences: npt.NDArray[np.int64]) -> Stored:
    return Stored(
        len(sequences),
        len(np.unique(sequences)),
        int(sequences.min()),
        int(sequences.max()),
        int(np.count_nonzero(np.diff(sequences) < 0)),
    )
