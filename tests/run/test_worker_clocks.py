"""Clocks of client machines against the target's."""

from typing import Any

import pytest

from harness.doctor import machine
from harness.doctor.machine import ClockDifference
from harness.load.plan import WorkerClock
from harness.run.worker_clocks import ClockRow, against_target, complaints, rows

MS = 1_000_000
TARGET: Any = None


def test_a_workers_clock_is_compared_with_the_targets_through_this_machines(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine, "measure_clock", lambda connection: ClockDifference(30 * MS, 2 * MS))
    before = against_target([WorkerClock("a (process 1)", 10 * MS, MS)], TARGET)
    after = against_target([WorkerClock("a (process 1)", 28 * MS, 3 * MS)], TARGET)
    assert rows(before, after) == [ClockRow("a (process 1)", -20 * MS, -2 * MS, 5 * MS)]


def test_workers_of_this_machine_cost_no_question() -> None:
    assert rows(against_target([], TARGET), against_target([], TARGET)) == []


def test_a_clock_beyond_its_uncertainty_and_the_tolerance_is_named_with_a_remedy() -> None:
    near, far = ClockRow("near", 6 * MS, 0, 2 * MS), ClockRow("far", MS, -20 * MS, 2 * MS)
    assert complaints([near, far]) == [
        "the clock of worker far differs from the target's by -20.0 ms, ± 2.0 ms: delivery latencies are wrong by that "
        "much, rates are not; synchronise both (chrony, w32tm)"
    ]
