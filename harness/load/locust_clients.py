"""The test clients as the sweep sees them: a plain, blocking interface over the Locust processes."""

from __future__ import annotations

import itertools
import re
import sys
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from harness.lab.processes import Child, stop_all
from harness.load import messages
from harness.load.messages import Answer, Failed, Message, WorkerLost, WorkerProgress, decode, encode
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
    initiators_max: int
    rate: str = ""  # default of the form's field; empty: the closed loop
    payload_bytes: int = 100  # the same


class _Peer:
    """A Locust process, and the messages to and from it."""

    def __init__(self, child: Child, news: threading.Condition, label: str = "") -> None:
        self.child = child
        self.label = label  # begins its failures
        self.client_id = ""  # a worker's, once it is connected
        self.progress: WorkerProgress | None = None
        self.answers: dict[int, Any] = {}
        self.requests: list[tuple[int, Message]] = []
        self._news = news
        threading.Thread(target=self._listen, daemon=True).start()

    def tell(self, message: Message, number: int = 0) -> None:
        try:
            self.child.stdin.write(encode(message, number))
            self.child.stdin.flush()
        except OSError:
            raise LoadError(self.child.death() or f"{self.child.name} does not read its input") from None

    def _listen(self) -> None:
        for line in self.child.stdout:
            if not line.endswith(b"\n"):
                break  # it died while it wrote
            number, message = decode(line)
            with self._news:
                if isinstance(message, Answer):
                    self.answers[number] = message
                elif isinstance(message, WorkerProgress):
                    self.progress = message
                else:
                    self.requests.append((number, message))
                self._news.notify_all()


