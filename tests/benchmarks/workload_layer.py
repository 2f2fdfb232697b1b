"""What it costs the client's loop that a workload says what it calls, against the same loop with a constant call.

Both run in one thread of this process against the echo server, which has a processor of its own, and take turns: the
ratio and its interval are those of pairs that shared the machine's mood. Goal: at most 1 %.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterator
from dataclasses import dataclass

import pyodbc

from harness import inference
from harness.load.payload import STAMP, STAMP_OFFSET
from harness.load.threads import (
    CALLS_PER_CHUNK,
    FAILURES_IN_A_ROW_MAX,
    CellRun,
    ClientThread,
    ThreadState,
    _chunk,
    _turn,
    error_text,
)
from tests.benchmarks.client import kept_apart
from tests.load.echo_server import EchoServer, handles, running

PAYLOAD_BYTES = 100
GOAL = 0.99
POLL_S = 0.001
TIMEOUT_S = 60.0


@dataclass(frozen=True)
class Size:
    pairs: int
    seconds: float


FULL = Size(pairs=240, seconds=0.1)
SMALLEST = Size(pairs=1, seconds=0.05)


class ConstantCall(ClientThread):
    """A client thread as it was before there were workloads: it calls dbo.SendMessage with handle and body."""

    def _send_until_stopping(self, run: CellRun) -> None:
        log = self.log
        execute, (handle, body) = self._cursor.execute, self._arguments
        offset, clock, stamp, turns = run.clock_offset_ns, time.perf_counter_ns, STAMP.pack_into, run.turns
        failures_in_a_row = 0
        sequence = 0
        while not run.stopping and failures_in_a_row < FAILURES_IN_A_ROW_MAX:
            chunk, first = divmod(sequence, CALLS_PER_CHUNK)
            if chunk == len(log.starts):
                for chunks in (log.intended, log.starts, log.latencies):
                    chunks.append(_chunk())
            intendeds, starts, latencies = log.intended[chunk], log.starts[chunk], log.latencies[chunk]
            for index in range(first, CALLS_PER_CHUNK):
                intended = clock() if turns is None else _turn(turns, run)
                if run.stopping:
                    break
                started = intended if turns is None else clock()
                stamp(body, STAMP_OFFSET, sequence, intended + offset)
                try:
                    execute("{CALL dbo.SendMessage (?, ?)}", handle, body)
                except pyodbc.Error as error:
                    latencies[index] = clock() - intended
                    in_a_row = bool(log.failures) and log.failures[-1][0] == sequence - 1
                    failures_in_a_row = failures_in_a_row + 1 if in_a_row else 1
                    log.failures.append((sequence, error_text(error)))
                else:
                    latencies[index] = clock() - intended
                intendeds[index], starts[index] = intended, started
                sequence += 1
                log.count = sequence
                if failures_in_a_row >= FAILURES_IN_A_ROW_MAX:
                    break
        self.state = ThreadState.FINISHED


def calls_per_s(thread: ClientThread, server: EchoServer, seconds: float) -> float:
    """Calls per second of one turn, from the first call to the return of the last."""
    run = CellRun(connection_string=server.connection_string(), initiator=1, run=1, payload_bytes=PAYLOAD_BYTES)
    thread.prepare(run, 1, handles(1)[0])
    _wait(thread, ThreadState.READY)
    thread.start()
    time.sleep(seconds)
    run.stopping = True
    _wait(thread, ThreadState.FINISHED)
    starts, latencies = thread.log.starts_ns(), thread.log.latencies_ns()
    return len(starts) / float(starts[-1] + latencies[-1] - starts[0]) * 1e9


def _wait(thread: ClientThread, state: ThreadState) -> None:
    deadline_s = time.monotonic() + TIMEOUT_S
    while thread.state is not state:
        assert time.monotonic() < deadline_s, (thread.state, thread.reason)
        time.sleep(POLL_S)


def log_ratios(size: Size) -> Iterator[float]:
    """Yield a log ratio per pair: by the workload against the constant call."""
    constant, by_workload = ConstantCall(), ClientThread()
    try:
        with running() as server, kept_apart(server):
            for thread in (constant, by_workload):  # not measured: connect
                calls_per_s(thread, server, size.seconds)
            for pair in range(size.pairs):
                rates = {
                    thread: calls_per_s(thread, server, size.seconds)
                    for thread in ((constant, by_workload) if pair % 2 else (by_workload, constant))
                }
                yield math.log(rates[by_workload] / rates[constant])
    finally:
        for thread in (constant, by_workload):
            thread.retire()


def main(size: Size = FULL) -> None:
    interval = inference.interval_of_ratio(list(log_ratios(size)))
    known = (
        f"95 % interval {interval.low:.4f} to {interval.high:.4f}"
        if interval.is_known
        else inference.no_interval(interval.blocks)
    )
    pairs = f"{interval.blocks} pair{'s' * (interval.blocks != 1)} of {size.seconds:g} s each"
    print(f"workload layer: {interval.ratio:.4f} times the rate of a constant call ({known}; {pairs}; goal {GOAL})")


if __name__ == "__main__":
    main()
