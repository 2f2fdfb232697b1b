"""A Locust worker process: one test client computer, driving one initiator.

`LOCUST_SKIP_MONKEY_PATCH=1 python -m harness.load.worker --initiator K`, started by `clients`. Its stdin brings lines
of JSON, first `{"master_port": ...}`, then a `{"connection": number, "connection_string": ...}` whenever that changes;
its end ends the process.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

import gevent
from locust import runners
from locust.env import Environment
from locust.log import setup_logging

from harness.load import statistics
from harness.load.health import HealthMeter
from harness.load.messages import Answerer
from harness.load.recorder import write_calls
from harness.load.threads import CellRun, ClientThread, ThreadState, clock_offset_ns
from harness.load.users import Clients, TestClient
from harness.matrix import Cell

# The sweep decides from the counts whether the rate is steady; latencies and health cost more and are less urgent.
COUNT_EVERY_S = 0.1
COUNTS_PER_COLLECTION = 5  # Locust's statistics, rate and health
HUB_LAG_SLEEP_S = 0.05
POLL_S = 0.002  # while the hub waits for its threads; nothing is being measured then
SEATS_TIMEOUT_S = 10.0
START_TIMEOUT_S = 60.0  # for the lab to say where the master listens
ERROR_TEXTS_MAX = 20  # distinct ones kept in a report; the rest count as "other errors"


class Mailbox:
    """Lines of JSON on stdin, read by a native thread."""

    def __init__(self) -> None:
        self.master_port: int | None = None
        self.connection_string = ""
        self.connection = 0
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self) -> None:
        for line in sys.stdin:
            message = json.loads(line)
            if "master_port" in message:
                self.master_port = message["master_port"]
            else:
                self.connection_string = message["connection_string"]
                self.connection = message["connection"]
        os._exit(0)  # the parent has gone


def wait_until(condition: Callable[[], bool], *, timeout_s: float) -> bool:
    """Lets the hub run until the condition holds; False if it does not in time."""
    deadline = time.monotonic() + timeout_s
    while not condition():
        if time.monotonic() > deadline:
            return False
        gevent.sleep(POLL_S)
    return True


class CellDriver:
    """Answers the master's questions about cells with this worker's threads."""

    def __init__(self, environment: Any, initiator: int, mailbox: Mailbox) -> None:
        self._environment = environment
        self._initiator = initiator
        self._mailbox = mailbox
        self._plan: dict[str, Any] = {}
        self._run: CellRun | None = None
        self._threads: list[ClientThread] = []
        self._meter: HealthMeter | None = None
        self._started_ns = 0
        self._collected: list[tuple[int, int]] = []  # calls and failures of each thread already in the statistics
        self._in_calls_ns = 0  # sum of their latencies
        answerer = Answerer(environment.runner)
        answerer.on("cell_prepare", self._prepare)
        answerer.on("cell_start", self._start)
        answerer.on("cell_stop", self._stop)
        gevent.spawn(self._report_for_ever)
        gevent.spawn(self._watch_the_hub)

    def _prepare(self, plan: dict[str, Any]) -> dict[str, Any]:
        clients: Clients = self._environment.clients
        if not wait_until(lambda: self._mailbox.connection >= plan["connection"], timeout_s=SEATS_TIMEOUT_S):
            raise RuntimeError("the connection string did not arrive")
        if not wait_until(lambda: len(clients.threads) == plan["threads"], timeout_s=SEATS_TIMEOUT_S):
            raise RuntimeError(f"{len(clients.threads)} users are there instead of {plan['threads']}")
        if self._run is not None:
            self._run.stopping = True  # a cell that nobody stopped
        self._plan = plan
        self._meter = None
        run = self._run = CellRun(
            connection_string=self._mailbox.connection_string,
            initiator=self._initiator,
            run=plan["run"],
            payload_bytes=plan["payload_bytes"],
            procedure=plan["procedure"],
        )
        self._threads = clients.threads
        for number, (thread, handle) in enumerate(zip(self._threads, plan["handles"], strict=True), start=1):
            thread.prepare(run, number, handle)
        done = (ThreadState.READY, ThreadState.UNPREPARED)
        wait_until(lambda: all(thread.state in done for thread in self._threads), timeout_s=plan["timeout_s"])
        for thread in self._threads:
            if thread.state is ThreadState.UNPREPARED:
                raise RuntimeError(f"thread {thread.number}: {thread.reason}")
            if thread.state is not ThreadState.READY:
                clients.replace(thread)
                raise RuntimeError(f"thread {thread.number} was not connected after {plan['timeout_s']:g} s")
        self._environment.stats.clear_all()
        self._collected = [(0, 0)] * len(self._threads)
        self._in_calls_ns = 0
        return {}

    def _start(self, _: dict[str, Any]) -> dict[str, Any]:
        assert self._run is not None
        self._meter = HealthMeter(self._initiator, [thread.native_id for thread in self._threads])
        self._run.clock_offset_ns = clock_offset_ns()
        self._started_ns = time.perf_counter_ns()
        for thread in self._threads:
            thread.start()
        return {"started_at_ns": self._started_ns + self._run.clock_offset_ns}

    def _stop(self, question: dict[str, Any]) -> dict[str, Any]:
        run, meter = self._run, self._meter
        if run is None or meter is None:
            raise RuntimeError("no cell has been started")
        run.stopping = True
        wait_until(lambda: not self._any(ThreadState.RUNNING), timeout_s=question["timeout_s"])
        stuck = [thread for thread in self._threads if thread.state is ThreadState.RUNNING]
        for thread in stuck:
            self._environment.clients.replace(thread)
        stopped_ns = self._last_return_ns()
        self._collect()
        health = meter.read(self._in_calls_ns, until_ns=stopped_ns)
        self._meter = None
        gevent.get_hub().threadpool.apply(self._write)
        errors = Counter(text for thread in self._threads for _, text in thread.log.failures)
        kept = errors.most_common(ERROR_TEXTS_MAX)
        if rest := errors.total() - sum(count for _, count in kept):
            kept.append(("other errors", rest))
        return {
            "started_at_ns": self._started_ns + run.clock_offset_ns,
            "stopped_at_ns": stopped_ns + run.clock_offset_ns,
            "sent": [thread.log.count - len(thread.log.failures) for thread in self._threads],
            "errors": kept,
            "problems": [
                f"initiator {self._initiator}, thread {thread.number}: {why}"
                for thread in self._threads
                if (why := self._problem(thread, question["timeout_s"]))
            ],
            "health": asdict(health),
        }

    @staticmethod
    def _problem(thread: ClientThread, timeout_s: float) -> str:
        if thread.state is ThreadState.FINISHED:
            return ""
        if thread.state is ThreadState.RETIRED:
            return f"still in a call {timeout_s:g} s after the stop"
        return thread.reason or "its user was stopped in the middle of the cell"

    def _write(self) -> None:
        if not self._plan["results"]:
            return  # the web interface keeps no records
        assert self._run is not None
        write_calls(
            self._threads,
            results=Path(self._plan["results"]),
            cell=Cell.parse(self._plan["cell"]),
            attempt=self._plan["attempt"],
            initiator=self._initiator,
            clock_offset_ns=self._run.clock_offset_ns,
        )

    def _any(self, state: ThreadState) -> bool:
        return any(thread.state is state for thread in self._threads)

    def _last_return_ns(self) -> int:
        returns = [
            int(log.starts_ns()[-1] + log.latencies_ns()[-1]) for log in (t.log for t in self._threads) if log.count
        ]
        return max(returns, default=time.perf_counter_ns())

    def _report_for_ever(self) -> None:
        meter: HealthMeter | None = None
        rounds, last_ns, last_calls = 0, 0, 0
        slow: dict[str, Any] = {}
        while True:
            gevent.sleep(COUNT_EVERY_S)
            if self._meter is None:
                continue
            if self._meter is not meter:
                meter, rounds, last_ns, last_calls = self._meter, 0, self._started_ns, 0
                slow = {"calls_per_s": 0.0, "health": None}
            rounds += 1
            if rounds % COUNTS_PER_COLLECTION == 0:
                now_ns, calls = time.perf_counter_ns(), self._collect()
                slow = {
                    "calls_per_s": (calls - last_calls) / ((now_ns - last_ns) / 1e9),
                    "health": asdict(meter.read(self._in_calls_ns)),
                }
                last_ns, last_calls = now_ns, calls
            failed = sum(len(thread.log.failures) for thread in self._threads)
            report = {
                "plan": self._plan["plan"],
                "initiator": self._initiator,
                "counted_at_ns": time.time_ns(),
                "sent": sum(thread.log.count for thread in self._threads) - failed,
                "failed_calls": failed,
                "running_threads": sum(thread.state is ThreadState.RUNNING for thread in self._threads),
                **slow,
            }
            self._environment.runner.send_message("cell_progress", report)

    def _collect(self) -> int:
        """Brings what is new into Locust's statistics; calls so far."""
        for place, thread in enumerate(self._threads):
            known_calls, known_failures = self._collected[place]
            count, failed = thread.log.count, len(thread.log.failures)
            latencies_ns = thread.log.latencies_ns(known_calls, count)
            self._in_calls_ns += int(latencies_ns.sum())
            statistics.log_calls(
                self._environment.stats,
                latencies_ns,
                procedure=self._plan["procedure"],
                payload_bytes=self._plan["payload_bytes"],
                failures=[text for _, text in thread.log.failures[known_failures:failed]],
            )
            self._collected[place] = (count, failed)
        return sum(calls for calls, _ in self._collected)

    def _watch_the_hub(self) -> None:
        while True:
            before = time.perf_counter_ns()
            gevent.sleep(HUB_LAG_SLEEP_S)
            if self._meter is not None:
                self._meter.hub_woke(time.perf_counter_ns() - before - int(HUB_LAG_SLEEP_S * 1e9))


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--initiator", type=int, required=True)
    parser.add_argument("--report-interval", type=float, default=runners.WORKER_REPORT_INTERVAL)
    options = parser.parse_args()
    setup_logging("WARNING")  # type: ignore[no-untyped-call]
    runners.WORKER_REPORT_INTERVAL = options.report_interval
    mailbox = Mailbox()
    wait_until(lambda: mailbox.master_port is not None, timeout_s=START_TIMEOUT_S)
    if mailbox.master_port is None:
        sys.exit(
            f"the master's port did not arrive within {START_TIMEOUT_S} s: stop other load on this machine, try again"
        )
    environment = Environment(user_classes=[TestClient])
    environment.clients = Clients()  # type: ignore[attr-defined]  # the users of this worker find it there
    runner = environment.create_worker_runner("127.0.0.1", mailbox.master_port)
    CellDriver(environment, options.initiator, mailbox)
    runner.send_message("client_computer", {"initiator": options.initiator})
    runner.greenlet.join()
    os._exit(0)  # threads left behind in a call do not hold the process


if __name__ == "__main__":
    main()
