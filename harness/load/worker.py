"""A Locust worker of a run: one test client computer, or a part of one, which drives one initiator.

`locustfile` attaches it to Locust's worker runner; the sweep's process sends it orders through the master.
"""

import contextlib
import os
import socket
import time
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import gevent

from harness.definitions.matrix import Cell, Visit
from harness.definitions.units import counted
from harness.files.records import calls_file
from harness.load import messages
from harness.load.locust_process import JOIN, LINE, REFUSE, Handlers, Introduction, carry_out, version
from harness.load.plan import GeneratorHealth
from harness.load.recorder import NewCalls, Recorder
from harness.load.seats import Seats
from harness.load.threads import CellRun, ClientThread, ThreadState, Turns
from harness.machine.clocks import utc_offset_ns
from harness.output.terminal import to_standard_error

# The sweep decides from the counts whether the rate is steady; latencies cost more and are less urgent.
COUNT_EVERY_S = 0.1
COUNTS_PER_COLLECTION = 5  # Locust's statistics and the rate
POLL_S = 0.002  # while the hub waits for its threads; nothing is being measured then
SEATS_TIMEOUT_S = 10.0
ERROR_TEXTS_MAX = 20  # distinct ones kept in a report; the rest count as "other errors"


def wait_until(condition: Callable[[], bool], *, timeout_s: float) -> bool:
    """Let the hub run until the condition holds; False if it does not in time."""
    deadline = time.monotonic() + timeout_s
    while not condition():
        if time.monotonic() > deadline:
            return False
        gevent.sleep(POLL_S)
    return True


class HealthMeter:
    """Measures one worker from its creation on."""

    def __init__(self, initiator: int, *, calls_without_pause: bool = True) -> None:
        self._initiator = initiator
        self._calls_without_pause = calls_without_pause
        self._started_ns = time.perf_counter_ns()
        self._processor_ns = time.process_time_ns()
        self._run_delay_before_ns = run_delay_ns()
        self._hub_lag_ns_max = 0

    def hub_woke(self, late_ns: int) -> None:
        self._hub_lag_ns_max = max(self._hub_lag_ns_max, late_ns)

    def read(self, threads: Sequence[ClientThread], *, until_ns: int) -> GeneratorHealth:
        """Health from the start until now; the last call of the threads returned at `until_ns`."""
        time_in_calls_ns = sum(thread.log.time_in_calls_ns() for thread in threads)
        calls = sum(thread.log.count for thread in threads)
        elapsed_ns = max(1, time.perf_counter_ns() - self._started_ns)
        calls_window_ns = max(1, until_ns - self._started_ns)
        return GeneratorHealth(
            initiator=self._initiator,
            processor_percent=100 * (time.process_time_ns() - self._processor_ns) / elapsed_ns,
            hub_lag_ms_max=self._hub_lag_ns_max / 1e6,
            time_in_calls=time_in_calls_ns / (calls_window_ns * max(1, len(threads))),
            run_delay_percent=self._run_delay_percent(elapsed_ns),
            calls_without_pause=self._calls_without_pause,
            round_trip_ms=min((thread.round_trip_ns for thread in threads), default=0) / 1e6,
            call_ms=time_in_calls_ns / max(1, calls) / 1e6,
        )

    def _run_delay_percent(self, elapsed_ns: int) -> float | None:
        delays_ns = run_delay_ns()
        waited_ns = sum(delay_ns - self._run_delay_before_ns.get(thread, 0) for thread, delay_ns in delays_ns.items())
        return 100 * waited_ns / (elapsed_ns * len(delays_ns)) if delays_ns else None


def run_delay_ns() -> dict[str, int]:
    """How long each thread of this process has been ready to run without a processor, from /proc; empty if unknown."""
    delays_ns = {}
    for path in Path("/proc/self/task").glob("*/schedstat"):
        with contextlib.suppress(OSError, ValueError, IndexError):  # a thread may end meanwhile
            delays_ns[path.parent.name] = int(path.read_text().split()[1])
    return delays_ns


