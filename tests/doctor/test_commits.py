"""Single commits: what they take, and what is said where they cannot be timed."""

from __future__ import annotations

from typing import Any

import pytest

from harness.doctor import commits
from harness.doctor.commits import CommitTimes
from harness.doctor.facts import Facts
from harness.doctor.machine import ClockDifference
from harness.lab import scripts
from harness.lab.instances import connections
from harness.lab.scripts import ScriptError

CLOCK = ClockDifference(0, 50_000)


def test_the_times_are_told_with_their_round_trip_and_with_what_the_instance_waited() -> None:
    calls = [300.0] * 98 + [1000.0, 5000.0]
    begin = "a commit of one row takes 300 us (p99 1,040 us, of 100), with a round trip of 100 us; "
    assert str(CommitTimes(calls, 100.0, 212.4)) == f"{begin}WRITELOG is 212 us of it on average"
    assert str(CommitTimes(calls, 100.0, None)) == f"{begin}its WRITELOG is not shown to this login"
    assert "takes 300 us (slowest 5,000 us, of 3), " in str(CommitTimes([300, 5000, 100], 100.0, None))


@pytest.mark.process
def test_each_commit_waits_for_the_log_and_nothing_is_left(sides: list[Facts]) -> None:
    with connections([sides[0].instance]) as (connection,):
        times = commits.measure(sides[0], connection, CLOCK, commits=5)
        assert scripts.scalar(connection, "SELECT OBJECT_ID(N'dbo.doctorCommits');") is None
    assert len(times.calls_us) == 5
    assert times.round_trip_us == 100
    assert times.writelog_us and times.writelog_us < sum(times.calls_us)


@pytest.mark.process
def test_commits_that_fail_are_a_warning_and_their_table_goes(
    sides: list[Facts], monkeypatch: pytest.MonkeyPatch
) -> None:
    run = scripts.run

    def refused(connection: Any, path: str, variables: dict[str, str]) -> None:
        if path == "doctor/commit.sql":
            raise ScriptError("the disk is full (error 1105)")
        run(connection, path, variables)

    monkeypatch.setattr(scripts, "run", refused)
    with connections([sides[0].instance]) as (connection,):
        [finding] = commits.check(sides[0], connection, CLOCK, is_embedded=True)
        assert scripts.scalar(connection, "SELECT OBJECT_ID(N'dbo.doctorCommits');") is None
    assert str(finding).startswith("warning: target, commits: no single commits could be timed: the disk is full")
