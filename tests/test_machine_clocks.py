"""Another clock that is compared with this machine's."""

import time
from types import SimpleNamespace

import pytest

from harness.machine import clocks

TICK_NS = 15_600_000
ROUND_TRIP_NS = 200_000


@pytest.fixture
def now(monkeypatch: pytest.MonkeyPatch) -> SimpleNamespace:
    """A time in which nothing takes any but the questions."""
    now = SimpleNamespace(ns=1_800_000_000 * 10**9)
    of_now = {"time_ns": lambda: now.ns, "monotonic_ns": lambda: now.ns, "monotonic": lambda: now.ns / 1e9}
    monkeypatch.setattr(clocks, "time", SimpleNamespace(**of_now))
    return now


def test_a_clock_is_compared_with_half_of_the_round_trip_as_uncertainty(now: SimpleNamespace) -> None:
    def ahead() -> int:
        now.ns += ROUND_TRIP_NS
        return now.ns - ROUND_TRIP_NS // 2 + 10**9

    compared = clocks.compare(ahead)
    assert compared == clocks.ClockDifference(10**9, ROUND_TRIP_NS // 2, ROUND_TRIP_NS)
    assert compared.known_ns == 10**9
    assert clocks.compare(lambda: ahead() - 10**9 + 90_000).known_ns == 0


def test_a_clock_of_coarse_ticks_is_uncertain_by_what_they_take(now: SimpleNamespace) -> None:
    """So that `harness.run.cell_clocks` does not take two comparisons for a clock that was set in between."""

    def coarse() -> int:
        now.ns += ROUND_TRIP_NS
        return now.ns // TICK_NS * TICK_NS

    compared = []
    for _ in range(20):
        compared.append(clocks.compare(coarse))
        now.ns += 7_000_000
    differences_ns = [one.difference_ns for one in compared]
    assert all(-TICK_NS <= one <= 0 for one in differences_ns)
    assert max(differences_ns) - min(differences_ns) < 5_000_000 + 2 * min(one.uncertainty_ns for one in compared)


def test_this_machines_clock_is_its_offset_ahead_of_its_counter() -> None:
    assert abs(time.perf_counter_ns() + clocks.utc_offset_ns() - time.time_ns()) < 50_000_000
