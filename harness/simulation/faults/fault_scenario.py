"""Run one seed on a linked lab: clients and faults act, the faults end, the queues drain, the evidence is collected.

`prepare` builds what all seeds share. A `ScenarioRun` changes it, so make it in a fork, or only once.
"""

import hashlib
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, fields
from datetime import datetime, timedelta
from typing import Any

from harness.definitions.units import counted
from harness.embedded.broker.frames import Frame, MessageFrame
from harness.embedded.runtime.tasks import SECOND, Delay, TaskState, Waiting
from harness.embedded.runtime.virtual import EPOCH_UTC_NS
from harness.embedded.sqltypes import MAX, Parameter, SqlType
from harness.lab import dialog_pool, link, scripts
from harness.lab.drivers import Connection
from harness.lab.instances import Instance
from harness.load import payload
from harness.load import plan as load_plan
from harness.simulation import simulated_lab
from harness.simulation.dice import Dice
from harness.simulation.faults import checkers, receive_procedures
from harness.simulation.faults.checkers import Call, CallOutcome, Evidence, Message, Reading, Sent, Stored
from harness.simulation.faults.fault_plan import (
    INITIATORS_MAX,
    TARGET,
    THREADS_MAX,
    Kind,
    Plan,
    PlannedClient,
    Receiver,
)
from harness.simulation.faults.injector import ClientConnection, Injector, InstanceConnections
from harness.simulation.parameters import Parameters
from harness.simulation.simulated_lab import SimulatedLab

VERSION = "2008"
# Virtual time for clients and faults; for draining, with time for the slowest retry and reader; for readers to end; and
# for the final rest.
FAULTS_LIMIT_S, DRAIN_LIMIT_S, SETTLE_S, REST_S = 600.0, 240.0, 10.0, 150.0
POLL_FIRST_S, POLL_MAX_S = 4.0, 8.0  # before each check whether all is drained

_HANDLE = SqlType("nvarchar", 4000)
_BODY = SqlType("varbinary", MAX)
_ENDPOINTS = "SELECT COUNT(*) FROM sys.conversation_endpoints WHERE "
_INVOKED = """\
SELECT SUM(cntr_value) FROM sys.dm_os_performance_counters WHERE counter_name LIKE N'Stored Procedures Invoked%';
"""
_ERRORS = "SELECT message_type_name, message_body, error_message FROM dbo.messageErrors ORDER BY id;"


@dataclass(frozen=True)
class PreparedLab:
    """A linked lab with unused dialogs."""

    lab: SimulatedLab
    handles: list[list[str]]  # of the dialogs of each initiator


@dataclass
class SeedOutcome:
    """The result of one seed."""

    seed: int
    violations: list[str] = field(default_factory=list)
    timeline: list[str] = field(default_factory=list)
    trace: str = ""  # digest of everything observed: equal for equal runs
    faults: int = 0
    calls: Counter[str] = field(default_factory=Counter)  # number of calls by what their clients know
    stored: int = 0

    @property
    def summary(self) -> str:
        outcomes = ", ".join(f"{self.calls[outcome.value]} {outcome.value}" for outcome in CallOutcome)
        return f"{counted(self.calls.total(), 'call')} ({outcomes}), {counted(self.stored, 'message')} stored"


def prepare(parameters: Parameters) -> PreparedLab:
    """Link a lab and run every procedure once, so that no seed has to compile them."""
    lab = simulated_lab.open(parameters, version=VERSION, initiators=INITIATORS_MAX, seed=0, is_recoverable=True)
    link.link(lab)
    with lab.target.connect() as target:
        target.execute(receive_procedures.GROUP_READS)
    guid = str(lab.identities[0]["service_broker_guid"])
    dialog_pool.build(lab, initiators=INITIATORS_MAX, dialogs=1)
    for instance in lab.initiators:
        with instance.connect_client() as client:  # type: ignore[attr-defined]
            client.execute(load_plan.SEND_MESSAGE_ON_NEW_DIALOG.call, guid, b"warm-up")
    lab.clock.sleep(SETTLE_S)
    dialog_pool.build(lab, initiators=INITIATORS_MAX, dialogs=THREADS_MAX, warm_up=False)
    lab.clock.sleep(SETTLE_S)
    opened = [instance.connect() for instance in lab.initiators]
    prepared = PreparedLab(lab, dialog_pool.used(opened, 1, THREADS_MAX))
    ScenarioRun(prepared, Plan(0, (), Receiver(True, 1, 0.0, 1), ())).ask()
    return prepared


