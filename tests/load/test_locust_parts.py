"""The parts around Locust: the distribution of users, its statistics, messages and the pipe that carries them."""

import os
from types import SimpleNamespace

import gevent
import numpy as np
import pytest
from locust.stats import RequestStats

from harness.load.dispatch import InitiatorDispatcher
from harness.load.health import GeneratorHealth
from harness.load.locust_statistics import METHOD, log_calls, two_digits_ms
from harness.load.messages import (
    BeginScenario,
    Done,
    Ended,
    Failed,
    MakeReady,
    Prepare,
    StartUsers,
    Stop,
    Stopped,
    WorkerProgress,
    decode,
    encode,
)
from harness.load.pipe import Pipe
from harness.load.plan import SEND_MESSAGE
from harness.load.users import Seats, TestClient
from harness.load.web_scenario import WebScenario


def nodes(*names):
    return [SimpleNamespace(id=name) for name in names]


def dealt(dispatcher, users):
    dispatcher.new_dispatch(users, spawn_rate=users)
    return list(dispatcher)


def test_only_the_cells_initiators_get_users_and_all_at_once():
    assignment = ["b", "a"], 50
    dispatcher = InitiatorDispatcher(nodes("a", "b", "c"), [TestClient], assignment=lambda: assignment)
    assert dealt(dispatcher, 100) == [{"a": {"TestClient": 50}, "b": {"TestClient": 50}, "c": {"TestClient": 0}}]


def test_the_next_cell_may_have_more_workers_and_other_counts():
    assignment = [(["a"], 1)]
    dispatcher = InitiatorDispatcher(nodes("a"), [TestClient], assignment=lambda: assignment[-1])
    assert dealt(dispatcher, 1) == [{"a": {"TestClient": 1}}]
    dispatcher.add_worker(*nodes("b"))
    assignment.append((["a", "b"], 20))
    assert dealt(dispatcher, 40) == [{"a": {"TestClient": 20}, "b": {"TestClient": 20}}]
    dispatcher.remove_worker(*nodes("b"))
    assignment.append((["a"], 3))
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


MESSAGES = [
    Done(),
    Failed("thread 3: no such login"),
    StartUsers(["a", "b"], 50),
    Prepare("i1-t1-r1-p100-v2008", 1, 7, 100, SEND_MESSAGE, None, "SERVER=x", ["0-1"], 60.0),
    Stopped(1, 2, [5, 6], [("no", 1)], ["thread 1: why"], GeneratorHealth(1, 40.0, 2.0, 0.99, 5.0)),
    WorkerProgress(1, 2, 3, 4, 5.0, GeneratorHealth(1, 40.0, 2.0, 0.99, 5.0)),
    WorkerProgress(1, 2, 3, 4),
    MakeReady(WebScenario(3, 50, 1, 8192)),
]


@pytest.mark.parametrize("message", MESSAGES, ids=lambda message: type(message).__name__)
def test_a_message_arrives_as_it_was_sent_on_one_line(message):
    line = encode(message, 5)
    assert line.endswith(b"\n") and line.count(b"\n") == 1
    assert decode(line) == (5, message)


def test_a_field_of_another_type_is_refused():
    with pytest.raises(ValueError, match="threads"):
        decode(encode(StartUsers(["a"], "many")))


@pytest.fixture
def pipe(monkeypatch):
    """A pipe whose messages to the parent are kept in `told`."""
    monkeypatch.setattr(os, "dup2", lambda *_: None)
    pipe = Pipe()
    pipe.told = []
    monkeypatch.setattr(pipe, "tell", lambda message, number=0: pipe.told.append((number, message)))
    return pipe


def serve(pipe, monkeypatch, handlers, *lines):
    """Serves these lines to their end, and every greenlet that they start."""
    monkeypatch.setattr(pipe, "_input", iter(lines))
    monkeypatch.setattr(os, "_exit", lambda code: None)
    pipe.serve(handlers)
    gevent.sleep(0)


def test_an_order_is_answered_under_its_number(pipe, monkeypatch):
    serve(pipe, monkeypatch, {Stop: lambda order: Failed(f"waited {order.timeout_s:g} s")}, encode(Stop(2.0), 8))
    assert pipe.told == [(8, Failed("waited 2 s"))]


def test_an_exception_of_a_handler_is_its_answer(pipe, monkeypatch):
    def fail(order):
        raise RuntimeError("thread 3: no such login")

    serve(pipe, monkeypatch, {Stop: fail}, encode(Stop(1.0), 8))
    assert pipe.told == [(8, Failed("thread 3: no such login"))]


def test_who_asks_gets_the_answer_of_the_same_number(pipe, monkeypatch):
    asking = gevent.spawn(pipe.ask, BeginScenario(), timeout_s=5)
    gevent.sleep(0)
    [(number, message)] = pipe.told
    assert message == BeginScenario()
    serve(pipe, monkeypatch, {}, encode(Ended(["another's"]), number + 1), encode(Done(), number))
    assert asking.get(timeout=1) == Done()


def test_a_failure_is_the_error_of_who_asked(pipe, monkeypatch):
    asking = gevent.spawn(pipe.ask, BeginScenario(), timeout_s=5)
    gevent.sleep(0)
    serve(pipe, monkeypatch, {}, encode(Failed("no echo"), pipe.told[0][0]))
    with pytest.raises(RuntimeError, match="no echo"):
        asking.get(timeout=1)


def test_no_answer_in_time_is_a_timeout(pipe):
    with pytest.raises(gevent.Timeout):
        pipe.ask(BeginScenario(), timeout_s=0.01)


def test_the_thread_of_a_user_that_left_serves_the_next_one():
    seats = Seats()
    first, second = seats.take(), seats.take()
    of_first, of_second = seats.threads
    seats.leave(first)
    third = seats.take()
    assert seats.threads == [of_second, of_first]
    seats.replace(of_second)
    assert seats.threads[0] is not of_second
    for ordinal in (second, third):
        seats.leave(ordinal)
    assert seats.threads == []


def health(**changes):
    good = {"processor_percent": 40, "hub_lag_ms_max": 2, "time_in_calls": 0.99, "run_delay_percent": 5}
    return GeneratorHealth(initiator=2, **(good | changes))


def test_a_healthy_worker_has_no_complaints():
    assert health().complaints() == []


@pytest.mark.parametrize(
    "symptom, complaint",
    [
        ({"processor_percent": 97.0}, "worker 2 used 97 % of a processor: it is the bottleneck"),
        ({"time_in_calls": 0.5}, "worker 2: its threads were in calls only 50% of the time"),
        ({"hub_lag_ms_max": 2500.0}, "worker 2: its event loop was 2500 ms late"),
    ],
)
def test_a_starved_worker_says_so(symptom, complaint):
    assert health(**symptom).complaints() == [complaint]
