"""Locust's statistics of many calls at once, for its web interface, not for results.

`events.request.fire` costs 2.6 us per call, and Locust's histogram rounds to whole milliseconds, which is longer than
most calls. Here half a second of calls is one update that keeps two significant digits.
"""

from __future__ import annotations

import time
from typing import Any

import numpy as np
import numpy.typing as npt

METHOD = "CALL"


def two_digits_ms(latencies_ns: npt.NDArray[np.int64]) -> npt.NDArray[np.float64]:
    """Milliseconds rounded to two significant digits, not finer than 10 us."""
    latencies_ms = np.maximum(latencies_ns, 1) / 1e6
    step = 10.0 ** np.maximum(np.floor(np.log10(latencies_ms)) - 1, -2)
    rounded: npt.NDArray[np.float64] = np.round(np.round(latencies_ms / step) * step, 2)
    return rounded


def log_calls(
    stats: Any, latencies_ns: npt.NDArray[np.int64], *, procedure: str, payload_bytes: int, failures: list[str]
) -> None:
    """Adds calls (failed ones among them) to Locust's `RequestStats`."""
    for text in failures:
        stats.log_error(METHOD, procedure, text)
    if not len(latencies_ns):
        return
    values, counts = np.unique(two_digits_ms(latencies_ns), return_counts=True)
    histogram = list(zip(values.tolist(), counts.tolist(), strict=True))
    now = time.time()
    for entry in (stats.total, stats.get(procedure, METHOD)):
        entry.num_requests += len(latencies_ns)
        entry.num_reqs_per_sec[int(now)] += len(latencies_ns)
        entry.last_request_timestamp = now
        entry.total_response_time += float(latencies_ns.sum()) / 1e6
        entry.total_content_length += payload_bytes * len(latencies_ns)
        shortest, longest = float(latencies_ns.min()) / 1e6, float(latencies_ns.max()) / 1e6
        known = entry.min_response_time
        entry.min_response_time = shortest if known is None else min(known, shortest)
        entry.max_response_time = max(entry.max_response_time, longest)
        for value, count in histogram:
            entry.response_times[value] += count
