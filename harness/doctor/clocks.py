"""The difference between an instance's clock and this machine's. Delivery latencies are differences between the two."""

from __future__ import annotations

import statistics
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from harness.doctor.findings import Finding, information, warning
from harness.lab import scripts

if TYPE_CHECKING:
    import pyodbc

SAMPLES = 9
_TOLERANCE_NS = 5_000_000  # for a difference beyond its uncertainty; a larger one makes latencies misleading


@dataclass(frozen=True, slots=True)
class Difference:
    """The instance's clock minus this machine's. The uncertainty is half the duration of the query."""

    instance: str
    difference_ns: int
    uncertainty_ns: int


def measure(instance: str, connection: pyodbc.Connection) -> Difference:
    """Measure several times and return the median. It is assumed that a query reads the clock halfway through."""
    found: list[tuple[int, int]] = []
    for _ in range(SAMPLES):
        before_ns, began_ns = time.time_ns(), time.monotonic_ns()
        there_ns = int(scripts.rows(connection, "doctor/clock.sql", {})[0]["utc_ns"])
        half_ns = (time.monotonic_ns() - began_ns) // 2
        found.append((there_ns - before_ns - half_ns, half_ns))
    middle = statistics.median_low(difference for difference, _ in found)
    return Difference(instance, *next(pair for pair in found if pair[0] == middle))


def check_clock(measured: Difference) -> Iterator[Finding]:
    difference_ns, uncertainty_ns = measured.difference_ns, measured.uncertainty_ns
    text = f"the clock differs from this machine's by {difference_ns / 1e6:+.2f} ms, ± {uncertainty_ns / 1e6:.2f} ms"
    if abs(difference_ns) - uncertainty_ns > _TOLERANCE_NS:
        remedy = "synchronise both (chrony, w32tm): delivery latencies are wrong by that much, rates are not"
        yield warning(measured.instance, "clock", text, remedy)
    else:
        yield information(measured.instance, "clock", text)
