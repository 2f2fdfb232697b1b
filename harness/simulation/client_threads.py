"""The threads of the test clients in virtual time: each is a task that calls on its own dialog, in a closed loop or by
the schedule of an open loop, which the threads of an initiator share as `load.threads` does.

A client has a session with the clients' login, which may only send. It calls the plan's procedure by RPC, with a body
as `load.payload` lays it out. Driver, protocol and network between client and instance, there and back, are one delay
before the call; think time is added outside the call.

The clients' computers always have enough resources, so there is no health of the load generator to report. Only where
clients and instances share a machine does a call also wait for a processor in the client.
"""

from __future__ import annotations

from array import array
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from harness.embedded.runtime.platform import WaitStatistics
from harness.embedded.runtime.tasks import SECOND, Delay, Scheduler, Waiting
from harness.embedded.sqltypes import INT, MAX, UNIQUEIDENTIFIER, Parameter, ResultSink, SqlType
from harness.embedded.tsql.requests import ClientSession
from harness.files import records
from harness.files.workload_file import Client
from harness.lab.instances import Instance
from harness.load.payload import STAMP, STAMP_OFFSET, new_body
from harness.load.plan import CellPlan, LoadReport, Progress, Share
from harness.machine.clocks import ClockDifference
from harness.simulation.computer import Cores
from harness.simulation.parameters import ClientParameters
from harness.simulation.simulated_lab import SimulatedInstance, SimulatedLab, parameter

STOP_TIMEOUT_S = 10.0  # for the last calls to return
FAILURES_IN_A_ROW_MAX = 10  # a client that cannot send must not spin
STOP_LOOK_NS = SECOND // 10  # a thread that waits for its turn looks so often whether the run is stopping
_BODY_TYPE = SqlType("varbinary", MAX)


@dataclass
class CallLog:
    """Intended start, start, latency from the intended start, and error of each call of one client."""

    intended: array[int] = field(default_factory=lambda: array("q"))  # UTC
    starts: array[int] = field(default_factory=lambda: array("q"))  # UTC
    latencies: array[int] = field(default_factory=lambda: array("q"))
    failures: list[tuple[int, str]] = field(default_factory=list)  # index of the call, text

    @property
    def count(self) -> int:
        return len(self.latencies)

    def intended_ns(self) -> npt.NDArray[np.int64]:
        return np.array(self.intended, dtype=np.int64)

    def starts_ns(self) -> npt.NDArray[np.int64]:
        return np.array(self.starts, dtype=np.int64)

    def latencies_ns(self, first: int, last: int) -> npt.NDArray[np.int64]:
        return np.array(self.latencies[first:last], dtype=np.int64)


class _FirstError(ResultSink):
    """Keep the first error of a call."""

    text = ""

    def message(self, number: int, severity: int, state: int, text: str, procedure: str, line: int) -> None:  # noqa: PLR0917
        if severity > 10 and not self.text:
            self.text = f"{text} (error {number})"


class _Run:
    """Plan and costs that the clients of a cell share; `stopping` ends their loops."""

    def __init__(self, plan: CellPlan, costs: ClientParameters, cores: Cores | None) -> None:
        self.client = plan.client
        self.stopping = False
        self._cores = cores
        self._processors = costs.processors
        self._cores_by_initiator: dict[int, Cores] = {}
        self.call_ns = round(costs.call_us * 1000)
        has_enough = cores is None and not costs.processors
        self.round_trip_ns = round(costs.round_trip_us * 1000) + (self.call_ns if has_enough else 0)
        self.think_time_ns = round(costs.think_time_us * 1000)
        open_loop = plan.open_loop
        # By initiator, from the cell's start; empty in the closed loop.
        self.turns: dict[int, Iterator[int]] = (
            {number: open_loop.starts_ns(number, plan.visit.block) for number in range(1, plan.cell.initiators + 1)}
            if open_loop
            else {}
        )
        self.started_at_ns = 0  # UTC

    def cores(self, initiator: int, scheduler: Scheduler) -> Cores | None:
        """Return the processors that an initiator's clients use; None where they always have enough."""
        if self._cores is not None or not self._processors:
            return self._cores
        if initiator not in self._cores_by_initiator:
            self._cores_by_initiator[initiator] = Cores(scheduler, WaitStatistics(), self._processors)
        return self._cores_by_initiator[initiator]


