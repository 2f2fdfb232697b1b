"""The clocks of a cell: the target's and those of workers of other machines."""

import numpy as np
import pytest

from harness.machine.clocks import ClockDifference
from harness.run.cell_clocks import TARGET, CellClocks, ClockRow, Reading

MS, S = 1_000_000, 1_000_000_000
START, END = 1_800_000_000 * S, 1_800_000_010 * S  # of a cell


def clocks(before_ns: int, after_ns: int, uncertainty_ns: int = MS // 10, own_ns: int = 0) -> CellClocks:
    early, late = ClockDifference(before_ns, uncertainty_ns), ClockDifference(after_ns, uncertainty_ns // 2)
    return CellClocks(Reading(START, 0, {TARGET: early}), Reading(END, own_ns, {TARGET: late}))


@pytest.mark.parametrize("ahead_ns", [3600 * S, -30 * S, 3 * MS])
def test_the_targets_times_become_this_machines(ahead_ns: int) -> None:
    here = [START + S, START + 5 * S]
    there = {"processed_at_ns": [at_ns + ahead_ns for at_ns in here], "thread": [1, 2]}
    moved = clocks(ahead_ns, ahead_ns).moved({"deliveries": there, "receives": {"received_at_ns": np.array([START])}})
    assert list(moved["deliveries"]["processed_at_ns"]) == here
    assert moved["deliveries"]["thread"] == [1, 2]
    assert list(moved["receives"]["received_at_ns"]) == [START - ahead_ns]


def test_a_clock_that_drifts_is_followed() -> None:
    drifting = clocks(40 * MS, 42 * MS)
    there = [START + 40 * MS, START + 5 * S + 41 * MS, END + 42 * MS]
    moved = drifting.moved({"deliveries": {"processed_at_ns": there}})["deliveries"]["processed_at_ns"]
    assert np.abs(moved - [START, START + 5 * S, END]).max() < 1000  # nanoseconds
    assert drifting.set_meanwhile() == []


def test_what_cannot_be_distinguished_from_no_difference_moves_nothing() -> None:
    there = {"deliveries": {"processed_at_ns": [START + 7]}}
    assert list(clocks(90_000, -40_000).moved(there)["deliveries"]["processed_at_ns"]) == [START + 7]


def test_messages_that_were_counted_have_this_machines_times_already() -> None:
    counted = {"processed": {"processed_at_ns": [START], "messages": [10]}}
    assert clocks(S, S).moved(counted) == counted


def test_a_clock_that_was_set_is_named() -> None:
    assert clocks(0, 7 * S).set_meanwhile() == ["the target's clock was set by +7.000 s"]
    assert clocks(5 * MS, -2 * MS).set_meanwhile() == []  # within 5 ms and what a quartz drifts in ten seconds
    assert clocks(5 * MS, -3 * MS).set_meanwhile() == ["the target's clock was set by -0.008 s"]
    assert clocks(5 * MS, -3 * MS, uncertainty_ns=MS).set_meanwhile() == []
    of_worker = [Reading(at_ns, 0, {"a (process 1)": ClockDifference(ns, 0)}) for at_ns, ns in ((START, 0), (END, S))]
    assert CellClocks(*of_worker).set_meanwhile() == ["worker a (process 1)'s clock was set by +1.000 s"]
    # Then the target's only seems to have changed.
    assert clocks(0, 3 * S, own_ns=-3 * S).set_meanwhile() == ["this machine's clock was set by -3.000 s"]


def test_the_rows_have_both_differences_and_the_larger_uncertainty() -> None:
    assert clocks(MS, 2 * MS).rows() == [ClockRow("target", MS, 2 * MS, MS // 10)]
