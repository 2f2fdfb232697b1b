"""Clocks of client machines against the target's, before and after a cell.

Calls are timed by the clock of their worker, deliveries by the target's. A difference makes the latencies from one to
the other wrong by as much; rates are of one clock each.
"""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from harness.lab.drivers import Connection
from harness.load.plan import WorkerClock

Clocks = Mapping[str, WorkerClock]  # by worker, each minus the target's


class ClockRow(NamedTuple):
    """A row of the record `clocks`."""

    worker: str
    before_ns: int
    after_ns: int
    uncertainty_ns: int


def against_target(workers: Sequence[WorkerClock], target: Connection) -> Clocks:
    """Both are known against this machine's clock; nothing without workers of other machines."""
    if not workers:
        return {}
    from harness.doctor.machine import measure_clock  # noqa: PLC0415  a simulated cell does without the doctor

    target_clock = measure_clock(target)
    return {
        worker.worker: WorkerClock(
            worker.worker,
            worker.difference_ns - target_clock.difference_ns,
            worker.uncertainty_ns + target_clock.uncertainty_ns,
        )
        for worker in workers
    }


def rows(before: Clocks, after: Clocks) -> list[ClockRow]:
    """Pair what was found before and after a cell."""
    return [
        ClockRow(name, before[name].difference_ns, late.difference_ns, max(before[name][2], late.uncertainty_ns))
        for name, late in after.items()
    ]


def complaints(rows: Sequence[ClockRow]) -> list[str]:
    """A line for each clock that differs by more than the doctor tolerates between instances."""
    if not rows:
        return []
    from harness.doctor.machine import CLOCK_TOLERANCE_NS  # noqa: PLC0415  as above

    complaints_ = []
    for row in rows:
        largest_ns = max(row.before_ns, row.after_ns, key=abs)
        if abs(largest_ns) - row.uncertainty_ns > CLOCK_TOLERANCE_NS:
            complaints_.append(
                f"the clock of worker {row.worker} differs from the target's by {largest_ns / 1e6:+.1f} ms, "
                f"± {row.uncertainty_ns / 1e6:.1f} ms: delivery latencies are wrong by that much, rates are not; "
                "synchronise both (chrony, w32tm)"
            )
    return complaints_
