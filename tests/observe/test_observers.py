import threading
from collections.abc import Callable
from concurrent.futures import Future
from types import SimpleNamespace
from typing import Any

import pytest

from harness.observe import observers
from harness.observe.observers import FAILURE, Observer, Recording, Sample
from harness.observe.snapshots import Snapshot


class FakeInstance:
    """Its connections are only names; `broken` refuses them."""

    name = "target"
    queue = "dbo.Queue"
    silence = ""

    def __init__(self) -> None:
        self.broken = False
        self.opened = 0

    def connect(self, **_: Any) -> Any:
        if self.broken:
            raise ConnectionError("the instance is gone")
        self.opened += 1
        return SimpleNamespace(close=lambda: None)


class Counting:
    """A query for whose results a test can wait."""

    def __init__(self) -> None:
        self.asked = 0
        self.news = threading.Condition()

    def __call__(self, connection: object, queue: str) -> list[Sample]:
        with self.news:
            self.asked += 1
            self.news.notify_all()
        return [Sample("queue_depth", "queue", self.asked)]

    def wait_for(self, count: int) -> None:
        with self.news:
            assert self.news.wait_for(lambda: self.asked >= count, timeout=120)


@pytest.fixture
def observing() -> Any:
    opened: list[Observer] = []

    def start(instance: FakeInstance, *questions: Callable[[Any], list[Sample]], interval_s: float) -> Observer:
        opened.append(Observer(instance, questions, interval_s))  # type: ignore[arg-type]
        return opened[-1]

    yield start
    for observer in opened:
        observer.close()


def test_samples_are_taken_at_once_then_once_an_interval_and_at_the_end(observing: Any) -> None:
    question = Counting()
    observer = observing(FakeInstance(), question, interval_s=0.02)
    observer.begin()
    question.wait_for(4)
    recording = observer.end().result(timeout=120)
    assert [sample.value for _, sample in recording.samples] == list(range(1, question.asked + 1))
    times = [at_ns for at_ns, _ in recording.samples]
    assert times == sorted(times)


def test_no_samples_are_taken_between_cells(observing: Any) -> None:
    question = Counting()
    observer = observing(FakeInstance(), question, interval_s=0.001)
    observer.begin()
    observer.end().result(timeout=120)
    asked = question.asked
    observer.begin()
    assert observer.end().result(timeout=120).samples[0][1].value == asked + 1


def test_an_observer_that_fails_records_it_and_continues(observing: Any) -> None:
    instance, question = FakeInstance(), Counting()
    instance.broken = True
    observer = observing(instance, question, interval_s=0.01)
    observer.begin()
    while not observer.end().result(timeout=120).failures:
        observer.begin()
    observer.begin()
    instance.broken = False
    question.wait_for(1)
    recording = observer.end().result(timeout=120)
    labels = {(sample.metric, sample.label) for _, sample in recording.samples}
    assert labels <= {(FAILURE, "the instance is gone"), ("queue_depth", "queue")}
    assert ("queue_depth", "queue") in labels


def test_why_samples_are_missing_is_told_by_instance() -> None:
    recorded = {
        "target": Recording(late=2),
        "initiator-1": Recording([(5, Sample("queue_depth", "q", 1.0))], ["it was away"]),
    }
    observed = observers.observed(recorded, {})
    assert (observed.failures, observed.late_samples) == (["observer of initiator-1: it was away"], 2)
    assert observed.records["samples"]["instance"] == ["initiator-1"]


def test_a_snapshot_of_a_dead_instance_raises_its_error(observing: Any) -> None:
    instance = FakeInstance()
    instance.broken = True
    with pytest.raises(ConnectionError, match="gone"):
        observing(instance, interval_s=1).snapshot().result(timeout=120)


def test_an_instance_whose_container_used_other_processor_time_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    taken = iter([Snapshot(0, processor_time_ms=0, container_time_ms=0)])

    def fake(instance: Any, **_: Any) -> Any:
        def snapshot() -> Future[Snapshot]:
            future: Future[Snapshot] = Future()
            future.set_result(next(taken, Snapshot(1, processor_time_ms=1200, container_time_ms=1000)))
            return future

        nothing = dict.fromkeys(("begin", "prepare", "end", "close"), lambda: None)
        return SimpleNamespace(instance=instance, snapshot=snapshot, **nothing)

    monkeypatch.setattr(observers, "Observer", fake)
    monkeypatch.setattr(observers, "LatchWatch", fake)
    told: list[str] = []
    watching = observers.Observers([FakeInstance()], told.append)  # type: ignore[list-item]
    watching.begin(1)
    watching.window_begins()
    watching.window_ends()
    assert watching.changes(timeout_s=1)["containers"]["container_time_ms"] == [1000]
    [line] = told
    assert line.startswith("target does not count the processor time that the kernel counts for its container")
