"""Tells Locust of the calls of native threads, in batches: the listeners of `events.request`, or its statistics alone.

Where a listener or a plugin has subscribed, the event fires once for each call, as Locust defines it, and Locust's own
listener counts it. That costs 7 us a call, where a call costs the client 17 to 38. Where nobody else listens, the
statistics take the new calls of all threads at once, in the way in which Locust's master adds a worker's report:
0.06 us a call of 50 threads with 150 calls each, where a batch for each thread would cost 0.47.

Either way percentiles keep two significant digits: Locust rounds to whole milliseconds, longer than most calls.
"""

import math
import time
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from locust import stats
from locust.stats import StatsEntry

from harness.load.threads import CallLog

METHOD = "CALL"  # the type of the requests
LOCUSTS_OWN = "locust.runners"  # module of the listener that counts requests


class CallFailed(Exception):
    """The driver's error of a call, as `events.request` passes it on."""


def two_digits_ms(milliseconds: float) -> float:
    """Round to two significant digits, not finer than 10 us."""
    step = 10.0 ** max(math.floor(math.log10(max(milliseconds, 1e-6))) - 1, -2)
    return round(round(milliseconds / step) * step, 2)


def many_two_digits_ms(latencies_ns: npt.NDArray[np.int64]) -> npt.NDArray[np.float64]:
    """The same of nanoseconds."""
    latencies_ms = np.maximum(latencies_ns, 1) / 1e6
    step = 10.0 ** np.maximum(np.floor(np.log10(latencies_ms)) - 1, -2)
    rounded: npt.NDArray[np.float64] = np.round(np.round(latencies_ms / step) * step, 2)
    return rounded


class NewCalls(NamedTuple):
    """Calls of a thread that Locust does not know yet, and failures that are new: a commit that fails makes failures of
    earlier calls."""

    log: CallLog
    calls: range
    failures: Sequence[tuple[int, str]]
    clock_offset_ns: int
    context: Mapping[str, int]

    @property
    def latencies_ns(self) -> npt.NDArray[np.int64]:
        return self.log.latencies_ns(self.calls.start, self.calls.stop)


class Recorder:
    """Reports the calls of one Locust process."""

    def __init__(self, environment: Any) -> None:
        self._events = environment.events
        self._stats = environment.stats
        stats.bucket_response_time = two_digits_ms  # type: ignore[assignment]

    def record(self, threads: Sequence[NewCalls], *, name: str, payload_bytes: int) -> None:
        if self.has_listeners:
            for new in threads:
                self._fire(new, name, payload_bytes)
            return
        latencies_ns = [new.latencies_ns for new in threads if new.calls]
        if latencies_ns:
            self._add(name, payload_bytes, np.concatenate(latencies_ns))
        for _, text in (failure for new in threads for failure in new.failures):
            self._stats.log_error(METHOD, name, text)

    def _fire(self, new: NewCalls, name: str, payload_bytes: int) -> None:
        calls, texts = new.calls, dict(new.failures)
        starts_s = (new.log.intended_ns(calls.start, calls.stop) + new.clock_offset_ns) / 1e9
        for number, start_s, latency_ns in zip(calls, starts_s.tolist(), new.latencies_ns.tolist(), strict=True):
            text = texts.pop(number, "")
            self._events.request.fire(
                request_type=METHOD,
                name=name,
                response_time=latency_ns / 1e6,
                response_length=payload_bytes,
                exception=CallFailed(text) if text else None,
                context=new.context,
                start_time=start_s,
                url=None,
                response=None,
            )
        for text in texts.values():
            self._stats.log_error(METHOD, name, text)

    @property
    def has_listeners(self) -> bool:
        """Whether somebody beside Locust's own statistics listens to requests."""
        return any(getattr(handler, "__module__", None) != LOCUSTS_OWN for handler in self._events.request._handlers)

    def _add(self, name: str, payload_bytes: int, latencies_ns: npt.NDArray[np.int64]) -> None:
        count = len(latencies_ns)
        values, counts = np.unique(many_two_digits_ms(latencies_ns), return_counts=True)
        now_s = time.time()
        report: Any = {
            "name": name,
            "method": METHOD,
            "last_request_timestamp": now_s,
            "start_time": now_s,
            "num_requests": count,
            "num_none_requests": 0,
            "num_failures": 0,
            "total_response_time": float(latencies_ns.sum()) / 1e6,
            "max_response_time": float(latencies_ns.max()) / 1e6,
            "min_response_time": float(latencies_ns.min()) / 1e6,
            "total_content_length": payload_bytes * count,
            "response_times": dict(zip(values.tolist(), counts.tolist(), strict=True)),
            "num_reqs_per_sec": {int(now_s): count},
            "num_fail_per_sec": {},
        }
        batch = StatsEntry.unserialize(report, self._stats)
        for entry in (self._stats.total, self._stats.get(name, METHOD)):
            entry.extend(batch)
