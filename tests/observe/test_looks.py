"""Charts of looks; a look at real instances is drawn in `tests/e2e/test_ui.py`."""

from concurrent.futures import Future
from types import SimpleNamespace
from typing import Any

import pytest

from harness.observe import looks
from harness.observe.latch_watch import LatchWait, Page, PageObject, Watched
from harness.observe.looks import Looks
from harness.observe.observers import Recording, Sample

S = 1_000_000_000
STATISTICS = "Broker Statistics\\"


def target(at_s: float, *, enqueued: float, depth: float, started: float = 0, state: str = "NOTIFIED") -> Recording:
    found = [
        Sample("queue_depth", "TargetQueue", depth),
        Sample("transmission_queue_depth", "", 0),
        Sample("queue_monitor", f"TargetQueue\\{state}", 1),
        Sample("activated_tasks", "dbo.Receive", 2),
        Sample("counter", STATISTICS + "Enqueued Messages/sec", enqueued),
        # SQL Server has this one for each database and in total.
        Sample("counter", "Broker Activation\\Tasks Started/sec\\_Total", started),
        Sample("wait_ms", "WRITELOG", 10 * at_s),
        *([Sample("end_to_end_ms", "median", 12.5)] if enqueued > 1000 else []),
    ]
    return Recording([(int(at_s * S), sample) for sample in found])


def initiator(at_s: float, *, sent: float, transmission: float) -> Recording:
    found = [
        Sample("queue_depth", "InitiatorQueue", 0),
        Sample("transmission_queue_depth", "", transmission),
        Sample("counter", STATISTICS + "SQL SENDs/sec", sent),
        Sample("wait_ms", "WRITELOG", 5 * at_s),
        Sample("wait_ms", "PAGELATCH_EX", 300 * at_s),
    ]
    return Recording([(int(at_s * S), sample) for sample in found])


def test_what_was_enqueued_and_does_not_lie_in_the_queue_has_been_processed() -> None:
    before, _ = looks.read(
        {
            "target": target(10, enqueued=1000, depth=50),
            "initiator-1": initiator(10, sent=600, transmission=5),
            "initiator-2": initiator(10, sent=500, transmission=5),
        }
    )
    now, failures = looks.read(
        {
            "target": target(12, enqueued=1400, depth=150, started=4),
            "initiator-1": initiator(12, sent=800, transmission=10),
            "initiator-2": initiator(12, sent=820, transmission=20),
        }
    )
    assert not failures
    assert looks.charts(before, now) == {
        "depth": {
            "target's queue": 150,
            "initiators' transmission queues": 30,
            "target's transmission queue": 0,
            "initiators' queues": 0,
        },
        "readers": {"queue readers": 2, "of these waiting in RECEIVE": 1},
        "rate": {"sent": 260, "processed": 150},
        "end_to_end_ms": {"median": 12.5},
        "wait_ms": {"mean wait of a message": pytest.approx(1000 * 120 / 260)},
        "activations": {"queue readers started": 2},
        "target_waits": {"WRITELOG": 10},
        "initiator_waits": {"PAGELATCH_EX": 600, "WRITELOG": 10},
    }
    assert looks.monitors(now) == {"target TargetQueue": "NOTIFIED"}


def test_a_look_without_one_before_has_depths_and_no_rates() -> None:
    now, _ = looks.read({"target": target(1, enqueued=9, depth=3), "initiator-1": initiator(1, sent=9, transmission=0)})
    assert looks.charts({}, now).keys() == {"depth", "readers"}


def test_an_instance_that_does_not_answer_is_a_failure_and_the_others_are_shown() -> None:
    now, failures = looks.read(
        {"target": Recording([], ["connection refused"]), "initiator-1": initiator(1, sent=9, transmission=0)}
    )
    assert failures == ["target: connection refused"]
    assert looks.charts(now, now) == {"rate": {"sent": 0}, "initiator_waits": {}}


def wait(page: int) -> LatchWait:
    return LatchWait(0, 51, "PAGELATCH_EX", 1, Page(5, 1, page))


def test_latches_count_by_object_and_sample_and_the_watches_go_on(monkeypatch: pytest.MonkeyPatch) -> None:
    class Watch:
        begun = 0

        def __init__(self, instance: Any) -> None:
            self.instance = instance

        def prepare(self) -> None: ...

        def begin(self) -> None:
            Watch.begun += 1

        def end(self) -> Future[Watched]:
            objects = {Page(5, 1, 7): PageObject("sys.sysdesend", 1)}
            done: Future[Watched] = Future()
            done.set_result(Watched([1, 2], [wait(7), wait(7), wait(8)], objects))
            return done

    class Watcher:
        def __init__(self, instance: Any, also: Any) -> None:
            self.instance = instance

        def sample(self) -> Future[Recording]:
            done: Future[Recording] = Future()
            done.set_result(target(1, enqueued=0, depth=0))
            return done

    monkeypatch.setattr(looks, "LatchWatch", Watch)
    monkeypatch.setattr(looks, "Observer", Watcher)
    instances: Any = [SimpleNamespace(name="target"), SimpleNamespace(name="initiator-1")]
    look = Looks(instances, has_page_latches=True, stores_messages=True).take()
    shares = {"sys.sysdesend": 1.0, "unknown object": 0.5}
    assert (look.charts["target_latches"], look.charts["initiator_latches"]) == (shares, shares)
    assert Watch.begun == 4


def test_an_instance_that_hangs_is_a_failure_of_the_look(monkeypatch: pytest.MonkeyPatch) -> None:
    def hanging(instance: Any, also: Any) -> Any:
        answer: Future[Recording] = Future()
        if instance.name == "target":
            answer.set_result(target(1, enqueued=0, depth=0))
        return SimpleNamespace(instance=instance, sample=lambda: answer)

    monkeypatch.setattr(looks, "Observer", hanging)
    monkeypatch.setattr(looks, "ANSWER_WITHIN_S", 0)
    instances: Any = [SimpleNamespace(name="target"), SimpleNamespace(name="initiator-1")]
    look = Looks(instances, has_page_latches=False, stores_messages=False).take()
    assert look.failures == ["initiator-1: no answer within 0 s"]
    assert look.charts.keys() == {"readers"}