class ClientThread:
    """One thread of a test client."""

    def __init__(  # noqa: PLR0917
        self, run: _Run, initiator: int, number: int, session: ClientSession, handle: str, body: bytearray
    ) -> None:
        self.initiator = initiator
        self.number = number
        self.session = session
        self.log = CallLog()
        self.reason = ""  # why it gave up
        self.has_finished = False
        self._run = run
        self._arguments = _arguments(run.client, initiator, number, handle)
        self._body = body

    def begin(self, first_delay_ns: int) -> None:
        """Start the loop, as a task of the instance that dies with it."""
        self.session.engine.scheduler.spawn(self._loop(first_delay_ns), f"client {self.number}")

    def _loop(self, first_delay_ns: int) -> Waiting[None]:
        """Send until the run is stopping or too many calls in a row have failed."""
        run, session, body, arguments = self._run, self.session, self._body, self._arguments
        procedure, place = run.client.procedure, run.client.parameters.index("body")
        clock, cores = session.engine.clock, run.cores(self.initiator, session.engine.scheduler)
        offset_ns = clock.utc_ns() - clock.now_ns
        intendeds, starts, latencies = self.log.intended, self.log.starts, self.log.latencies
        turns = run.turns.get(self.initiator)
        sequence = failures_in_a_row = 0
        sink = _FirstError()
        yield Delay(first_delay_ns)
        while not run.stopping:
            if run.think_time_ns:
                yield Delay(run.think_time_ns)
            intended_ns = clock.now_ns
            if turns is not None:
                intended_ns = run.started_at_ns - offset_ns + next(turns)
                while not run.stopping and (left_ns := intended_ns - clock.now_ns) > 0:
                    yield Delay(min(left_ns, STOP_LOOK_NS))
                if run.stopping:
                    break
            started_ns = clock.now_ns
            STAMP.pack_into(body, STAMP_OFFSET, sequence, intended_ns + offset_ns)
            yield Delay(run.round_trip_ns)
            if cores is not None:
                yield from cores.use(run.call_ns)
            arguments[place] = Parameter("", _BODY_TYPE, bytes(body), False)
            yield from session.rpc(procedure, tuple(arguments), sink)
            intendeds.append(intended_ns + offset_ns)
            starts.append(started_ns + offset_ns)
            latencies.append(clock.now_ns - intended_ns)
            if sink.text:
                self.log.failures.append((sequence, sink.text))
                sink.text = ""
                failures_in_a_row += 1
                if failures_in_a_row >= FAILURES_IN_A_ROW_MAX:
                    text = self.log.failures[-1][1]
                    self.reason = f"gave up after {failures_in_a_row} failed calls in a row: {text}"
                    break
            else:
                failures_in_a_row = 0
            sequence += 1
        self.has_finished = True

    @property
    def sent(self) -> int:
        return self.log.count - len(self.log.failures)


def _arguments(client: Client, initiator: int, thread: int, handle: str) -> list[Parameter]:
    """What a thread passes to its procedure, with an empty body."""
    dialog = Parameter("", UNIQUEIDENTIFIER, handle, False)
    passed = {
        "handle": dialog,
        "broker_instance": dialog,
        "body": Parameter("", _BODY_TYPE, b"", False),
        "initiator": Parameter("", INT, initiator, False),
        "thread": Parameter("", INT, thread, False),
        **{name: parameter(value) for name, value in client.values.items()},
    }
    return [passed[name] for name in client.parameters]


