"""The faults as tasks beside the load, and an operator who repairs what does not recover by itself.

Every task notes its actions in the timeline. When all have ended, no fault is left: instances run, links are whole,
logs have their normal speed, and the queue has a working procedure.
"""

from __future__ import annotations

from collections.abc import Callable

from harness.embedded.runtime.tasks import MILLISECOND, SECOND, Delay, Signal, Waiting
from harness.simulation.faults import receive_procedures
from harness.simulation.faults.checkers import Told
from harness.simulation.faults.client_connections import Answer, ClientConnection, InstanceConnections
from harness.simulation.faults.fault_plan import TARGET, Aim, Fault, Kind, Plan
from harness.simulation.network import LinkFaults
from harness.simulation.world import World

OPERATOR_INTERVAL_NS = 2 * SECOND
AGAIN_NS = 100 * MILLISECOND
AIMING_MAX_NS = 3 * SECOND  # then the instance is killed in any case
# Greatest delay of the second of two frames, unless the link also reorders with a greater one.
DUPLICATE_LATER_NS = 100 * MILLISECOND
LATE_SHARE = 0.3  # of frames on a reordering link


class Injector:
    """Carries out the faults of a plan in a world."""

    def __init__(
        self,
        world: World,
        plan: Plan,
        boards: dict[str, InstanceConnections],
        note: Callable[[str], None],
        *,
        operator: ClientConnection,
        deployer: ClientConnection,
    ) -> None:
        self._world = world
        self._plan = plan
        self._boards = boards
        self._note = note
        self._operator, self._deployer = operator, deployer  # two connections, since each has one request at a time
        self._is_failing = False  # the activated procedure fails on purpose
        self.started: Callable[[str], None] = lambda name: None  # called when an instance is started again
        self.poison: Callable[[str], None] = lambda place: None  # makes a client at that instance send poison next
        # Notified when that initiator puts a message on the wire; the target's, when any does.
        self.wires = {name: Signal() for name in boards}
        self.disturbances = 0  # kills and cuts: reasons to send again early

    def inject(self, fault: Fault) -> Waiting[None]:
        """Carry out one fault from beginning to end."""
        yield Delay(int(fault.at_s * SECOND))
        self._note(str(fault))
        yield from _INJECTIONS[fault.kind](self, fault)
        if fault.duration_s:
            self._note(f"{fault.kind.value}: {fault.where}: over")

    # Instances, links, logs

    def _kill(self, fault: Fault) -> Waiting[None]:
        world = self._world
        if fault.aim is not None:
            what = self._boards[fault.where].asked if fault.aim is Aim.CALLS else self.wires[fault.where]
            yield what.wait(AIMING_MAX_NS)
            yield Delay(int(fault.strength * SECOND))
        while not world.servers[fault.where].is_running:  # killed by another fault
            yield Delay(AGAIN_NS)
        self._note(f"{fault.where} is killed")
        self.disturbances += 1
        world.servers[fault.where].crash()
        self._boards[fault.where].broken()
        yield Delay(int(fault.duration_s * SECOND))
        world.servers[fault.where].start()
        self.started(fault.where)

    def _cut(self, fault: Fault) -> Waiting[None]:
        self.disturbances += 1
        self._world.network.cut(fault.where, TARGET)
        yield Delay(int(fault.duration_s * SECOND))
        self._world.network.join(fault.where, TARGET)

    def _disturb_link(self, fault: Fault) -> Waiting[None]:
        def change(faults: LinkFaults, is_on: bool) -> None:
            later_ns = int(fault.strength * SECOND)
            if fault.kind is Kind.SLOW:
                faults.extra_latency_ns = later_ns if is_on else 0
                return
            if fault.kind is Kind.DUPLICATING:
                faults.duplicate_share, later_ns = fault.strength if is_on else 0.0, DUPLICATE_LATER_NS
            else:
                faults.delay_share = LATE_SHARE if is_on else 0.0
            is_whole = not faults.duplicate_share and not faults.delay_share  # else the other of these two faults lasts
            faults.delay_max_ns = 0 if is_whole else max(faults.delay_max_ns, later_ns)

        ways = ((fault.where, TARGET), (TARGET, fault.where))
        for way in ways:
            change(self._world.network.link(*way).faults, True)
        yield Delay(int(fault.duration_s * SECOND))
        for way in ways:
            change(self._world.network.link(*way).faults, False)

    def _slow_log(self, fault: Fault) -> Waiting[None]:
        """Slow a log down, also across a restart: the disk is slow, not the instance."""
        world, until_ns = self._world, self._world.clock.now_ns + int(fault.duration_s * SECOND)
        while world.clock.now_ns < until_ns:
            world.servers[fault.where].computer.log.slowdown = fault.strength
            yield Delay(min(AGAIN_NS, until_ns - world.clock.now_ns))
        world.servers[fault.where].computer.log.slowdown = 1.0

    # The target's queue

    def _poison(self, fault: Fault) -> Waiting[None]:
        self.poison(fault.where)
        return
        yield

    def _fail(self, fault: Fault) -> Waiting[None]:
        assert fault.failure is not None
        self._is_failing = True
        yield from self._until_done(self._deployer, receive_procedures.FAILING[fault.failure])
        yield Delay(int(fault.duration_s * SECOND))
        yield from self._until_done(self._deployer, receive_procedures.receiving(self._plan.receiver))
        self._is_failing = False
        activation = receive_procedures.activation(receive_procedures.PROCEDURE, self._plan.receiver.readers)
        yield from self._until_done(self._deployer, activation)

    def operate(self, is_over: Callable[[], bool]) -> Waiting[None]:
        """As the operator, remove poison whenever rollbacks have disabled the queue."""
        while not is_over():
            yield Delay(OPERATOR_INTERVAL_NS)
            answer = yield from _batch(self._operator, receive_procedures.IS_ENABLED)
            if self._is_failing or answer.told is not Told.COMMITTED or answer.rows[0][0]:
                continue
            self._note("operator: the queue is off; removes poison and turns it on")
            yield from self._until_done(self._operator, receive_procedures.REMOVE_POISON)

    def _until_done(self, line: ClientConnection, text: str) -> Waiting[None]:
        """Run a batch, again if the connection broke: it may be executed twice."""
        while True:
            answer = yield from _batch(line, text)
            if answer.told is Told.COMMITTED:
                return
            self._note(f"{'operator' if line is self._operator else 'deployer'}: {answer.error or 'cut off'}; again")
            yield Delay(AGAIN_NS)


def _batch(line: ClientConnection, text: str) -> Waiting[Answer]:
    return line.call(lambda session, results: session.batch(text, results))


_INJECTIONS: dict[Kind, Callable[[Injector, Fault], Waiting[None]]] = {
    Kind.KILLED: Injector._kill,
    Kind.CUT: Injector._cut,
    Kind.SLOW: Injector._disturb_link,
    Kind.DUPLICATING: Injector._disturb_link,
    Kind.REORDERING: Injector._disturb_link,
    Kind.SLOW_LOG: Injector._slow_log,
    Kind.POISON: Injector._poison,
    Kind.FAILING: Injector._fail,
}
