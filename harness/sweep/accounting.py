"""The books of a cell: every message that a client committed is processed exactly once and in order on its dialog.

The clients say how many messages each (initiator, thread) committed, numbered 0, 1, 2, ... The target says, with the
headers of all rows in `dbo.messageDrop` (sql/observe/deliveries.sql), what it stored and in which order. The difference
has three names: lost, duplicated, misordered.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt


class DialogBooks(NamedTuple):
    """What the target stored of one dialog's messages."""

    messages: int  # rows
    sequences: int  # different sequence numbers among them
    first_sequence: int
    last_sequence: int
    misordered: int  # rows whose sequence number is below that of the row before


@dataclass(frozen=True)
class Books:
    """Totals of a cell."""

    sent: int
    processed: int
    lost: int
    duplicated: int
    misordered: int
    strangers: int = 0  # messages of no dialog of this cell
    example: str = ""  # the first dialog that does not balance

    @property
    def balance(self) -> bool:
        return not (self.lost or self.duplicated or self.misordered or self.strangers)

    def reason(self) -> str:
        """Why the books do not balance, in one line; empty if they do."""
        if self.balance:
            return ""
        parts = {
            "lost": self.lost,
            "duplicated": self.duplicated,
            "misordered": self.misordered,
            "of no client": self.strangers,
        }
        counts = ", ".join(f"{count} {name}" for name, count in parts.items() if count)
        where = f" ({self.example})" if self.example else ""
        return f"the books do not balance: {counts} of {self.sent} messages{where}"


def balance(
    sent: Mapping[tuple[int, int], int], stored: Mapping[tuple[int, int], DialogBooks], *, has_order: bool = True
) -> Books:
    """Compares what clients committed with what the target stored.

    Only messages of one conversation have an order: without `has_order` a thread's messages were of many, and none is
    misordered.
    """
    processed = lost = duplicated = misordered = strangers = 0
    examples: list[str] = []
    for key in sorted(set(sent) | set(stored)):
        books = stored.get(key, DialogBooks(0, 0, 0, 0, 0))
        if not has_order:
            books = books._replace(misordered=0)
        committed = sent.get(key, 0)
        processed += books.messages
        # Numbers run from 0 to committed - 1: whatever lies outside was never committed by a client of this cell.
        outside = max(0, books.last_sequence - committed + 1) if books.sequences else 0
        outside = min(outside, books.sequences)
        missing = committed - (books.sequences - outside)
        repeated = books.messages - books.sequences
        lost += missing
        duplicated += repeated
        misordered += books.misordered
        strangers += outside
        if missing or repeated or books.misordered or outside:
            examples.append(
                f"initiator {key[0]} thread {key[1]}: {committed} committed, {books.messages} stored, "
                f"numbers {books.first_sequence} to {books.last_sequence}"
            )
    return Books(
        sum(sent.values()), processed, lost, duplicated, misordered, strangers, examples[0] if examples else ""
    )


def stored(deliveries: Mapping[str, Sequence[int]]) -> dict[tuple[int, int], DialogBooks]:
    """The books of each (initiator, thread), from its messages in the order in which they were stored."""
    initiators, threads, sequences = (np.array(deliveries[name], np.int64) for name in _HEADER)
    by_dialog = np.lexsort((threads, initiators))  # stable: the order of each dialog stays
    initiators, threads, sequences = initiators[by_dialog], threads[by_dialog], sequences[by_dialog]
    changes = np.flatnonzero((np.diff(initiators) != 0) | (np.diff(threads) != 0)) + 1
    return {
        (int(initiators[first]), int(threads[first])): _of_dialog(sequences[first:last])
        for first, last in zip([0, *changes], [*changes, len(sequences)], strict=True)
        if first < last
    }


_HEADER = ("initiator", "thread", "sequence")


def _of_dialog(sequences: npt.NDArray[np.int64]) -> DialogBooks:
    return DialogBooks(
        len(sequences),
        len(np.unique(sequences)),
        int(sequences.min()),
        int(sequences.max()),
        int(np.count_nonzero(np.diff(sequences) < 0)),
    )