class ScenarioRun:
    """A plan while it is carried out; `evidence` and `timeline` are complete when `outcome` returns."""

    def __init__(self, prepared: PreparedLab, plan: Plan) -> None:
        self._lab, self._plan, self._handles = prepared.lab, plan, prepared.handles
        self._world = self._lab.world
        self._world.reseed(plan.seed)
        self._began_ns = self._world.clock.now_ns
        self._scheduler = self._world.driver.scheduler()  # of everything outside the instances
        self._guid = str(self._lab.identities[0]["service_broker_guid"])
        self._boards = {name: InstanceConnections(server) for name, server in self._world.servers.items()}
        self.evidence = Evidence()
        self.timeline: list[str] = []
        self._poison_next: set[str] = set()
        self._sending: set[PlannedClient] = set()
        self._is_over = False
        operator, deployer = (
            ClientConnection(self._boards[TARGET], login="sa", database=self._lab.target.database) for _ in range(2)
        )
        self._injector = Injector(self._world, plan, self._boards, self._note, operator=operator, deployer=deployer)
        self._injector.started = self._tap
        self._injector.poison = self._poison

    def outcome(self) -> SeedOutcome:
        """Carry out the plan and judge the evidence."""
        try:
            self._set_up()
            self._let_it_happen()
            self._collect()
        except Exception as error:  # a task of the broker or a query failed
            # The evidence is incomplete and proves nothing.
            violations = [f"aborted by {type(error).__name__}: {error}"]
        else:
            violations = checkers.violations(self.evidence)
        return SeedOutcome(
            self._plan.seed,
            violations,
            [*self._plan.lines(), *self.timeline],
            self._trace(),
            len(self._plan.faults),
            Counter(call.outcome.value for call in self.evidence.calls),
            len(self.evidence.stored),
        )

    def ask(self) -> None:
        """Execute every query that the judgement needs."""
        list(self._left())
        list(self._unaccounted())
        self._invoked()
        self._collect()

    # The run

    def _set_up(self) -> None:
        receiver = self._plan.receiver
        with self._lab.target.connect() as target:
            if receiver.is_the_labs:
                procedure = receive_procedures.LABS_PROCEDURE
            else:
                procedure = receive_procedures.PROCEDURE
                target.execute(receive_procedures.receiving(receiver))
            target.execute(receive_procedures.activation(procedure, receiver.readers))
        for name in self._world.servers:
            self._tap(name)

    def _let_it_happen(self) -> None:
        world, plan = self._world, self._plan
        tasks = [self._scheduler.spawn(self._client(client), f"client {client.thread}") for client in plan.clients]
        tasks += [self._scheduler.spawn(self._injector.inject(fault), fault.kind.value) for fault in plan.faults]
        self.evidence.was_full = any(fault.kind is Kind.FULL for fault in plan.faults)
        if any(fault.needs_operator for fault in plan.faults):
            self._scheduler.spawn(self._injector.operate(lambda: self._is_over), "operator")
        world.run_until(lambda: all(task.state is TaskState.DONE for task in tasks), limit_s=FAULTS_LIMIT_S)
        self.evidence.left += [f"{task.name} has not ended" for task in tasks if task.state is not TaskState.DONE]
        self._note("all calls have ended, and all faults")
        self._drain()
        self._is_over = True
        self._rest()

    def _drain(self) -> None:
        world = self._world
        until_s = world.now_s() + DRAIN_LIMIT_S
        pause_s, empty_checks = POLL_FIRST_S, 0
        while empty_checks < 2:
            # A message that a reader has is in no queue and may come back, so check twice.
            world.sleep(SETTLE_S if empty_checks else pause_s)
            pause_s = min(2 * pause_s, POLL_MAX_S)
            left = list(self._left()) or list(self._unaccounted())
            empty_checks = 0 if left else empty_checks + 1
            if left and world.now_s() > until_s:
                self.evidence.left += left
                self._note(f"not drained: {'; '.join(left)}")
                return
        self._note("drained")

    def _unaccounted(self) -> Iterator[str]:
        """List committed messages that the target's tables lack, and conversations there without messages.

        It is useful only when all queues are empty.
        """
        with self._lab.target.connect() as target:
            stored = {row.message for row in _stored(target)}
            open_ = int(scripts.scalar(target, _ENDPOINTS + "is_initiator = 0 AND state <> 'CD';"))
        if missing := sum(
            call.outcome is CallOutcome.COMMITTED and call.message not in stored for call in self.evidence.calls
        ):
            yield f"{missing} committed messages in no table of the target"
        # The target knows a dialog of the pool from its first message on, and one of each initiator from `prepare`.
        pool = {(client.initiator, client.thread) for client in self._plan.clients if not client.on_new_dialog}
        expected = len(self._handles) + len(pool & {(message.initiator, message.thread) for message in stored})
        if open_ != expected:
            yield f"{open_} conversations are open at the target instead of {expected}"

    def _left(self) -> Iterator[str]:
        """List what has not drained yet, by queries that any client may run."""
        lab = self._lab
        with lab.target.connect() as target:
            if not dialog_pool.is_enabled(target, lab.target.queue):
                yield "the target's queue is disabled"
            if depth := dialog_pool.queue_depth(target, lab.target.queue):
                yield f"{depth} messages in the target's queue"
            if depth := dialog_pool.transmission_queue_depth(target):
                yield f"{depth} messages in the target's transmission queue"
        for instance, handles in zip(lab.initiators, self._handles, strict=True):
            with instance.connect() as connection:
                if depth := dialog_pool.transmission_queue_depth(connection):
                    yield f"{depth} messages in the transmission queue of {instance.name}"
                if depth := dialog_pool.queue_depth(connection, instance.queue):
                    yield f"{depth} messages in the queue of {instance.name}, to which nobody sends"
                open_ = int(scripts.scalar(connection, _ENDPOINTS + "is_initiator = 1;"))
                if open_ != len(handles) + 1:
                    yield f"{open_} conversations at {instance.name} instead of {len(handles) + 1}"

    def _rest(self) -> None:
        """Note what is sent or activated although everything is done."""
        world, evidence = self._world, self.evidence
        sent, invoked = len(evidence.sent), self._invoked()
        world.sleep(REST_S)
        if more := len(evidence.sent) - sent:
            evidence.unrest.append(f"{more} messages were sent again in {REST_S:.0f} s after all was done")
        if more := self._invoked() - invoked:
            evidence.unrest.append(f"the activation procedure ran {more} times in {REST_S:.0f} s after all was done")

    def _invoked(self) -> int:
        with self._lab.target.connect() as target:
            return int(scripts.scalar(target, _INVOKED))

    # Clients

    def _client(self, client: PlannedClient) -> Waiting[None]:
        instance = self._lab.initiators[client.initiator - 1]
        dice = Dice(self._world.entropy("client", client.initiator, client.thread))
        line = self._line(instance)
        self._sending.add(client)
        for sequence in range(client.messages):
            yield Delay(dice.duration_ns(0.0, client.pause_s))
            is_poison = client.thread == 1 and instance.name in self._poison_next
            self._poison_next -= {instance.name} if is_poison else set()
            yield from self._send(line, client, sequence, is_poison)
        self._sending.remove(client)

    def _poison(self, place: str) -> None:
        """Make the first thread at that instance send poison next, or after its last message."""
        [client] = [
            candidate
            for candidate in self._plan.clients
            if candidate.thread == 1 and f"initiator-{candidate.initiator}" == place
        ]
        if client in self._sending:
            self._poison_next.add(place)
            return
        line = self._line(self._lab.initiators[client.initiator - 1])
        self._scheduler.spawn(self._send(line, client, client.messages, True), "poison")

    def _send(self, line: ClientConnection, client: PlannedClient, sequence: int, is_poison: bool) -> Waiting[None]:
        at_ns = self._now_ns()
        body = self._body(client, sequence, at_ns, is_poison)
        if client.on_new_dialog:
            call, first = load_plan.SEND_MESSAGE_ON_NEW_DIALOG, self._guid
        else:
            call, first = load_plan.SEND_MESSAGE, self._handles[client.initiator - 1][client.thread - 1]
        parameters = [Parameter("", _HANDLE, first, False), Parameter("", _BODY, body, False)]
        answer = yield from line.call(lambda session, results: session.rpc(call.procedure, parameters, results))
        message = Message(client.initiator, client.thread, sequence)
        self.evidence.calls.append(Call(message, answer.outcome, at_ns, client.on_new_dialog, is_poison, answer.error))
        if is_poison:
            self._note(f"{message} is poison: {answer.outcome.value}")
        elif answer.outcome is not CallOutcome.COMMITTED:
            self._note(f"{message}: {answer.outcome.value} {answer.error}".rstrip())

    @staticmethod
    def _body(client: PlannedClient, sequence: int, at_ns: int, is_poison: bool) -> bytes:
        body = payload.new_body(payload.HEADER_BYTES, run=1, initiator=client.initiator, thread=client.thread)
        payload.STAMP.pack_into(body, payload.STAMP_OFFSET, sequence, at_ns)
        if is_poison:
            first = receive_procedures.POISON_OFFSET
            body[first : first + len(receive_procedures.POISON)] = receive_procedures.POISON
        return bytes(body) + b"." * (client.size_bytes - len(body))

    def _line(self, instance: Instance) -> ClientConnection:
        assert instance.client is not None
        return ClientConnection(self._boards[instance.name], login=instance.client.user, database=instance.database)

    # Evidence

    def _tap(self, name: str) -> None:
        """Record what an instance puts on the wire, from its start on."""
        server = self._world.servers[name]
        transport = server.engine.link.transport
        assert transport is not None
        send, start = transport.send, server.starts

        def heard(address: tuple[str, int], frames: Sequence[Frame]) -> None:
            at_ns, before = self._now_ns(), len(self.evidence.sent)
            self.evidence.sent += [
                Sent(at_ns, name, start, frame.conversation_id, frame.sequence)
                for frame in frames
                if isinstance(frame, MessageFrame)
            ]
            if len(self.evidence.sent) > before:
                for end in (name, TARGET):
                    self._injector.wires[end].notify_all()
            send(address, frames)

        transport.send = heard  # type: ignore[method-assign]

    def _collect(self) -> None:
        evidence = self.evidence
        evidence.reconnections = 2 * self._injector.disturbances
        with self._lab.target.connect() as target:
            evidence.stored += _stored(target)
            for kind, body, text in target.execute(_ERRORS).fetchall():
                if not _is_ours(body):
                    evidence.noted.append(f"the target's error table: {kind or 'rolled back'}: {text}")
            reads = "SELECT conversation_group_id, session_id, began_at, ended_at FROM dbo.groupReads ORDER BY id;"
            evidence.readings += [
                Reading(str(group), session, self._since_began_ns(began_at), self._since_began_ns(ended_at))
                for group, session, began_at, ended_at in target.execute(reads).fetchall()
            ]

    def _since_began_ns(self, moment: datetime) -> int:
        utc_us = (moment - datetime(1970, 1, 1)) // timedelta(microseconds=1)
        return utc_us * 1000 - EPOCH_UTC_NS - self._began_ns

    def _trace(self) -> str:
        digest = hashlib.sha256()
        trace: list[Any] = [*self._plan.lines(), *self.timeline]
        evidence = [getattr(self.evidence, each.name) for each in fields(self.evidence)]
        for part in (trace, *evidence):
            digest.update(repr(part).encode())
        return digest.hexdigest()

    def _now_ns(self) -> int:
        return self._world.clock.now_ns - self._began_ns

    def _note(self, text: str) -> None:
        self.timeline.append(f"{self._now_ns() / SECOND:10.6f} s  {text}")


def _stored(target: Connection) -> list[Stored]:
    processed = target.execute("SELECT messageVal FROM dbo.messageDrop ORDER BY id;").fetchall()
    noted = target.execute(_ERRORS).fetchall()
    return [Stored(_message(body)) for (body,) in processed] + [
        Stored(_message(body), set_aside=True) for _, body, _ in noted if _is_ours(body)
    ]


def _is_ours(body: bytes | None) -> bool:
    return body is not None and bytes(body).startswith(payload.MAGIC)


def _message(body: bytes) -> Message:
    header = payload.parse_header(bytes(body))
    return Message(header.initiator, header.thread, header.sequence)
