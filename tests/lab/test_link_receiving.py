"""How long a cell, and changing the receive settings, waits for running readers."""

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from harness.definitions.lab_kinds import EMBEDDED
from harness.files import workload_file
from harness.files.workload_file import Receiving, Workload
from harness.lab import link, queue_readers
from harness.lab.drivers import Driver
from harness.lab.instances import Instance, Lab, LabError

QUICK = Receiving(receive_timeout_ms=100)


def receiving(timeout_ms: int) -> Workload:
    paper = workload_file.paper()
    return paper.model_copy(update={"target": paper.target.model_copy(update={"receive_timeout_ms": timeout_ms})})


class Clock:
    def __init__(self) -> None:
        self.s = 0.0

    def now_s(self) -> float:
        return self.s

    def utc_ns(self) -> int:
        return round(self.s * 1e9)

    def sleep(self, duration_s: float) -> None:
        self.s += duration_s


class Target:
    """Readers that end at a given time, and a list of what was installed."""

    def __init__(self, clock: Clock) -> None:
        self.clock = clock
        self.readers_end_s = 0.0
        self.installed: list[str] = []

    def run(self, connection: object, path: str, variables: dict[str, str]) -> None:
        if str(path).endswith("receive_procedure.sql"):
            self.installed.append(variables["ReceiveTimeoutMs"])

    def poll(self, connection: object, path: str, variables: dict[str, str]) -> list[dict[str, Any]]:
        return [{"tasks": int(self.clock.s < self.readers_end_s)}]


@pytest.fixture
def target(monkeypatch: pytest.MonkeyPatch) -> Target:
    target = Target(Clock())

    @contextlib.contextmanager
    def connections(instances: object) -> Iterator[list[object]]:
        yield [target]

    monkeypatch.setattr(link, "connections", connections)
    monkeypatch.setattr(link, "scripts", target)
    monkeypatch.setattr(queue_readers, "scripts", target)
    return target


@pytest.fixture
def lab(target: Target) -> Lab:
    instance = Instance("target", "SSBTarget", "host", 1, 2, Driver("microsoft", "a driver", "nowhere"), None)
    return Lab(EMBEDDED, "2008", instance, [], Path(), variables={"ReceiveTimeoutMs": "3000"}, clock=target.clock)


def test_apply_waits_as_long_as_the_slowest_running_reader_may_take(lab: Lab, target: Target) -> None:
    link.change_workload(lab, receiving(60_000))
    link.apply_to_new_readers(lab, QUICK)
    target.readers_end_s = target.clock.s + 60  # it was started with the long timeout
    link.change_workload(lab, receiving(100))
    assert target.clock.s == pytest.approx(60, abs=1) and target.installed == ["60000", "100", "100"]


def test_readers_that_do_not_end_are_an_error_half_a_minute_after_their_timeout(lab: Lab, target: Target) -> None:
    link.change_workload(lab, receiving(60_000))
    link.change_workload(lab, receiving(100))
    target.readers_end_s = float("inf")
    with pytest.raises(LabError, match=r"1 reader of the target's queue did not end within 30\.1 s"):
        link.change_workload(lab, receiving(60_000))


def test_a_cell_waits_until_one_reader_is_left_but_not_for_that_one(
    lab: Lab, target: Target, monkeypatch: pytest.MonkeyPatch
) -> None:
    end_s = [1.0, 2.0, float("inf")]
    monkeypatch.setattr(target, "poll", lambda *_: [{"tasks": sum(target.clock.s < at_s for at_s in end_s)}])
    connection: Any = target
    queue_readers.wait_until_at_most(queue_readers.AT_REST, lab, connection, timeout_s=5)
    assert target.clock.s == pytest.approx(2, abs=0.1)
    with pytest.raises(LabError, match="1 reader of the target's queue did not end within 5 s"):
        queue_readers.wait_until_at_most(0, lab, connection, timeout_s=5)
