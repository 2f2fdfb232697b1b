"""The `calls` record of one initiator's clients: a row per call with its start and latency."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
import pandas as pd  # noqa: F401  pyarrow imports it for its first array: a third of a second, not at a cell's end

from harness import records
from harness.matrix import Cell


class RecordedCalls(Protocol):
    """The calls of one thread: `threads.CallLog`, or a simulated client's."""

    @property
    def count(self) -> int: ...

    @property
    def failures(self) -> Sequence[tuple[int, str]]:
        """Index of the call, text."""
        ...

    def starts_ns(self) -> npt.NDArray[np.int64]: ...

    def latencies_ns(self, first: int, last: int) -> npt.NDArray[np.int64]: ...


class RecordedThread(Protocol):
    @property
    def number(self) -> int:
        """From 1."""
        ...

    @property
    def log(self) -> RecordedCalls: ...


def write_calls(
    threads: Sequence[RecordedThread], *, results: Path, cell: Cell, attempt: int, initiator: int, clock_offset_ns: int
) -> Path:
    """Writes the initiator's file for one attempt at a cell, once its threads have finished or are abandoned."""
    counts = [thread.log.count for thread in threads]
    succeeded = np.ones(sum(counts), dtype=bool)
    base = 0
    for thread, count in zip(threads, counts, strict=True):
        for sequence, _ in thread.log.failures:
            if sequence < count:
                succeeded[base + sequence] = False
        base += count
    empty = [np.empty(0, dtype=np.int64)]
    columns: dict[str, Any] = {
        "initiator": np.full(len(succeeded), initiator, dtype=np.int32),
        "thread": np.repeat(np.array([thread.number for thread in threads], dtype=np.int32), counts),
        "sequence": np.concatenate([*empty, *(np.arange(count, dtype=np.int64) for count in counts)]),
        "started_at_ns": clock_offset_ns
        + np.concatenate(
            [*empty, *(thread.log.starts_ns()[:count] for thread, count in zip(threads, counts, strict=True))]
        ),
        "latency_ns": np.concatenate(
            [*empty, *(thread.log.latencies_ns(0, count) for thread, count in zip(threads, counts, strict=True))]
        ),
        "succeeded": succeeded,
    }
    return records.write(results, "calls", cell, attempt, columns, writer=f"i{initiator}")