class LocustClients:
    """Locust's master and one worker per initiator, alive from the first `prepare` to `close`.

    Start and use it from one thread, the main one: the kernel ties the children to the thread that starts them.
    """

    def __init__(
        self, *, log_directory: Path, stop_timeout_s: float = STOP_TIMEOUT_S, web: WebPage | None = None
    ) -> None:
        self._log_directory = log_directory
        self._stop_timeout_s = stop_timeout_s
        self._web = web
        self._master: _Peer | None = None
        self._workers: dict[int, _Peer] = {}  # by initiator
        self._taking_part: list[int] = []
        self._news = threading.Condition()
        self._numbers = itertools.count(1)

    def prepare(self, plan: CellPlan) -> None:
        """Connects every thread of the cell and lets it wait at the barrier; raises LoadError.

        Starts the processes anew where one has died.
        """
        if self._death() is not None:
            self.close()
        workers = self.launch(plan.cell.initiators)
        assert self._master is not None
        self._ask({self._master: messages.StartUsers(workers, plan.cell.threads)}, PREPARE_TIMEOUT_S)
        self.prepare_cell(plan)

    def prepare_cell(self, plan: CellPlan) -> None:
        """The same for workers whose users are started."""
        self._taking_part = list(range(1, plan.cell.initiators + 1))
        orders = {
            self._workers[initiator]: messages.Prepare(
                plan.cell.id,
                plan.visit.block,
                plan.attempt,
                plan.run,
                plan.cell.payload_bytes,
                plan.client,
                plan.bodies,
                str(plan.results.absolute()) if plan.results else None,
                plan.connection_strings[initiator - 1],
                plan.handles[initiator - 1][: plan.cell.threads],
                PREPARE_TIMEOUT_S,
                plan.open_loop,
            )
            for initiator in self._taking_part
        }
        self._ask(orders, PREPARE_TIMEOUT_S)
        for worker in self._workers.values():
            worker.progress = None

    def start(self) -> None:
        """Opens the barrier."""
        self._ask({self._workers[initiator]: messages.Start() for initiator in self._taking_part}, 0)

    def progress(self) -> Progress:
        """The newest reports; all zero before the first ones. LoadError if a process has died."""
        self._require_alive()
        with self._news:
            reports = [worker.progress for _, worker in sorted(self._workers.items()) if worker.progress]
        return Progress(
            counted_at_ns=sum(report.counted_at_ns for report in reports) // max(1, len(reports)),
            sent=sum(report.sent for report in reports),
            calls_per_s=sum(report.calls_per_s for report in reports),
            failed_calls=sum(report.failed_calls for report in reports),
            running_threads=sum(report.running_threads for report in reports),
        )

    def stop(self) -> LoadReport:
        """Waits for every thread's last call and for the workers' `calls` files."""
        workers = {number: self._workers[number] for number in self._taking_part if number in self._workers}
        if not workers:
            raise LoadError("the Locust processes are not running")
        answers = self._ask(dict.fromkeys(workers.values(), messages.Stop(self._stop_timeout_s)), self._stop_timeout_s)
        errors: dict[str, int] = {}
        for answer in answers:
            for text, count in answer.errors:
                errors[text] = errors.get(text, 0) + count
        return LoadReport(
            started_at_ns=min(answer.started_at_ns for answer in answers),
            stopped_at_ns=max(answer.stopped_at_ns for answer in answers),
            sent={
                (initiator, thread): sent
                for initiator, answer in zip(workers, answers, strict=True)
                for thread, sent in enumerate(answer.sent, start=1)
            },
            failed_calls=sum(errors.values()),
            errors=sorted(errors.items(), key=lambda item: (-item[1], item[0])),
            problems=[problem for answer in answers for problem in answer.problems],
            health=[answer.health for answer in answers],
            barriers_at_ns={
                initiator: answer.started_at_ns for initiator, answer in zip(workers, answers, strict=True)
            },
        )

    def close(self) -> None:
        """Ends all processes. `prepare` may be called again."""
        peers = [*self._workers.values(), *([self._master] if self._master else [])]
        self._workers, self._master = {}, None
        stop_all([peer.child for peer in peers])

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    @property
    def processes(self) -> dict[str, int]:
        """Process ids by name."""
        peers = [*self._workers.values(), *([self._master] if self._master else [])]
        return {peer.child.name: peer.child.pid for peer in peers}

    def launch(self, initiators: int) -> list[str]:
        """Starts the master and the first `initiators` workers where they do not run; Locust's ids of the workers."""
        wanted = range(1, initiators + 1)
        started = [number for number in wanted if number not in self._workers]
        is_first = self._master is None
        if self._master is None:
            web = self._web
            options = []
            if web is not None:
                options = ["--web-port", str(web.port), "--lab", web.lab, "--rate", web.rate]
                options += ["--initiators-max", str(web.initiators_max), "--payload-bytes", str(web.payload_bytes)]
            words = ["harness.load.master", *options]
            self._master = _Peer(self._child("locust-master", *words, is_patched=web is not None), self._news)
        for number in started:
            options = [] if self._web is None else ["--report-interval", "1"]
            words = ["harness.load.worker", "--initiator", str(number), *options]
            child = self._child(f"locust-worker-{number}", *words)
            self._workers[number] = _Peer(child, self._news, f"initiator {number}: ")
        if started or is_first:
            [listening] = self._ask({self._master: messages.Listen()}, 0)
            workers = [self._workers[number] for number in started]
            connected = self._ask(dict.fromkeys(workers, messages.Connect(listening.port)), 0)
            for worker, answer in zip(workers, connected, strict=True):
                worker.client_id = answer.client_id
        return [self._workers[number].client_id for number in wanted]

    def _child(self, name: str, module: str, *arguments: str, is_patched: bool = False) -> Child:
        return Child(
            name,
            [sys.executable, "-m", module, *arguments],
            log=self._log_directory / f"{name}.log",
            # The worker's native threads need the real locks; the master's web server needs gevent's.
            environment={"LOCUST_SKIP_MONKEY_PATCH": "" if is_patched else "1"},
            pipe_stdout=True,
        )

    def next_request(self, timeout_s: float) -> tuple[int, Message] | None:
        """The next request of the master's web interface, or None; LoadError if the master has died."""
        master = self._master
        assert master is not None
        if death := master.child.death():
            raise LoadError(death)
        with self._news:
            self._news.wait_for(lambda: bool(master.requests), timeout_s)
            return master.requests.pop(0) if master.requests else None

    def tell_master(self, message: Message, number: int = 0) -> None:
        assert self._master is not None
        self._master.tell(message, number)

    def remove_dead_workers(self) -> list[WorkerLost]:
        """Forgets the workers that have died; `launch` starts them anew."""
        lost = {number: death for number, worker in self._workers.items() if (death := worker.child.death())}
        found = []
        for number, death in lost.items():
            worker = self._workers.pop(number)
            worker.child.stop()
            found.append(WorkerLost(worker.client_id, death))
        return found

    def _ask(self, orders: Mapping[_Peer, Message], timeout_s: float) -> list[Any]:
        """Every peer's answer, in the order of the peers."""
        self._require_alive()
        number = next(self._numbers)
        for peer, order in orders.items():
            peer.tell(order, number)
        timeout_s += MARGIN_S
        self._wait_for(lambda: all(number in peer.answers for peer in orders), timeout_s)
        missing = [peer.child.name for peer in orders if number not in peer.answers]
        for peer, order in orders.items():
            answer = peer.answers.get(number)
            verb = re.sub(r"(?<!^)([A-Z])", r" \1", type(order).__name__).lower()
            if isinstance(answer, Failed):
                self._require_alive()  # a death explains the failure
                raise LoadError(f"{verb}: {peer.label}{answer.reason}")
            if missing:
                raise LoadError(f"{verb}: {missing[0]} did not answer within {timeout_s:g} s")
        return [peer.answers.pop(number) for peer in orders]

    def _wait_for(self, condition: Callable[[], bool], timeout_s: float) -> None:
        deadline = time.monotonic() + timeout_s
        with self._news:
            while not condition() and time.monotonic() < deadline:
                self._news.wait(POLL_S)
                self._require_alive()

    def _death(self) -> str | None:
        for peer in [self._master, *self._workers.values()]:
            if peer is not None and (death := peer.child.death()) is not None:
                return death
        return None

    def _require_alive(self) -> None:
        if death := self._death():
            raise LoadError(death)
