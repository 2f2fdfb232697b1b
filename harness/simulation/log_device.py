"""The device of a simulated transaction log.

The store does group commit: commits gather while as many flushes are in flight as allowed. The device says how long a
flush takes. A flush is cut into writes of at most `bytes_per_flush`, of which `writes_in_flight` may be under way for
all flushes together. Their bytes pass one after another through a channel of `bytes_per_s`. A write ends one latency
after its last byte, and never before the previous write, because a log is written in order.
"""

from __future__ import annotations

import struct
from collections import deque

from harness.embedded.runtime.tasks import SECOND, Clock, Entropy
from harness.simulation.parameters import LogParameters

_MICROSECOND = 1_000
_DRAWS = 256  # random numbers drawn ahead at a time


class LogDevice:
    """A device with latency and bandwidth; `slowdown` stretches every write, for faults and the launch of readers."""

    def __init__(self, clock: Clock, entropy: Entropy, parameters: LogParameters) -> None:
        self.slowdown = 1.0
        self._clock = clock
        self.reseed(entropy)
        count = parameters.writes_in_flight
        self._done_at_ns = deque([0] * count, maxlen=count)  # ends of the last writes, the oldest first
        self._channel_free_at_ns = 0
        self.change_costs(parameters)

    def change_costs(self, parameters: LogParameters) -> None:
        self._parameters = parameters
        self._latency_ns = parameters.flush_latency_us * _MICROSECOND

    def reseed(self, entropy: Entropy) -> None:
        """Draw from other entropy from now on; discard what was drawn ahead."""
        self._entropy = entropy
        self._draws: list[float] = []

    def duration_ns(self, size_bytes: int) -> int:
        """The duration of a flush that begins now; every call draws a latency for each write."""
        now_ns = self._clock.now_ns
        left_bytes = size_bytes
        while True:
            piece_bytes = min(left_bytes, self._parameters.bytes_per_flush)
            self._write(now_ns, piece_bytes)
            left_bytes -= piece_bytes
            if left_bytes <= 0:
                return self._done_at_ns[-1] - now_ns

    def _write(self, now_ns: int, size_bytes: int) -> None:
        done_at_ns = self._done_at_ns
        transfer_ns = int(size_bytes * SECOND / self._parameters.bytes_per_s * self.slowdown)
        sent_ns = max(now_ns, done_at_ns[0], self._channel_free_at_ns) + transfer_ns
        self._channel_free_at_ns = sent_ns
        done_at_ns.append(max(sent_ns + int(self._draw_latency_ns() * self.slowdown), done_at_ns[-1]))

    def _draw_latency_ns(self) -> float:
        if not self._draws:
            words = struct.unpack(f"<{_DRAWS}I", self._entropy.random_bytes(4 * _DRAWS))
            self._draws = [word / 2**31 - 1 for word in words]  # from -1 to 1
        return self._latency_ns * (1 + self._parameters.flush_latency_spread * self._draws.pop())
