"""The clocks of a cell.

All times of a cell are this machine's. The target's clock is compared with it before the first call and after the
drain, and the target's times are moved by the difference, so the two need not agree. Workers of other machines are told
theirs before they start (`load.locust_clients`). A clock that is set in the meantime makes rates and latencies wrong.
"""

import time
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from harness.lab import instance_clock
from harness.lab.drivers import Connection
from harness.machine.clocks import ClockDifference, utc_offset_ns

TARGET = "target"
# Columns with the target's times, by kind of record.
_TARGET_TIMES = {"deliveries": "processed_at_ns", "receives": "received_at_ns"}
# Beyond what is uncertain: more makes latencies misleading. A quartz drifts by some 50 millionths, in a cell too.
TOLERANCE_NS = 5_000_000
_DRIFT_MAX = 200e-6

Columns = Mapping[str, Any]


class ClockRow(NamedTuple):
    """A row of the record `clocks`."""

    clock: str
    before_ns: int
    after_ns: int
    uncertainty_ns: int


class Reading(NamedTuple):
    """The clocks at a moment, each minus this machine's."""

    at_ns: int
    utc_offset_ns: int  # of this machine's
    differences: Mapping[str, ClockDifference]  # the target's, and those of workers on other machines


def read(target: Connection, workers: Mapping[str, ClockDifference]) -> Reading:
    """Read the clocks; `workers` are those of other machines."""
    return Reading(time.time_ns(), utc_offset_ns(), {TARGET: instance_clock.measure(target), **workers})


class CellClocks(NamedTuple):
    """The clocks before a cell and after it."""

    before: Reading
    after: Reading

    def rows(self) -> list[ClockRow]:
        pairs = [(name, self.before.differences[name], late) for name, late in self.after.differences.items()]
        return [
            ClockRow(name, early.difference_ns, late.difference_ns, max(early.uncertainty_ns, late.uncertainty_ns))
            for name, early, late in pairs
        ]

    def moved(self, records: Mapping[str, Columns]) -> dict[str, Columns]:
        """Return records of processed messages with the target's times as this machine's."""
        if TARGET not in self.before.differences:  # in virtual time
            return dict(records)
        return {
            kind: {**columns, column: self._moved(np.asarray(columns[column], np.int64))}
            if (column := _TARGET_TIMES.get(kind))
            else columns
            for kind, columns in records.items()
        }

    def _moved(self, times_ns: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        early_ns, late_ns = (reading.differences[TARGET].known_ns for reading in self)
        # Between the two readings the difference is taken to change evenly.
        drift = (late_ns - early_ns) / max(1, self.after.at_ns - self.before.at_ns)
        elapsed_ns = times_ns - early_ns - self.before.at_ns
        moved_ns: npt.NDArray[np.int64] = self.before.at_ns + np.rint(elapsed_ns * (1 - drift)).astype(np.int64)
        return moved_ns

    def set_meanwhile(self) -> list[str]:
        """Name the clocks that somebody set between the two readings."""
        own_ns = self.after.utc_offset_ns - self.before.utc_offset_ns
        if abs(own_ns) > TOLERANCE_NS:  # then the others only seem to have changed
            return [f"this machine's clock was set by {own_ns / 1e9:+.3f} s"]
        drift_ns = _DRIFT_MAX * (self.after.at_ns - self.before.at_ns)
        return [
            f"{'the target' if row.clock == TARGET else f'worker {row.clock}'}'s clock was set by "
            f"{(row.after_ns - row.before_ns) / 1e9:+.3f} s"
            for row in self.rows()
            if abs(row.after_ns - row.before_ns) > TOLERANCE_NS + 2 * row.uncertainty_ns + drift_ns
        ]
