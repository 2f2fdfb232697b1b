"""What it costs the client's loop that a workload says what it calls, against the same loop with a constant call.

The threads of a worker share one interpreter, so the processor time of a call bounds the client's rate: that is what is
compared, of the one thread that calls. Waiting for the server, or for a processor that others use, is not in it.

Both loops run in this process against the echo server, and take short turns: each pair of turns shared the machine's mood.
The interval is that of fifty medians of forty pairs each, so that a turn in which something else emptied the caches counts
no more than any other; each median has connections of its own, as one may be dearer than another wherever its memory
lies. It takes four minutes. Goal: at most 1 %.
"""

import math
import statistics
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import pyodbc

from harness.definitions import inference
from harness.load import threads
from harness.load.payload import STAMP, STAMP_OFFSET
from tests.benchmarks.client import kept_apart
from tests.load.echo_server import EchoServer, handles, running

PAYLOAD_BYTES = 100
GOAL = 0.99
POLL_S = 0.001
TIMEOUT_S = 60.0


@dataclass(frozen=True)
class Size:
    connections: int  # of each loop, one after another
    pairs: int  # of turns on each
    calls: int  # of a turn, at least


FULL = Size(connections=50, pairs=40, calls=1000)
SMALLEST = Size(connections=1, pairs=1, calls=10)


class Timed(threads.ClientThread):
    """A client thread that says how much processor time its loop took."""

    cpu_ns: int | None = None  # None: the loop has not ended

    def _send_until_stopping(self, run: threads.CellRun) -> None:
        began_ns = time.thread_time_ns()
        self._loop(run)
        self.cpu_ns = time.thread_time_ns() - began_ns

    def _loop(self, run: threads.CellRun) -> None:
        super()._send_until_stopping(run)


class ConstantCall(Timed):
    """A client thread as it was before there were workloads: it calls dbo.SendMessage with handle and body."""

    def _loop(self, run: threads.CellRun) -> None:
        log = self.log
        execute, (handle, body) = self._cursor.execute, self._arguments
        offset, clock, stamp, turns = run.clock_offset_ns, time.perf_counter_ns, STAMP.pack_into, run.turns
        failures_in_a_row = 0
        sequence = 0
        while not run.stopping and failures_in_a_row < threads.FAILURES_IN_A_ROW_MAX:
            chunk, first = divmod(sequence, threads.CALLS_PER_CHUNK)
            if chunk == len(log.starts):
                for chunks in (log.intended, log.starts, log.latencies):
                    chunks.append(threads._chunk())
            intendeds, starts, latencies = log.intended[chunk], log.starts[chunk], log.latencies[chunk]
            for index in range(first, threads.CALLS_PER_CHUNK):
                intended = clock() if turns is None else threads._turn(turns, run)
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
                    log.failures.append((sequence, threads.error_text(error)))
                else:
                    latencies[index] = clock() - intended
                intendeds[index], starts[index] = intended, started
                sequence += 1
                log.count = sequence
                if failures_in_a_row >= threads.FAILURES_IN_A_ROW_MAX:
                    break
        self.state = threads.ThreadState.FINISHED


def cpu_ns_a_call(thread: Timed, server: EchoServer, calls: int) -> float:
    """Processor time of the thread for each of its calls in one turn, in ns."""
    run = threads.CellRun(connection_string=server.connection_string(), initiator=1, run=1, payload_bytes=PAYLOAD_BYTES)
    thread.cpu_ns = None
    thread.prepare(run, 1, handles(1)[0])
    _wait(thread, lambda: thread.state is threads.ThreadState.READY)
    thread.start()
    _wait(thread, lambda: thread.log.count >= calls)
    run.stopping = True
    _wait(thread, lambda: thread.cpu_ns is not None)
    assert thread.cpu_ns is not None and thread.state is threads.ThreadState.FINISHED and not thread.log.failures
    return thread.cpu_ns / thread.log.count


def _wait(thread: threads.ClientThread, condition: Callable[[], bool]) -> None:
    deadline_s = time.monotonic() + TIMEOUT_S
    while not condition():
        assert time.monotonic() < deadline_s, (thread.state, thread.reason)
        time.sleep(POLL_S)


def log_ratios(size: Size) -> Iterator[float]:
    """Yield log ratios of rates, by the workload against the constant call: medians of the pairs of two connections."""
    with running() as server, kept_apart(server):
        for _ in range(size.connections):
            constant, by_workload = ConstantCall(), Timed()
            try:
                for thread in (constant, by_workload):  # not measured: connect
                    cpu_ns_a_call(thread, server, size.calls)
                yield statistics.median(_pairs(constant, by_workload, server, size))
            finally:
                for thread in (constant, by_workload):
                    thread.retire()


def _pairs(constant: Timed, by_workload: Timed, server: EchoServer, size: Size) -> Iterator[float]:
    for pair in range(size.pairs):
        costs = {
            thread: cpu_ns_a_call(thread, server, size.calls)
            for thread in ((constant, by_workload) if pair % 2 else (by_workload, constant))
        }
        yield math.log(costs[constant] / costs[by_workload])


def main(size: Size = FULL) -> None:
    interval = inference.interval_of_ratio(list(log_ratios(size)))
    known = (
        f"95 % interval {interval.low:.4f} to {interval.high:.4f}"
        if interval.is_known
        else inference.no_interval(interval.blocks)
    )
    pairs = f"connections: {size.connections}; pairs of turns on each: {size.pairs}; calls a turn: {size.calls:,}"
    what = "times the rate of a constant call, by the processor time of a call"
    print(f"workload layer: {interval.ratio:.4f} {what} ({known}; {pairs}; goal {GOAL})")


if __name__ == "__main__":
    main()