class SimulatedClients:
    """Implement `run.attempt.Clients` in the lab's own time, for one cell after the other."""

    def __init__(self, lab: SimulatedLab) -> None:
        self._lab = lab
        self._clients: list[ClientThread] = []
        self._before = (0, 0)  # calls at the last `progress`, and its time

    def prepare(self, plan: CellPlan) -> None:
        """Give every client its session and its dialog; raise LabError if a session is refused."""
        world = self._lab.world
        self._plan = plan
        self._run = _Run(plan, world.parameters.client, world.cores)
        filler = world.entropy("filler").random_bytes(plan.cell.payload_bytes)
        self._clients = [
            self._client(instance, initiator, thread, filler)
            for initiator, instance in enumerate(self._lab.initiators[: plan.cell.initiators], start=1)
            for thread in range(1, plan.cell.threads + 1)
        ]

    def start(self) -> None:
        """Start all clients within one round trip, in random order: real computers never start at the same moment."""
        self._started_at_ns = self._run.started_at_ns = self._lab.clock.utc_ns()
        self._before = (0, self._started_at_ns)
        entropy = self._lab.world.entropy("start", self._plan.cell.id, self._plan.attempt)
        for client in self._clients:
            share = int.from_bytes(entropy.random_bytes(4), "big")
            client.begin(self._run.round_trip_ns * share >> 32)

    def progress(self) -> Progress:
        calls, now_ns = sum(client.log.count for client in self._clients), self._lab.clock.utc_ns()
        (calls_before, before_ns), self._before = self._before, (calls, now_ns)
        return Progress(
            sent=sum(client.sent for client in self._clients),
            calls_per_s=(calls - calls_before) * SECOND / max(1, now_ns - before_ns),
            failed_calls=sum(len(client.log.failures) for client in self._clients),
            running_threads=sum(not client.has_finished for client in self._clients),
            counted_at_ns=now_ns,
        )

    def clocks(self) -> dict[str, ClockDifference]:
        """A simulated lab has one clock."""
        return {}

    def stop(self) -> LoadReport:
        """Wait for every client's last call, end their sessions and write the `calls` files."""
        self._run.stopping = True
        self._lab.world.run_until(lambda: all(one.has_finished for one in self._clients), limit_s=STOP_TIMEOUT_S)
        stopped_at_ns = self._lab.clock.utc_ns()
        errors: Counter[str] = Counter()
        for client in self._clients:
            if client.has_finished:
                client.session.close()
            errors.update(text for _, text in client.log.failures)
        plan = self._plan
        assert plan.results is not None
        for initiator in range(1, plan.cell.initiators + 1):
            file = records.calls_file(
                [client for client in self._clients if client.initiator == initiator],
                visit=plan.visit,
                attempt=plan.attempt,
                initiator=initiator,
                clock_offset_ns=0,
            )
            records.write_calls(plan.results, plan.visit, plan.attempt, Share(initiator).writer, [file])
        return LoadReport(
            started_at_ns=self._started_at_ns,
            stopped_at_ns=stopped_at_ns,
            sent={(client.initiator, client.number): client.sent for client in self._clients},
            failed_calls=errors.total(),
            errors=sorted(errors.items(), key=lambda item: (-item[1], item[0])),
            problems=[
                f"initiator {client.initiator} thread {client.number} {problem}"
                for client in self._clients
                if (problem := client.reason if client.has_finished else "has not returned from its last call")
            ],
            health=[],
            barriers_at_ns={Share(initiator): self._started_at_ns for initiator in range(1, plan.cell.initiators + 1)},
        )

    def _client(self, instance: Instance, initiator: int, thread: int, filler: bytes) -> ClientThread:
        plan = self._plan
        assert isinstance(instance, SimulatedInstance)
        body = new_body(
            plan.cell.payload_bytes, run=plan.run, initiator=initiator, thread=thread, filler=lambda size: filler[:size]
        )
        session = instance.connect_client().session
        return ClientThread(self._run, initiator, thread, session, plan.handles[initiator - 1][thread - 1], body)
