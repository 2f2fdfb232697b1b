"""The test clients as the sweep sees them: a plain, blocking interface over the Locust processes."""

from __future__ import annotations

import contextlib
import itertools
import re
import secrets
import socket
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from harness.definitions.matrix import Cell
from harness.definitions.units import counted
from harness.failures import UsageFailure
from harness.files.records import write_calls
from harness.files.settings import TOKEN, Settings, load_token, secret
from harness.lab import interruption
from harness.lab.instances import LabError
from harness.lab.processes import Child, stop_all
from harness.load import messages
from harness.load.messages import (
    Answer,
    Failed,
    Joined,
    Message,
    Refused,
    ServePage,
    WorkerLost,
    WorkerProgress,
    decode,
    encode,
)
from harness.load.plan import CellPlan, LoadError, LoadReport, Progress, Share
from harness.machine.clocks import ClockDifference, compare
from harness.machine.places import LOCUSTFILE

PREPARE_TIMEOUT_S = 60.0  # fifty logins on a busy machine
STOP_TIMEOUT_S = 10.0  # for the last calls to return
MARGIN_S = 60.0  # beyond the children's own time limits: they should have answered long before
JOIN_TIMEOUT_S = 300.0  # somebody goes from machine to machine; Locust's workers try for as long to join
POLL_S = 0.02
LOOPBACK = "127.0.0.1"


@dataclass(frozen=True, slots=True)
class Elsewhere:
    """Where the master listens for workers that others start, on any machine; HARNESS_TOKEN lets them in."""

    host: str  # an address of this machine
    port: int

    @classmethod
    def of(cls, settings: Settings) -> Elsewhere | None:
        """What the settings say, None for workers of this machine; raises UsageFailure if it is not possible."""
        if settings.master_bind_host is None:
            return None
        host, port = settings.master_bind_host, settings.master_bind_port
        load_token()
        try:
            socket.create_server((host, port), reuse_port=False).close()
        except OSError as error:
            raise UsageFailure(
                f"the master cannot listen on {host} port {port} ({error.strerror}): choose an address of this machine "
                "with --master-bind-host, and a free port with --master-bind-port"
            ) from None
        return cls(host, port)

    def __str__(self) -> str:
        return f"{self.host}:{self.port}"


class _Peer:
    """A Locust process, and the messages to and from it."""

    _writing = threading.Lock()  # the page's looks come from a thread of their own

    def __init__(self, name: str, address: str, child: Child | None, link: Child) -> None:
        self.name = name
        self.address = address  # Locust's client id of a worker; empty: the master
        self.child = child  # None: started elsewhere
        self.progress: WorkerProgress | None = None
        self.answers: dict[int, Any] = {}
        self.lost = ""  # why a worker from elsewhere is not there
        self._link = link  # the master, through which all messages go

    def tell(self, message: Message, number: int = 0) -> None:
        try:
            with self._writing:
                self._link.stdin.write(self.address.encode() + b"\t" + encode(message, number))
                self._link.stdin.flush()
        except OSError:
            raise LoadError(self._link.death() or f"{self._link.name} does not read its input") from None

    def death(self) -> str | None:
        return self.child.death() if self.child else self.lost or None


