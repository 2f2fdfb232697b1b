"""The numbers of Locust's web interface."""

import numpy as np
import pytest
from locust.stats import RequestStats

from harness.load.plan import SEND_MESSAGE
from harness.load.worker import METHOD, log_calls, two_digits_ms


def test_many_calls_at_once_count_like_locusts_own_one_by_one():
    latencies_ns = np.array([150_000_000, 250_000_000, 250_000_000, 98_000_000], dtype=np.int64)
    ours, theirs = RequestStats(), RequestStats()
    log_calls(ours, latencies_ns, procedure=SEND_MESSAGE.procedure, payload_bytes=100, failures=["no"])
    for latency_ns in latencies_ns:
        theirs.log_request(METHOD, SEND_MESSAGE.procedure, latency_ns / 1e6, 100)
    theirs.log_error(METHOD, SEND_MESSAGE.procedure, "no")
    for mine, other in (
        (ours.total, theirs.total),
        (ours.get(SEND_MESSAGE.procedure, METHOD), theirs.get(SEND_MESSAGE.procedure, METHOD)),
    ):
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
