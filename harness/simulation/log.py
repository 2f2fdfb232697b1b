"""The device that a simulated transaction log is on.

Group commit is the store's: it has one flush under way and gathers the commits that come meanwhile. The device says
how long a flush takes: it goes out in writes of at most `bytes_per_flush`, `flushes_in_flight` of them together, each
such round takes one latency, and all bytes go through at `bytes_per_s`.
"""

from __future__ import annotations

import struct

from harness.embedded.runtime.tasks import SECOND, Delay, Entropy, Waiting
from harness.simulation.parameters import Log

_MICROSECOND = 1_000
_DRAWS = 256  # random numbers are made ahead, so many at a time


class LogDevice:
    """`flush` is what `MemoryStore` takes. `slowdown` stretches every flush: 1.0 unless a fault, or a ramp, says so."""

    def __init__(self, entropy: Entropy, parameters: Log) -> None:
        self.slowdown = 1.0
        self.bytes_written = 0
        self.writes = 0
        self._entropy = entropy
        self._parameters = parameters
        self._latency_ns = parameters.flush_latency_us * _MICROSECOND
        self._draws: list[float] = []

    def flush(self, size_bytes: int) -> Waiting[None]:
        yield Delay(self.duration_ns(size_bytes))

    def duration_ns(self, size_bytes: int) -> int:
        """Of the next flush, of so many bytes; each asking draws a latency for each round of writes."""
        parameters = self._parameters
        writes = max(1, -(-size_bytes // parameters.bytes_per_flush))
        rounds = -(-writes // parameters.flushes_in_flight)
        self.writes += writes
        self.bytes_written += size_bytes
        latency_ns = sum(self._draw_latency_ns() for _ in range(rounds))
        return int((latency_ns + size_bytes * SECOND / parameters.bytes_per_s) * self.slowdown)

    def _draw_latency_ns(self) -> float:
        if not self._draws:
            words = struct.unpack(f"<{_DRAWS}I", self._entropy.random_bytes(4 * _DRAWS))
            self._draws = [word / 2**31 - 1 for word in words]  # from -1 to 1
        return self._latency_ns * (1 + self._parameters.flush_latency_spread * self._draws.pop())
