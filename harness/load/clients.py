"""The test clients as the sweep sees them: a plain, blocking interface over the Locust processes."""

from __future__ import annotations

import json
import sys
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from harness.lab.processes import Child, stop_all
from harness.load.health import GeneratorHealth
from harness.load.plan import CellPlan, LoadError, LoadReport, Progress

PREPARE_TIMEOUT_S = 60.0  # fifty logins on a busy machine
STOP_TIMEOUT_S = 10.0  # for the last calls to return
MARGIN_S = 60.0  # beyond the children's own time limits: they should have answered long before
POLL_S = 0.02


@dataclass(frozen=True, slots=True)
class WebPage:
    """Asks the master to serve Locust's web interface on this port of 127.0.0.1."""

    port: int
    lab: str  # what the page says it loads


class Clients:
    """Locust's master and one worker per initiator, alive from the first `prepare` to `close`.

    Start and use it from one thread, the main one: the kernel ties the children to the thread that starts them.
    """

    def __init__(
        self, *, log_directory: Path, run: str, stop_timeout_s: float = STOP_TIMEOUT_S, web: WebPage | None = None
    ) -> None:
        self._log_directory = log_directory
        self._run = run
        self._stop_timeout_s = stop_timeout_s
        self._web = web
        self._master: Child | None = None
        self._workers: dict[int, Child] = {}
        self._connections: dict[int, tuple[int, str]] = {}  # what each worker was told last
        self._news = threading.Condition()
        self._answers: dict[int, dict[str, Any]] = {}
        self._events: list[dict[str, Any]] = []
        self._progress: dict[int, dict[str, Any]] = {}
        self._master_port: int | None = None
        self._orders = 0
        self._plans = 0
        self._plan: CellPlan | None = None

    def prepare(self, plan: CellPlan) -> None:
        """Every thread of the cell is connected, holds its dialog and waits at the barrier; LoadError otherwise.

        Builds the processes anew where one has died.
        """
        if self._death() is not None:
            self.close()
        self._plan = plan
        self._plans += 1
        initiators = plan.cell.initiators
        self.launch(initiators)
        connections = self.connect(plan.connection_strings)
        with self._news:
            self._progress.clear()
        self._order(
            "prepare",
            plan=self._plans,
            cell=plan.cell.id,
            attempt=plan.attempt,
            run=plan.run,
            initiators=initiators,
            threads=plan.cell.threads,
            payload_bytes=plan.cell.payload_bytes,
            results=str(plan.results.absolute()),
            procedure=plan.procedure,
            connections=connections,
            handles=[list(handles[: plan.cell.threads]) for handles in plan.handles],
            timeout_s=PREPARE_TIMEOUT_S,
        )

    def start(self) -> None:
        """Opens the barrier."""
        self._order("start", timeout_s=0.0)

    def progress(self) -> Progress:
        """The newest reports; all zero before the first ones. LoadError if a process has died."""
        self._require_alive()
        with self._news:
            reports = [self._progress[number] for number in sorted(self._progress)]
        return Progress(
            counted_at_ns=sum(report["counted_at_ns"] for report in reports) // max(1, len(reports)),
            sent=sum(report["sent"] for report in reports),
            calls_per_s=sum(report["calls_per_s"] for report in reports),
            failed_calls=sum(report["failed_calls"] for report in reports),
            running_threads=sum(report["running_threads"] for report in reports),
            health=[GeneratorHealth(**report["health"]) for report in reports if report["health"]],
        )

    def stop(self) -> LoadReport:
        """Waits for every thread's last call and for the workers' `calls` files."""
        assert self._plan is not None, "stop before prepare"
        answers = self._order("stop", timeout_s=self._stop_timeout_s)["answers"]
        errors: dict[str, int] = {}
        for answer in answers:
            for text, count in answer["errors"]:
                errors[text] = errors.get(text, 0) + count
        return LoadReport(
            started_at_ns=min(answer["started_at_ns"] for answer in answers),
            stopped_at_ns=max(answer["stopped_at_ns"] for answer in answers),
            sent={
                (initiator, thread): sent
                for initiator, answer in enumerate(answers, start=1)
                for thread, sent in enumerate(answer["sent"], start=1)
            },
            failed_calls=sum(errors.values()),
            errors=sorted(errors.items(), key=lambda item: (-item[1], item[0])),
            problems=[problem for answer in answers for problem in answer["problems"]],
            health=[GeneratorHealth(**answer["health"]) for answer in answers],
        )

    def close(self) -> None:
        """Ends all processes. `prepare` may be called again."""
        children = [*self._workers.values(), *([self._master] if self._master else [])]
        self._workers, self._master, self._master_port = {}, None, None
        self._connections.clear()
        stop_all(children)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    @property
    def processes(self) -> dict[str, int]:
        """Process ids by name, for observers."""
        named = {f"locust-worker-{number}": child.pid for number, child in self._workers.items()}
        return named | ({"locust-master": self._master.pid} if self._master else {})

    def launch(self, initiators: int) -> None:
        """The master and the first `initiators` workers run. The interpreters load side by side."""
        started = [number for number in range(1, initiators + 1) if number not in self._workers]
        if self._master is None:
            options = () if self._web is None else ("--web-port", str(self._web.port), "--lab", self._web.lab)
            self._master = self._child("locust-master", "harness.load.master", *options, pipe_stdout=True)
            threading.Thread(target=self._listen, args=(self._master,), daemon=True).start()
        for number in started:
            self._workers[number] = self._child(
                f"locust-worker-{number}",
                "harness.load.worker",
                *("--initiator", str(number)),
                *(() if self._web is None else ("--report-interval", "1")),
            )
        if started:
            self._wait_for(lambda: self._master_port is not None, MARGIN_S, "the Locust master did not start")
            for number in started:
                self._tell(self._workers[number], {"master_port": self._master_port})

    def _child(self, name: str, module: str, *arguments: str, pipe_stdout: bool = False) -> Child:
        return Child(
            name,
            [sys.executable, "-m", module, *arguments],
            log=self._log_directory / f"{name}.log",
            # The worker's native threads need the real locks; the master's web server needs gevent's.
            environment={"LOCUST_SKIP_MONKEY_PATCH": "1" if module.endswith("worker") else ""},
            pipe_stdout=pipe_stdout,
        )

    def connect(self, connection_strings: Sequence[str]) -> list[int]:
        """Tells the workers, in the initiators' order, where to connect; the numbers under which they know it."""
        return [self._connect(number, string) for number, string in enumerate(connection_strings, start=1)]

    def next_event(self, timeout_s: float) -> dict[str, Any] | None:
        """What the master's web interface asks for, or None; LoadError if the master has died."""
        assert self._master is not None
        if death := self._master.death():
            raise LoadError(death)
        with self._news:
            self._news.wait_for(lambda: bool(self._events), timeout_s)
            return self._events.pop(0) if self._events else None

    def bury(self) -> dict[int, str]:
        """Forgets the workers that have died, and says how, by initiator; `launch` starts them anew."""
        deaths = {number: death for number, child in self._workers.items() if (death := child.death())}
        for number in deaths:
            self._workers.pop(number).stop()
            self._connections.pop(number, None)
        return deaths

    def reply(self, **answer: Any) -> None:
        """Answers the master's web interface."""
        self._order("reply", timeout_s=0.0, **answer)

    def _connect(self, number: int, connection_string: str) -> int:
        """Tells a worker its connection string if it is a new one; the number under which the worker knows it."""
        known, current = self._connections.get(number, (0, ""))
        if current != connection_string:
            known += 1
            self._tell(self._workers[number], {"connection": known, "connection_string": str(connection_string)})
            self._connections[number] = (known, connection_string)
        return known

    def _order(self, action: str, *, timeout_s: float, **details: Any) -> dict[str, Any]:
        self._require_alive()
        if self._master is None:
            raise LoadError("the Locust processes are not running")
        self._orders += 1
        number = self._orders
        self._tell(self._master, {"id": number, "do": action, "timeout_s": timeout_s, **details})
        self._wait_for(lambda: number in self._answers, timeout_s + MARGIN_S, f"the Locust master did not {action}")
        with self._news:
            answer = self._answers.pop(number)
        if "error" in answer:
            self._require_alive()  # its death explains the error
            raise LoadError(f"{action}: {answer['error']}")
        return answer

    @staticmethod
    def _tell(child: Child, message: dict[str, Any]) -> None:
        try:
            child.stdin.write(json.dumps(message).encode() + b"\n")
            child.stdin.flush()
        except OSError:
            raise LoadError(child.death() or f"{child.name} does not read its input") from None

    def _wait_for(self, condition: Any, timeout_s: float, complaint: str) -> None:
        deadline = time.monotonic() + timeout_s
        with self._news:
            while not condition():
                self._news.wait(POLL_S)
                self._require_alive()
                if time.monotonic() > deadline:
                    raise LoadError(f"{complaint} within {timeout_s:g} s")

    def _death(self) -> str | None:
        for child in [self._master, *self._workers.values()]:
            if child is not None and (death := child.death()) is not None:
                return death
        return None

    def _require_alive(self) -> None:
        if death := self._death():
            raise LoadError(death)

    def _listen(self, master: Child) -> None:
        for line in master.stdout:
            message = json.loads(line)
            with self._news:
                if "id" in message:
                    self._answers[message["id"]] = message
                elif message["event"] == "listening":
                    self._master_port = message["port"]
                elif message["event"] == "scenario":
                    self._events.append(message)
                elif message["plan"] == self._plans:
                    self._progress[message["initiator"]] = message
                self._news.notify_all()
