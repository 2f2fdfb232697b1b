"""What we put into Locust: the dealing out of users, its statistics, questions over its messages."""

from types import SimpleNamespace

import gevent
import numpy as np
import pytest
from locust.stats import RequestStats

from harness.load import messages
from harness.load.dispatch import InitiatorDispatcher
from harness.load.health import GeneratorHealth
from harness.load.messages import Answerer, Asker, Unanswered
from harness.load.plan import SEND_MESSAGE
from harness.load.statistics import METHOD, log_calls, two_digits_ms
from harness.load.users import Clients, TestClient


def nodes(*names):
    return [SimpleNamespace(id=name) for name in names]


def dealt(dispatcher, users):
    dispatcher.new_dispatch(users, spawn_rate=users)
    return list(dispatcher)


def test_only_the_cells_initiators_get_users_and_all_at_once():
    assignment = {1: "b", 2: "a"}, 50
    dispatcher = InitiatorDispatcher(nodes("a", "b", "c"), [TestClient], assignment=lambda: assignment)
    assert dealt(dispatcher, 100) == [{"a": {"TestClient": 50}, "b": {"TestClient": 50}, "c": {"TestClient": 0}}]


def test_the_next_cell_may_have_more_workers_and_other_counts():
    assignment = [({1: "a"}, 1)]
    dispatcher = InitiatorDispatcher(nodes("a"), [TestClient], assignment=lambda: assignment[-1])
    assert dealt(dispatcher, 1) == [{"a": {"TestClient": 1}}]
    dispatcher.add_worker(*nodes("b"))
    assignment.append(({1: "a", 2: "b"}, 20))
    assert dealt(dispatcher, 40) == [{"a": {"TestClient": 20}, "b": {"TestClient": 20}}]
    dispatcher.remove_worker(*nodes("b"))
    assignment.append(({1: "a"}, 3))
    assert dealt(dispatcher, 3) == [{"a": {"TestClient": 3}}]


def test_many_calls_at_once_count_like_locusts_own_one_by_one():
    latencies_ns = np.array([150_000_000, 250_000_000, 250_000_000, 98_000_000], dtype=np.int64)
    ours, theirs = RequestStats(), RequestStats()
    log_calls(ours, latencies_ns, procedure=SEND_MESSAGE, payload_bytes=100, failures=["no"])
    for latency_ns in latencies_ns:
        theirs.log_request(METHOD, SEND_MESSAGE, latency_ns / 1e6, 100)
    theirs.log_error(METHOD, SEND_MESSAGE, "no")
    for mine, other in ((ours.total, theirs.total), (ours.get(SEND_MESSAGE, METHOD), theirs.get(SEND_MESSAGE, METHOD))):
        for field in ("num_requests", "num_failures", "total_response_time", "total_content_length", "fail_ratio"):
            assert getattr(mine, field) == getattr(other, field), field
        for field in ("min_response_time", "max_response_time", "median_response_time", "response_times"):
            assert getattr(mine, field) == getattr(other, field), field
        assert sum(mine.num_reqs_per_sec.values()) == sum(other.num_reqs_per_sec.values())
    assert list(ours.errors) == list(theirs.errors)


@pytest.mark.parametrize(
    "latency_ns, shown_ms", [(1, 0.0), (12_345, 0.01), (123_456, 0.12), (1_234_567, 1.2), (123_456_789, 120.0)]
)
def test_short_latencies_keep_two_digits(latency_ns, shown_ms):
    assert two_digits_ms(np.array([latency_ns]))[0] == shown_ms


class Wire:
    """Two runners that hear each other; `losses` messages get lost first."""

    def __init__(self, losses=0):
        self.losses = losses
        self.sent = []
        self.master, self.worker = Runner(self), Runner(self)
        self.master.peer, self.worker.peer = self.worker, self.master


class Runner:
    def __init__(self, wire):
        self.wire = wire
        self.listeners = {}

    def register_message(self, kind, listener, concurrent=False):
        self.listeners[kind] = listener

    def send_message(self, kind, data, client_id=None):
        self.wire.sent.append(kind)
        if self.wire.losses:
            self.wire.losses -= 1
        else:
            gevent.spawn(self.peer.listeners[kind], environment=None, msg=SimpleNamespace(data=data))


@pytest.fixture(autouse=True)
def impatient(monkeypatch):
    monkeypatch.setattr(messages, "REPEAT_AFTER_S", 0.02)


@pytest.mark.parametrize("losses", [0, 1, 2, 3])
def test_a_question_is_answered_once_whatever_gets_lost(losses):
    wire, done = Wire(losses), []
    Answerer(wire.worker).on("cell_start", lambda data: {"got": done.append(data["value"]) or data["value"]})
    answer = Asker(wire.master).ask("w", "cell_start", {"value": 5}, timeout_s=5)
    assert answer["got"] == 5
    assert done == [5]


def test_a_slow_answer_is_worked_out_once_although_asked_for_again():
    wire, done = Wire(), []

    def slowly(data):
        done.append(data)
        gevent.sleep(0.1)
        return {}

    Answerer(wire.worker).on("cell_stop", slowly)
    Asker(wire.master).ask("w", "cell_stop", {}, timeout_s=5)
    assert wire.sent.count("cell_stop") > 1
    assert len(done) == 1


def test_an_exception_at_the_worker_is_the_masters_error():
    wire = Wire()

    def fail(data):
        raise RuntimeError("thread 3: no such login")

    Answerer(wire.worker).on("cell_prepare", fail)
    with pytest.raises(Unanswered, match="thread 3: no such login"):
        Asker(wire.master).ask("w", "cell_prepare", {}, timeout_s=5)


def test_no_answer_is_an_error_in_time():
    with pytest.raises(Unanswered, match=r"no answer to cell_stop within 0\.1 s"):
        Asker(Wire(losses=1000).master).ask("w", "cell_stop", {}, timeout_s=0.1)


def test_the_thread_of_a_user_that_left_serves_the_next_one():
    clients = Clients()
    first, second = clients.sit_down(), clients.sit_down()
    of_first, of_second = clients.threads
    clients.stand_up(first)
    third = clients.sit_down()
    assert clients.threads == [of_second, of_first]
    clients.replace(of_second)
    assert clients.threads[0] is not of_second
    for ordinal in (second, third):
        clients.stand_up(ordinal)
    assert clients.threads == []


def health(**changes):
    good = {"processor_percent": 40, "hub_lag_ms_max": 2, "time_in_calls": 0.99, "run_delay_percent": 5}
    return GeneratorHealth(initiator=2, **(good | changes))


def test_a_healthy_worker_has_no_complaints():
    assert health().complaints() == []


@pytest.mark.parametrize(
    "symptom, complaint",
    [
        ({"processor_percent": 97.0}, "worker 2 used 97 % of a processor"),
        ({"time_in_calls": 0.5}, "worker 2: its threads spent 50% of their time in calls"),
        ({"hub_lag_ms_max": 2500.0}, "worker 2: its hub was 2500 ms late"),
    ],
)
def test_a_starved_worker_says_so(symptom, complaint):
    assert health(**symptom).complaints() == [complaint]
