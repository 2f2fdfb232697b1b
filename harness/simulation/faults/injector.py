"""The faults as tasks beside the load, and the operator who mends what does not mend itself; who deploys procedures
that fail is somebody else.

Every task notes in the timeline what it does. When all have ended, nothing is wrong any more: instances run, links are
whole, logs are as fast as they were, and the queue has a procedure that works.
"""

from __future__ import annotations

from collections.abc import Callable

from harness.embedded.runtime.tasks import MILLISECOND, SECOND, Delay, Signal, Waiting
from harness.simulation.faults import receive_procedures
from harness.simulation.faults.client_connections import Answer, ClientConnection, InstanceConnections
from harness.simulation.faults.evidence import Told
from harness.simulation.faults.fault_plan import TARGET, Aim, Fault, Kind, Plan
from harness.simulation.network import LinkFaults
from harness.simulation.world import World

OPERATOR_LOOKS_EVERY_NS = 2 * SECOND
AGAIN_NS = 100 * MILLISECOND
AIMING_MAX_NS = 3 * SECOND  # then a kill comes whatever its instance does
# Where frames arrive twice, the second comes this much later at most, or as late as those that are late there.
DUPLICATE_LATER_NS = 100 * MILLISECOND
LATE_SHARE = 0.3  # of frames, where some are late


class Injector:
    """Lets a plan's faults happen in a world."""

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
        self._operator, self._deployer = operator, deployer  # a session has one request at a time
        self._is_failing = False  # the activation procedure, of purpose
        self.started: Callable[[str], None] = lambda name: None  # an instance has been started again
        self.poison: Callable[[str], None] = lambda place: None  # a client at that instance sends poison next
        # A message of that initiator's is put on the wire; the target's: of anybody's.
        self.wires = {name: Signal() for name in boards}
        self.disturbances = 0  # kills and cuts: reasons to send again before it is time

    def inflict(self, fault: Fault) -> Waiting[None]:
        """One fault, from its beginning to its end."""
        yield Delay(int(fault.at_s * SECOND))
        self._note(str(fault))
        yield from _INFLICTIONS[fault.kind](self, fault)
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
        world.crash(fault.where)
        self._boards[fault.where].broken()
        yield Delay(int(fault.duration_s * SECOND))
        world.restart(fault.where)
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
            is_whole = not faults.duplicate_share and not faults.delay_share  # or the other of these two lasts
            faults.delay_max_ns = 0 if is_whole else max(faults.delay_max_ns, later_ns)

        ways = ((fault.where, TARGET), (TARGET, fault.where))
        for way in ways:
            change(self._world.network.faults(*way), True)
        yield Delay(int(fault.duration_s * SECOND))
        for way in ways:
            change(self._world.network.faults(*way), False)

    def _slow_log(self, fault: Fault) -> Waiting[None]:
        """Lasts through a restart: the disk is slow, not the instance."""
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
        yield from self._until_done(self._deployer, receive_procedures.failing(fault.failure))
        yield Delay(int(fault.duration_s * SECOND))
        yield from self._until_done(self._deployer, receive_procedures.receiving(self._plan.receiver))
        self._is_failing = False
        activation = receive_procedures.activation(receive_procedures.PROCEDURE, self._plan.receiver.readers)
        yield from self._until_done(self._deployer, activation)

    def operate(self, is_over: Callable[[], bool]) -> Waiting[None]:
        """The operator: looks whether the queue is on, and takes poison away where rollbacks have turned it off."""
        while not is_over():
            yield Delay(OPERATOR_LOOKS_EVERY_NS)
            answer = yield from _batch(self._operator, receive_procedures.IS_ENABLED)
            if self._is_failing or answer.told is not Told.COMMITTED or answer.rows[0][0]:
                continue
            self._note("operator: the queue is off; takes poison away and turns it on")
            yield from self._until_done(self._operator, receive_procedures.TAKE_POISON_AWAY)

    def _until_done(self, line: ClientConnection, text: str) -> Waiting[None]:
        """Again where the connection broke; what is done so may be done twice."""
        while True:
            answer = yield from _batch(line, text)
            if answer.told is Told.COMMITTED:
                return
            self._note(f"{'operator' if line is self._operator else 'deployer'}: {answer.error or 'cut off'}; again")
            yield Delay(AGAIN_NS)


def _batch(line: ClientConnection, text: str) -> Waiting[Answer]:
    return line.call(lambda session, results: session.batch(text, results))


_INFLICTIONS: dict[Kind, Callable[[Injector, Fault], Waiting[None]]] = {
    Kind.KILLED: Injector._kill,
    Kind.CUT: Injector._cut,
    Kind.SLOW: Injector._disturb_link,
    Kind.DUPLICATING: Injector._disturb_link,
    Kind.REORDERING: Injector._disturb_link,
    Kind.SLOW_LOG: Injector._slow_log,
    Kind.POISON: Injector._poison,
    Kind.FAILING: Injector._fail,
}
