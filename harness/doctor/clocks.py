"""How far an instance's clock is from this machine's. Latencies of delivery are differences between the two."""

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

ASKED = 9
_TOLERANCE_NS = 5_000_000  # of a difference beyond its uncertainty; more, and latencies mislead


@dataclass(frozen=True, slots=True)
class Difference:
    """The instance's clock minus this machine's, known up to half the time that asking took."""

    instance: str
    difference_ns: int
    uncertainty_ns: int


def measure(instance: str, connection: pyodbc.Connection) -> Difference:
    """The median of several; each is taken to lie in the middle of its asking."""
    found: list[tuple[int, int]] = []
    for _ in range(ASKED):
        before_ns, began_ns = time.time_ns(), time.monotonic_ns()
        there_ns = int(scripts.rows(connection, "doctor/clock.sql", {})[0]["utc_ns"])
        half_ns = (time.monotonic_ns() - began_ns) // 2
        found.append((there_ns - before_ns - half_ns, half_ns))
    middle = statistics.median_low(difference for difference, _ in found)
    return Difference(instance, *next(pair for pair in found if pair[0] == middle))


def check_clock(measured: Difference) -> Iterator[Finding]:
    difference_ns, uncertainty_ns = measured.difference_ns, measured.uncertainty_ns
    text = f"the clock is {difference_ns / 1e6:+.2f} ms from this machine's, known up to {uncertainty_ns / 1e6:.2f} ms"
    if abs(difference_ns) - uncertainty_ns > _TOLERANCE_NS:
        remedy = "synchronise both (chrony, w32tm); latencies of delivery are off by that much, rates are not"
        yield warning(measured.instance, "clock", text, remedy)
    else:
        yield information(measured.instance, "clock", text)
