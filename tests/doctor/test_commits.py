"""Single commits: what they take, and what is said where they cannot be timed."""

from types import SimpleNamespace
from typing import Any

import pytest

from harness.definitions.lab_kinds import EMBEDDED
from harness.doctor import commits
from harness.doctor.commits import CommitTimes
from harness.doctor.facts import HOST, TRACE_FLAGS, Facts
from harness.files.script_text import ScriptError
from harness.lab import scripts
from harness.lab.instances import connections
from harness.lab.log_storage import Flushing
from harness.machine.clocks import ClockDifference

CLOCK = ClockDifference(0, 50_000, 100_000)


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
        [finding] = commits.check(sides[0], connection, CLOCK, kind=EMBEDDED)
        assert scripts.scalar(connection, "SELECT OBJECT_ID(N'dbo.doctorCommits');") is None
    assert str(finding).startswith("warning: target, commits: no single commits could be timed: the disk is full")


def in_container(
    flushing: Flushing | None, trace_flags: tuple[int, ...] = (), kernel: tuple[int, int] = (6, 1)
) -> Facts:
    storage = SimpleNamespace(kernel_version=kernel, flushing=flushing)
    instance: Any = SimpleNamespace(name="target", log_storage=storage)
    return Facts(instance, "Target", {TRACE_FLAGS: [{"TraceFlag": flag, "Status": 1} for flag in trace_flags]})


FORCED, FLUSHED, WRONG = "by forced unit access", "with fdatasync", "not flushed as Microsoft advises"


@pytest.mark.parametrize(
    "flushing, trace_flags, kernel, severity_words_remedy",
    [
        (Flushing(1, 0, "xfs", "rw"), (3979,), (4, 18), ("information", FORCED, "")),
        (Flushing(None, 0, "ext4", "rw"), (1800, 3979), (5, 6), ("information", FORCED, "")),
        (Flushing(1, 0, "ext4", "rw"), (3979,), (5, 5), ("warning", WRONG, "traceflag 3979 off")),
        (Flushing(1, 0, "overlay", "rw"), (3979,), (6, 1), ("warning", WRONG, "traceflag 3979 off")),
        (
            Flushing(1, 1, "xfs", "rw"),
            (3979,),
            (6, 1),
            ("warning", WRONG, "alternatewritethrough 1, traceflag 3979 off"),
        ),
        (Flushing(0, None, "xfs", "rw"), (), (6, 1), ("warning", "may return before", "control.writethrough 1")),
        (Flushing(None, None, "xfs", "rw"), (), (6, 1), ("information", FLUSHED, "if the device supports forced unit")),
        (Flushing(1, 1, "btrfs", "rw"), (1800,), (6, 1), ("information", FLUSHED, "")),
    ],
)
def test_how_the_log_is_flushed_is_told(
    flushing: Flushing, trace_flags: tuple[int, ...], kernel: tuple[int, int], severity_words_remedy: tuple[str, ...]
) -> None:
    severity, words, remedy = severity_words_remedy
    [finding] = commits.check_flushing(in_container(flushing, trace_flags, kernel))
    assert finding.severity == severity and words in finding.text
    assert remedy in finding.remedy and bool(remedy) == bool(finding.remedy)


def test_the_settings_of_a_log_are_in_the_words() -> None:
    [finding] = commits.check_flushing(in_container(Flushing(None, 0, "xfs", "rw,noatime"), (3979,)))
    told = "(writethrough 1 by default, alternatewritethrough 0, trace flag 3979 on, xfs rw,noatime)"
    assert finding.text.endswith(told)


def test_nothing_is_said_of_a_log_of_which_something_is_not_known() -> None:
    assert list(commits.check_flushing(in_container(None))) == []
    side = in_container(Flushing(1, 1, "xfs", "rw"))
    side.answers.clear()
    assert list(commits.check_flushing(side)) == []


@pytest.mark.parametrize(
    "host, platform, governor_is_known",
    [
        ("192.0.2.1", "Linux", False),
        ("127.0.0.1", "Linux", True),  # it is this machine's
        ("192.0.2.1", "Windows", None),
        ("192.0.2.1", "", None),  # the instance does not say
    ],
)
def test_what_a_users_server_on_linux_does_not_show_is_said_with_the_commands_that_show_it(
    host: str, platform: str, governor_is_known: bool | None
) -> None:
    instance: Any = SimpleNamespace(name="target", host=host, log_storage=None)
    answers: dict[str, list[dict[str, Any]]] = {TRACE_FLAGS: [{"TraceFlag": 3979, "Status": 1}]}
    if platform:
        answers[HOST] = [{"host_platform": platform}]
    found = [str(one) for one in commits.check_flushing(Facts(instance, "Target", answers))]
    assert found == [
        "information: target, commits: how the log is flushed is not known (trace flag 3979 on): SQL Server on Linux shows "
        f"neither mssql.conf nor the filesystem{'' if governor_is_known else ', nor the governor of its processors'}; remedy: "
        "look on its machine: sudo grep writethrough /var/opt/mssql/mssql.conf (what is missing there is 1); findmnt -T "
        f"/var/opt/mssql/data{'' if governor_is_known else '; cpupower frequency-info'}"
    ] * (governor_is_known is not None)
