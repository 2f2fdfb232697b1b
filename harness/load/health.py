"""Whether the load generator was the bottleneck: what a worker measures of itself while a cell runs."""

from __future__ import annotations

import time
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

# A worker's threads share one interpreter lock: near the work of one processor they wait for each other.
PROCESSOR_PERCENT_MAX = 90.0
# In a closed loop without think time a thread only writes two numbers outside a call. A smaller share of time in calls
# means that something else delayed the threads.
TIME_IN_CALLS_MIN = 0.8
# The hub sends heartbeats: Locust counts a worker as missing after three seconds.
HUB_LAG_MS_MAX = 1000.0


@dataclass(frozen=True, slots=True)
class GeneratorHealth:
    """One worker's own state over a cell."""

    initiator: int
    processor_percent: float  # of one processor, user and kernel
    hub_lag_ms_max: float  # how late the hub woke from a short sleep
    # Little's law: calls/s × mean latency is the number of threads that are in a call; here as a share of the threads.
    time_in_calls: float
    run_delay_percent: float  # share of the threads' time spent ready to run but without a processor

    def complaints(self) -> list[str]:
        """Reasons to doubt this cell's numbers."""
        found = []
        if self.processor_percent > PROCESSOR_PERCENT_MAX:
            found.append(
                f"worker {self.initiator} used {self.processor_percent:.0f} % of a processor: it is the bottleneck"
            )
        if self.time_in_calls < TIME_IN_CALLS_MIN:
            found.append(
                f"worker {self.initiator}: its threads were in calls only {self.time_in_calls:.0%} of the time"
            )
        if self.hub_lag_ms_max > HUB_LAG_MS_MAX:
            found.append(f"worker {self.initiator}: its event loop was {self.hub_lag_ms_max:.0f} ms late")
        return found


def run_delay_ns(thread_ids: Iterable[int]) -> int:
    """Time that these threads of this process have waited for a processor (Documentation/scheduler/sched-stats.rst)."""
    total = 0
    for thread_id in thread_ids:
        try:
            total += int(Path(f"/proc/self/task/{thread_id}/schedstat").read_text().split()[1])
        except (OSError, IndexError):
            continue  # the thread has ended, or the kernel keeps no such statistics
    return total


class HealthMeter:
    """Measures one worker from its creation on."""

    def __init__(self, initiator: int, thread_ids: Iterable[int]) -> None:
        self._initiator = initiator
        self._thread_ids = list(thread_ids)
        self._started_ns = time.perf_counter_ns()
        self._processor_ns = time.process_time_ns()
        self._run_delay_ns = run_delay_ns(self._thread_ids)
        self._hub_lag_ns_max = 0

    def hub_woke(self, late_ns: int) -> None:
        self._hub_lag_ns_max = max(self._hub_lag_ns_max, late_ns)

    def read(self, time_in_calls_ns: int, *, until_ns: int | None = None) -> GeneratorHealth:
        """Health from the start until now; `time_in_calls_ns` is the sum of all latencies until `until_ns`."""
        elapsed_ns = max(1, time.perf_counter_ns() - self._started_ns)
        calls_window_ns = max(1, (until_ns or time.perf_counter_ns()) - self._started_ns)
        threads = max(1, len(self._thread_ids))
        delay_ns = run_delay_ns(self._thread_ids) - self._run_delay_ns
        return GeneratorHealth(
            initiator=self._initiator,
            processor_percent=100 * (time.process_time_ns() - self._processor_ns) / elapsed_ns,
            hub_lag_ms_max=self._hub_lag_ns_max / 1e6,
            time_in_calls=time_in_calls_ns / (calls_window_ns * threads),
            run_delay_percent=100 * max(0, delay_ns) / (elapsed_ns * threads),
        )
