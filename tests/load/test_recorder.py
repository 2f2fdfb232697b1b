"""What Locust learns of calls: its statistics, and the listeners of `events.request`."""

import numpy as np
import pytest
from locust.env import Environment

from harness.load.recorder import METHOD, CallFailed, NewCalls, Recorder, many_two_digits_ms, two_digits_ms
from harness.load.threads import CallLog

LATENCIES_NS = [150_000_000, 250_000_000, 250_000_000, 98_000_000]
PROCEDURE = "dbo.SendMessage"


def a_log() -> CallLog:
    log = CallLog()
    for place, latency_ns in enumerate(LATENCIES_NS):
        log.intended[0][place], log.latencies[0][place] = 1000 + place, latency_ns
    log.count = len(LATENCIES_NS)
    return log


def environment_after(*listeners):
    """An environment whose statistics count like a worker's, after four calls, of which the second failed."""
    environment = Environment()
    environment.create_local_runner()
    for listener in listeners:
        environment.events.request.add_listener(listener)
    threads = [
        NewCalls(a_log(), range(first, last), failures, 5_000_000_000, {"initiator": 1, "thread": 2})
        for first, last, failures in ((0, 3, [(1, "no")]), (3, 4, []), (4, 4, []))
    ]
    Recorder(environment).record(threads, name=PROCEDURE, payload_bytes=100)
    return environment


def test_a_batch_counts_like_requests_one_by_one():
    ours, theirs = environment_after().stats, environment_after(lambda **_: None).stats
    for mine, other in ((ours.total, theirs.total), (ours.get(PROCEDURE, METHOD), theirs.get(PROCEDURE, METHOD))):
        for field in ("num_requests", "num_failures", "total_response_time", "total_content_length", "fail_ratio"):
            assert getattr(mine, field) == getattr(other, field), field
        for field in ("min_response_time", "max_response_time", "median_response_time", "response_times"):
            assert getattr(mine, field) == getattr(other, field), field
        assert sum(mine.num_reqs_per_sec.values()) == sum(other.num_reqs_per_sec.values()) == 4
    assert len(ours.errors) == len(theirs.errors) == 1


def test_a_listener_gets_every_call():
    heard = []
    environment_after(lambda **request: heard.append(request))
    assert [request["response_time"] for request in heard] == [150.0, 250.0, 250.0, 98.0]
    assert {request["name"] for request in heard} == {PROCEDURE}
    assert [request["start_time"] for request in heard] == [5 + (1000 + place) / 1e9 for place in range(4)]
    assert [str(request["exception"] or "") for request in heard] == ["", "no", "", ""]
    assert isinstance(heard[1]["exception"], CallFailed)
    assert heard[0]["context"] == {"initiator": 1, "thread": 2}


@pytest.mark.parametrize(
    "latency_ns, shown_ms", [(1, 0.0), (12_345, 0.01), (123_456, 0.12), (1_234_567, 1.2), (123_456_789, 120.0)]
)
def test_short_latencies_keep_two_digits(latency_ns, shown_ms):
    assert many_two_digits_ms(np.array([latency_ns]))[0] == two_digits_ms(latency_ns / 1e6) == shown_ms