class LocustClients:
    """Locust's master and one worker or more per initiator, alive from the first `prepare` to `close`.

    Start and use it from one thread, the main one: the kernel ties the children to the thread that starts them. Workers
    from elsewhere are waited for, and used in the order of their hosts' names.
    """

    def __init__(
        self,
        *,
        log_directory: Path,
        stop_timeout_s: float = STOP_TIMEOUT_S,
        join_timeout_s: float = JOIN_TIMEOUT_S,
        page: ServePage | None = None,
        elsewhere: Elsewhere | None = None,
        per_initiator: int = 1,
        tell: Callable[[str], None] = lambda line: None,
    ) -> None:
        self._log_directory = log_directory
        self._stop_timeout_s = stop_timeout_s
        self._join_timeout_s = join_timeout_s
        self._page = page
        self._elsewhere = elsewhere
        self._per_initiator = per_initiator
        self._tell = tell
        self._own_token = "" if elsewhere else secrets.token_urlsafe()
        self._master: _Peer | None = None
        self._children: list[Child] = []  # workers of this machine
        self._joined: dict[str, _Peer] = {}  # workers that have joined, by address
        self._workers: list[_Peer] = []  # those that take part in a cell, in the order of the initiators
        self._plan: CellPlan | None = None
        self._clocks: Mapping[str, ClockDifference] = {}  # of workers from elsewhere, by name
        self._port = 0
        self._requests: list[tuple[int, Message]] = []  # of the master's web interface
        self._notes: list[str] = []
        self._news = threading.Condition()
        self._numbers = itertools.count(1)

    def prepare(self, plan: CellPlan) -> None:
        """Connect every thread of the cell and let it wait at the barrier; raise LoadError."""
        self.launch(plan.cell.initiators)
        assert self._master is not None
        self._ask({self._master: messages.StartUsers(self.users(plan.cell))}, PREPARE_TIMEOUT_S)
        self.prepare_cell(plan)

    def prepare_cell(self, plan: CellPlan) -> None:
        """The same for workers whose users are started."""
        self._plan = plan
        orders = {
            worker: messages.Prepare(
                plan.cell.id,
                plan.visit.block,
                plan.attempt,
                share,
                plan.run,
                plan.cell.payload_bytes,
                plan.client,
                plan.bodies,
                plan.results is not None,
                plan.connection_strings[share.initiator - 1],
                [plan.handles[share.initiator - 1][number - 1] for number in share.threads(plan.cell.threads)],
                PREPARE_TIMEOUT_S,
                plan.open_loop,
            )
            for share, worker in self._shares(plan.cell)
        }
        self._ask(orders, PREPARE_TIMEOUT_S)
        for worker in self._workers:
            worker.progress = None

    def users(self, cell: Cell) -> dict[str, int]:
        """How many users the workers of a cell have, after `launch`."""
        return {worker.address: len(share.threads(cell.threads)) for share, worker in self._shares(cell)}

    def _shares(self, cell: Cell) -> Iterator[tuple[Share, _Peer]]:
        """The workers that have threads of a cell: those of an initiator follow each other, and share its threads."""
        workers = min(self._per_initiator, cell.threads)
        for place, worker in enumerate(self._workers):
            initiator, number = divmod(place, self._per_initiator)
            if number < workers:
                yield Share(initiator + 1, number + 1, workers), worker

    def start(self) -> None:
        """Open the barrier."""
        assert self._plan is not None
        clocks = self._clocks
        starts = {
            worker: messages.Start(clocks[worker.name].known_ns if worker.name in clocks else 0)
            for _, worker in self._shares(self._plan.cell)
        }
        self._ask(starts, 0)

    def progress(self) -> Progress:
        """The newest reports; all zero before the first ones. LoadError if a process has died."""
        self._require_alive()
        with self._news:
            reports = [worker.progress for worker in self._workers if worker.progress]
        return Progress(
            counted_at_ns=sum(report.counted_at_ns for report in reports) // max(1, len(reports)),
            sent=sum(report.sent for report in reports),
            calls_per_s=sum(report.calls_per_s for report in reports),
            failed_calls=sum(report.failed_calls for report in reports),
            running_threads=sum(report.running_threads for report in reports),
        )

    def stop(self) -> LoadReport:
        """Wait for every thread's last call and write the `calls` files."""
        plan = self._plan
        if not self._workers or plan is None:
            raise LoadError("the Locust processes are not running")
        shares = dict(self._shares(plan.cell))
        orders = dict.fromkeys(shares.values(), messages.Stop(self._stop_timeout_s))
        answers = dict(zip(shares, self._ask(orders, self._stop_timeout_s), strict=True))
        errors: dict[str, int] = {}
        for answer in answers.values():
            for text, count in answer.errors:
                errors[text] = errors.get(text, 0) + count
        if plan.results is not None:
            for share, answer in answers.items():
                pieces = self._calls(shares[share], answer.calls_bytes)
                write_calls(plan.results, plan.visit, plan.attempt, share.writer, pieces)
        return LoadReport(
            started_at_ns=min(answer.started_at_ns for answer in answers.values()),
            stopped_at_ns=max(answer.stopped_at_ns for answer in answers.values()),
            sent={
                (share.initiator, thread): sent
                for share, answer in answers.items()
                for thread, sent in zip(share.threads(plan.cell.threads), answer.sent, strict=True)
            },
            failed_calls=sum(errors.values()),
            errors=sorted(errors.items(), key=lambda item: (-item[1], item[0])),
            problems=[problem for answer in answers.values() for problem in answer.problems],
            health=[answer.health for answer in answers.values()],
            barriers_at_ns={share: answer.started_at_ns for share, answer in answers.items()},
        )

    def _calls(self, worker: _Peer, size: int) -> Iterator[bytes]:
        for offset in range(0, size, messages.PIECE_BYTES):
            [piece] = self._ask({worker: messages.Fetch(offset)}, 0)
            yield piece.data

    def clocks(self) -> Mapping[str, ClockDifference]:
        """Compare the clocks of workers of other machines with this machine's; what starts next goes by them."""
        elsewhere = self._workers if self._elsewhere else []
        self._clocks = {worker.name: compare(partial(self._clock, worker)) for worker in elsewhere}
        return self._clocks

    def _clock(self, worker: _Peer) -> int:
        [answer] = self._ask({worker: messages.ReadClock()}, 0)
        return int(answer.utc_ns)

    def end_cell(self) -> None:
        """After a failure: end the cell, and the connections of its threads, which would keep a lab from opening.

        The processes go on with the next cell, unless one of this machine has died, does not answer, or has a thread
        that stays in a call: then all of this machine are ended, and `launch` starts others.
        """
        self._workers = []
        orders = dict.fromkeys(self._present(), messages.Disconnect(self._stop_timeout_s))
        try:
            self._ask(orders, self._stop_timeout_s)
        except LoadError:
            if self._elsewhere is None:
                self.close()

    def close(self) -> None:
        """End all processes, also workers from elsewhere. `prepare` may be called again."""
        master, children = self._master, self._children
        if master is not None and self._elsewhere is not None:
            with contextlib.suppress(LoadError):
                self._ask({master: messages.Dismiss()}, 0)
        self._master, self._children, self._joined, self._workers = None, [], {}, []
        stop_all([*children, *([master.child] if master and master.child else [])])

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    @property
    def processes(self) -> dict[str, int]:
        """Process ids of this machine, by name."""
        return {child.name: child.pid for child in self._own()}

    def launch(self, initiators: int) -> None:
        """Start the master and the workers of the first initiators where they do not run, or wait for them to join.

        Start all of this machine's processes anew where one has died. Raise LoadError.
        """
        self._workers, workers_wanted = [], initiators * self._per_initiator
        if any(child.death() for child in self._own()):
            self.close()
        if self._master is None:
            self._start_master()
        master = self._master
        assert master is not None
        if self._elsewhere is None:
            for number in range(len(self._children) + 1, workers_wanted + 1):
                self._children.append(self._start_worker(number))
        elif len(self._present()) < workers_wanted:
            self._tell(
                f"waiting for {counted(workers_wanted, 'worker')}, {self._per_initiator} per initiator: "
                f"on other machines run harness worker {self._elsewhere}"
            )
        self._wait_for(lambda: len(self._present()) >= workers_wanted, self._join_timeout_s)
        present = self._present()
        if len(present) < workers_wanted:
            where = f"at {self._elsewhere}" if self._elsewhere else f"within {self._join_timeout_s:g} s"
            if self._elsewhere is None:
                self.close()
            raise LoadError(f"{len(present)} of {counted(workers_wanted, 'worker')} joined {where}: start the others")
        self._workers = present[:workers_wanted]

    def _present(self) -> list[_Peer]:
        """Workers that have joined and are not lost: this machine's in their order, others by their hosts' names."""
        with self._news:
            present = [worker for worker in self._joined.values() if not worker.death()]
        children = self._children
        return sorted(present, key=lambda worker: (children.index(worker.child) if worker.child else 0, worker.name))

    def _own(self) -> list[Child]:
        return [*self._children, *([self._master.child] if self._master and self._master.child else [])]

    def _start_master(self) -> None:
        page, at = self._page, self._elsewhere
        options = ["--master-bind-host", at.host if at else LOOPBACK, "--master-bind-port", str(at.port if at else 0)]
        # The web server needs gevent's locks.
        child = self._child("locust-master", "" if page else "1", "-m", "harness.load.master", *options)
        self._master = _Peer(child.name, "", child, child)
        threading.Thread(target=self._listen, args=(self._master, child), daemon=True).start()
        if at is None:
            [listening] = self._ask({self._master: messages.Listen()}, 0)
            self._port = listening.port
        if page is not None:
            self._ask({self._master: page}, 0)

    def _start_worker(self, number: int) -> Child:
        options = ["--master-host", LOOPBACK, "--master-port", str(self._port), "--loglevel", "WARNING"]
        # Its native threads need the real locks.
        return self._child(f"locust-worker-{number}", "1", "-m", "locust", "-f", str(LOCUSTFILE), "--worker", *options)

    def _child(self, name: str, skip_monkey_patch: str, *words: str) -> Child:
        return Child(
            name,
            [sys.executable, *words],
            log=self._log_directory / f"{name}.log",
            environment={"LOCUST_SKIP_MONKEY_PATCH": skip_monkey_patch, TOKEN: self._own_token or secret(TOKEN) or ""},
            pipe_stdout=True,
        )

    def _listen(self, master: _Peer, link: Child) -> None:
        for text in link.stdout:
            if not text.endswith(b"\n"):
                break  # it died while it wrote
            address, _, line = text.partition(b"\t")
            number, message = decode(line)
            with self._news:
                if self._master is master:
                    self._receive(address.decode(), number, message)
                    self._news.notify_all()

    def _receive(self, address: str, number: int, message: Any) -> None:
        assert self._master is not None
        # The last words of a worker that has died may arrive after it was forgotten.
        worker = message.worker if isinstance(message, WorkerLost) else address
        peer = self._joined.get(worker) if worker else self._master
        if isinstance(message, Joined):
            self._join(message)
        elif peer is None:
            return
        elif isinstance(message, Answer):
            peer.answers[number] = message
        elif isinstance(message, WorkerProgress):
            peer.progress = message
        elif isinstance(message, WorkerLost):
            peer.lost = f"worker {peer.name} {message.reason}"
        elif isinstance(message, Refused):
            self._notes.append(message.reason)
        else:
            self._requests.append((number, message))

    def _join(self, joined: Joined) -> None:
        """A worker of this machine is known by its process id: nobody else has the token and the address."""
        known_worker = self._joined.get(joined.worker)
        if known_worker is not None:
            known_worker.lost = ""
            return
        assert self._master is not None and self._master.child is not None
        child_of_worker = next(
            (child for child in self._children if self._elsewhere is None and child.pid == joined.process), None
        )
        name = child_of_worker.name if child_of_worker else f"{joined.host} (process {joined.process})"
        self._joined[joined.worker] = _Peer(name, joined.worker, child_of_worker, self._master.child)

    def next_request(self, timeout_s: float) -> tuple[int, Message] | None:
        """The next request of the master's web interface, or None; LoadError if the master has died."""
        assert self._master is not None
        if death := self._master.death():
            raise LoadError(death)
        with self._news:
            self._news.wait_for(lambda: bool(self._requests), timeout_s)
            return self._requests.pop(0) if self._requests else None

    def tell_master(self, message: Message, number: int = 0) -> None:
        assert self._master is not None
        self._master.tell(message, number)

    def remove_dead_workers(self) -> list[WorkerLost]:
        """Forget the workers that have died or left; `launch` starts them anew, or waits for others."""
        lost = []
        with self._news:
            joined = list(self._joined.items())
        for address, worker in joined:
            if death := worker.death():
                del self._joined[address]
                if worker.child:
                    worker.child.stop()
                    self._children.remove(worker.child)
                self._workers = [other for other in self._workers if other is not worker]
                lost.append(WorkerLost(address, death))
        return lost

    def _ask(self, orders: Mapping[_Peer, Message], timeout_s: float) -> list[Any]:
        """Every peer's answer, in the order of the peers."""
        self._require_alive()
        number = next(self._numbers)
        for peer, order in orders.items():
            peer.tell(order, number)
        timeout_s += MARGIN_S
        self._wait_for(lambda: all(number in peer.answers for peer in orders), timeout_s)
        missing = [peer.name for peer in orders if number not in peer.answers]
        for peer, order in orders.items():
            answer = peer.answers.get(number)
            verb = re.sub(r"(?<!^)([A-Z])", r" \1", type(order).__name__).lower()
            if isinstance(answer, Failed):
                self._require_alive()  # a death explains the failure
                place = self._workers.index(peer) if peer in self._workers else None
                whose = "" if place is None else f"initiator {place // self._per_initiator + 1}: "
                raise LoadError(f"{verb}: {whose}{answer.reason}")
            if missing:
                raise LoadError(f"{verb}: {missing[0]} did not answer within {timeout_s:g} s")
        return [peer.answers.pop(number) for peer in orders]

    def _wait_for(self, condition: Callable[[], bool], timeout_s: float) -> None:
        deadline = time.monotonic() + timeout_s
        while not condition() and time.monotonic() < deadline:
            with self._news:
                self._news.wait(POLL_S)
            self._require_alive()
            try:
                interruption.look()
            except LabError as lost:  # the clients cannot do without
                raise LoadError(str(lost)) from None
            while self._notes:
                self._tell(self._notes.pop(0))

    def _require_alive(self) -> None:
        """Raise LoadError where a process of this machine has died, or a worker of the cell is lost."""
        for death in (*(child.death() for child in self._own()), *(worker.death() for worker in self._workers)):
            if death:
                raise LoadError(death)