class Worker:
    """Carries out the sweep's orders with this worker's threads."""

    def __init__(self, environment: Any, runner: Any) -> None:
        self._environment = environment
        self._runner = runner
        self._recorder = Recorder(environment)
        self._seats = environment.seats = Seats()  # where this worker's users find them
        self._order: messages.Prepare | None = None
        self._run: CellRun | None = None
        self._threads: list[ClientThread] = []
        self._meter: HealthMeter | None = None
        self._started_ns = 0
        self._collected: list[tuple[int, int]] = []  # calls and failures of each thread already in the statistics
        self._calls: bytes | memoryview = b""  # the file of the last cell's
        self._handlers: Handlers = {
            messages.Prepare: self.prepare,
            messages.Start: self.start,
            messages.Stop: self.stop,
            messages.Disconnect: self.disconnect,
            messages.Fetch: self.fetch,
            messages.ReadClock: lambda _: messages.ClockRead(time.time_ns()),
        }

    def join(self) -> None:
        """Introduce this worker to the master, which answers with orders or refuses it."""
        self._runner.register_message(LINE, self._on_line)
        self._runner.register_message(REFUSE, self._on_refusal)
        introduction = Introduction(version=version(), host=socket.gethostname(), process=os.getpid())
        self._runner.send_message(JOIN, introduction)
        gevent.spawn(self._report_for_ever)

    def _on_line(self, msg: Any, **_: Any) -> None:
        number, message = messages.decode(msg.data)
        carry_out(message, number, self._handlers, self._tell)

    def _on_refusal(self, msg: Any, **_: Any) -> None:
        to_standard_error(f"harness: {msg.data}")
        self._environment.process_exit_code = 2
        gevent.spawn(self._runner.quit)

    def _tell(self, message: messages.Message, number: int = 0) -> None:
        self._runner.send_message(LINE, messages.encode(message, number).decode())

    def prepare(self, order: messages.Prepare) -> messages.Done:
        seats, threads = self._seats, len(order.handles)
        if not wait_until(lambda: len(seats.threads) == threads, timeout_s=SEATS_TIMEOUT_S):
            raise RuntimeError(f"{len(seats.threads)} of {threads} users have started")
        if self._run is not None:
            self._run.stopping = True  # a cell that nobody stopped
        self._order = order
        self._meter = None
        share, schedule = order.share, order.open_loop
        starts_ns = schedule and schedule.starts_ns(share.initiator, order.block, number=share.number, of=share.of)
        run = self._run = CellRun(
            connection_string=order.connection_string,
            initiator=order.share.initiator,
            run=order.run,
            payload_bytes=order.payload_bytes,
            client=order.client,
            bodies=order.bodies,
            threads=threads,
            turns=Turns(starts_ns) if starts_ns else None,
        )
        self._threads = seats.threads
        numbers = order.share.threads(Cell.parse(order.cell).threads)
        for thread, number, handle in zip(self._threads, numbers, order.handles, strict=True):
            thread.prepare(run, number, handle)
        ended_states = (ThreadState.READY, ThreadState.UNPREPARED)
        wait_until(lambda: all(thread.state in ended_states for thread in self._threads), timeout_s=order.timeout_s)
        for thread in self._threads:
            if thread.state is ThreadState.UNPREPARED:
                raise RuntimeError(f"thread {thread.number}: {thread.reason}")
            if thread.state is not ThreadState.READY:
                seats.replace(thread)
                raise RuntimeError(f"thread {thread.number} was not connected after {order.timeout_s:g} s")
        self._environment.stats.clear_all()
        self._collected = [(0, 0)] * len(self._threads)
        return messages.Done()

    def start(self, order: messages.Start) -> messages.Done:
        assert self._run is not None and self._order is not None
        turns = self._run.turns
        no_pause = turns is None and not self._run.client.think_time
        self._meter = HealthMeter(self._order.share.initiator, calls_without_pause=no_pause)
        self._run.clock_offset_ns = utc_offset_ns() - order.clock_ahead_ns
        self._started_ns = time.perf_counter_ns()
        if turns is not None:
            turns.began_ns = self._started_ns
        for thread in self._threads:
            thread.start()
        return messages.Done()

    def stop(self, order: messages.Stop) -> messages.Stopped:
        run, meter, cell = self._run, self._meter, self._order
        if run is None or meter is None or cell is None:
            raise RuntimeError("no cell has started")
        run.stopping = True
        wait_until(lambda: not self._any(ThreadState.RUNNING), timeout_s=order.timeout_s)
        for thread in [thread for thread in self._threads if thread.state is ThreadState.RUNNING]:
            self._seats.replace(thread)
        stopped_ns = self._last_return_ns()
        self._collect()
        health = meter.read(self._threads, until_ns=stopped_ns)
        self._meter = None
        self._calls = gevent.get_hub().threadpool.apply(self._calls_file)
        errors = Counter(text for thread in self._threads for _, text in thread.log.failures)
        commonest = errors.most_common(ERROR_TEXTS_MAX)
        if rest := errors.total() - sum(count for _, count in commonest):
            commonest.append(("other errors", rest))
        return messages.Stopped(
            self._started_ns + run.clock_offset_ns,
            stopped_ns + run.clock_offset_ns,
            [thread.log.count - len(thread.log.failures) for thread in self._threads],
            commonest,
            [
                f"initiator {cell.share.initiator}, thread {thread.number}: {why}"
                for thread in self._threads
                if (why := self._problem(thread, order.timeout_s))
            ],
            health,
            len(self._calls),
        )

    def disconnect(self, order: messages.Disconnect) -> messages.Done:
        if self._run is not None:
            self._run.stopping = True
        closed = {thread: thread.disconnect() for thread in self._seats.all_threads}
        if not wait_until(lambda: all(event.is_set() for event in closed.values()), timeout_s=order.timeout_s):
            stuck = [thread for thread, event in closed.items() if not event.is_set()]
            for thread in stuck:
                self._seats.replace(thread)
            raise RuntimeError(f"{counted(len(stuck), 'thread')} still in a call after {order.timeout_s:g} s")
        return messages.Done()

    def fetch(self, order: messages.Fetch) -> messages.Piece:
        return messages.Piece(bytes(self._calls[order.offset : order.offset + messages.PIECE_BYTES]))

    @staticmethod
    def _problem(thread: ClientThread, timeout_s: float) -> str:
        if thread.state is ThreadState.FINISHED:
            return ""
        if thread.state is ThreadState.RETIRED:
            return f"still in a call {timeout_s:g} s after the stop"
        return thread.reason or "its user was stopped in the middle of the cell"

    def _calls_file(self) -> bytes | memoryview:
        order = self._order
        assert order is not None and self._run is not None
        if not order.keeps_calls:
            return b""
        return calls_file(
            self._threads,
            visit=Visit(Cell.parse(order.cell), order.block),
            attempt=order.attempt,
            initiator=order.share.initiator,
            clock_offset_ns=self._run.clock_offset_ns,
        )

    def _any(self, state: ThreadState) -> bool:
        return any(thread.state is state for thread in self._threads)

    def _last_return_ns(self) -> int:
        returns = [
            int(log.intended_ns()[-1] + log.latencies_ns()[-1]) for log in (t.log for t in self._threads) if log.count
        ]
        return max(returns, default=time.perf_counter_ns())

    def _report_for_ever(self) -> None:
        meter: HealthMeter | None = None
        rounds, last_ns, last_calls = 0, 0, 0
        calls_per_s = 0.0
        while True:
            began_ns = time.perf_counter_ns()
            gevent.sleep(COUNT_EVERY_S)
            if self._meter is None:
                continue
            self._meter.hub_woke(time.perf_counter_ns() - began_ns - int(COUNT_EVERY_S * 1e9))
            if self._meter is not meter:
                meter, rounds, last_ns, last_calls = self._meter, 0, self._started_ns, 0
                calls_per_s = 0.0
            rounds += 1
            if rounds % COUNTS_PER_COLLECTION == 0:
                now_ns, calls = time.perf_counter_ns(), self._collect()
                calls_per_s = (calls - last_calls) / ((now_ns - last_ns) / 1e9)
                last_ns, last_calls = now_ns, calls
            self._tell(self._progress(calls_per_s))

    def _progress(self, calls_per_s: float) -> messages.WorkerProgress:
        assert self._run is not None
        failed = sum(len(thread.log.failures) for thread in self._threads)
        return messages.WorkerProgress(
            counted_at_ns=time.perf_counter_ns() + self._run.clock_offset_ns,
            sent=sum(thread.log.count for thread in self._threads) - failed,
            failed_calls=failed,
            running_threads=sum(thread.state is ThreadState.RUNNING for thread in self._threads),
            calls_per_s=calls_per_s,
        )

    def _collect(self) -> int:
        """Tell Locust of new calls; calls so far."""
        assert self._order is not None and self._run is not None
        order, new = self._order, []
        for place, thread in enumerate(self._threads):
            known_calls, known_failures = self._collected[place]
            count, failed = self._collected[place] = thread.log.count, len(thread.log.failures)
            context = {"initiator": order.share.initiator, "thread": thread.number}
            failures = thread.log.failures[known_failures:failed]
            new.append(NewCalls(thread.log, range(known_calls, count), failures, self._run.clock_offset_ns, context))
        self._recorder.record(new, name=order.client.procedure, payload_bytes=order.payload_bytes)
        return sum(calls for calls, _ in self._collected)
