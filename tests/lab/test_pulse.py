import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from harness.definitions.lab_kinds import SERVERS
from harness.lab import interruption, pulse
from harness.lab.drivers import Driver
from harness.lab.instances import Instance, InstanceSilent, Lab
from harness.lab.pulse import Pulse
from tests.run.fakes import FakeCursor
from tests.waiting import wait_until

DRIVER = Driver("microsoft", "/somewhere/libmsodbcsql-18.so", "wheel")


class Stoppable(Instance):
    """An instance that answers each query, but waits while it is stopped."""

    def __init__(self, name: str) -> None:
        super().__init__(name, name, "127.0.0.1", 1433, 0, DRIVER, None)
        self.runs = threading.Event()
        self.runs.set()

    def connect(self, database: str | None = None, *, query_timeout_s: int | None = None) -> Any:
        return self

    def cursor(self) -> FakeCursor:
        return FakeCursor(self, self._answer)

    def _answer(self, text: str) -> tuple[list[str], list[tuple[Any, ...]]]:
        self.runs.wait()
        return ["one"], [(1,)]

    def close(self) -> None: ...


@pytest.fixture
def lab(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Lab]:
    monkeypatch.setattr(pulse, "BEAT_S", 0.02)
    lab = Lab(SERVERS, "2022", Stoppable("target"), [Stoppable("initiator-1")], tmp_path)
    yield lab
    lab.end_pulse()


def begin(lab: Lab, *, is_patient: bool) -> list[str]:
    told: list[str] = []
    lab.end_pulse = Pulse(lab, told.append, is_patient=is_patient).end
    return told


def test_an_instance_that_answers_no_more_is_told_of_and_then_ends_every_wait(lab: Lab) -> None:
    told = begin(lab, is_patient=False)
    lab.target.runs.clear()
    given_up = threading.Event()  # not `runs`: the target stays silent
    with pytest.raises(InstanceSilent, match=r"^target \(127\.0\.0\.1:1433\) has not answered for 12 s$"):
        interruption.call_all([given_up.wait], on_interrupt=given_up.set)
    assert told == ["target (127.0.0.1:1433) has not answered for 5 s; after 12 s it counts as dead"]
    with pytest.raises(InstanceSilent):
        lab.check()
    lab.end_pulse()
    lab.target.runs.set()
    assert interruption.call_all([lambda: 1]) == [1]


def test_an_instance_that_answers_again_is_told_of_and_a_patient_lab_waits_for_it(lab: Lab) -> None:
    told = begin(lab, is_patient=True)
    lab.initiators[0].runs.clear()
    beats = lab.end_pulse.__self__._silent_s  # type: ignore[attr-defined]
    wait_until(lambda: beats["initiator-1"] > pulse.DEAD_AFTER_S)
    lab.check()
    lab.initiators[0].runs.set()
    wait_until(lambda: len(told) == 2)
    assert told[0] == "initiator-1 (127.0.0.1:1433) has not answered for 5 s"
    assert told[1].startswith("initiator-1 (127.0.0.1:1433) answers again, after ")
