"""The faults as tasks beside the load, an operator who repairs what does not recover, and the clients' connections.

A call of a client travels to the instance, runs there as a task, and its answer travels back. If the instance dies or
restarts in between, the caller learns only that its connection is broken.

Every task notes its actions in the timeline. When all have ended, no fault is left: instances run, links are whole,
logs have their normal speed, and the queue has a working procedure.
"""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from harness.embedded.runtime.tasks import MILLISECOND, SECOND, Delay, Signal, Waiting
from harness.embedded.sqltypes import ResultSink
from harness.embedded.store.row_file import DATA, MARK, DamagedStore
from harness.embedded.tsql.requests import ClientSession
from harness.simulation.faults import receive_procedures
from harness.simulation.faults.checkers import CallOutcome
from harness.simulation.faults.fault_plan import TARGET, Aim, Fault, Kind, Plan
from harness.simulation.faulty_disk import Damage, DiskFault
from harness.simulation.network import LinkFaults
from harness.simulation.world import Server, World

OPERATOR_INTERVAL_NS = 2 * SECOND
AGAIN_NS = 100 * MILLISECOND
DATA_SHARE = 0.7  # of damage hits the data; the rest hits the mark
DISK_MAX_NS = 10 * SECOND  # for the next write
AIMING_MAX_NS = 3 * SECOND  # then the instance is killed in any case
# Greatest delay of the second of two frames, unless the link also reorders with a greater one.
DUPLICATE_LATER_NS = 100 * MILLISECOND
LATE_SHARE = 0.3  # of frames on a reordering link
# Between client and instance in each direction. It is long for a switch, so that an instance sometimes dies after a
# commit while the answer is under way.
TRIP_NS = MILLISECOND // 2
ERROR_SEVERITY = 11

Request = Callable[[ClientSession, ResultSink], Waiting[None]]


class Answer(NamedTuple):
    outcome: CallOutcome
    error: str = ""
    rows: Sequence[Sequence[Any]] = ()


class _Results(ResultSink):
    def __init__(self) -> None:
        self.found: list[Sequence[Any]] = []
        self.error = ""

    def rows(self, rows: Sequence[Sequence[Any]]) -> None:
        self.found.extend(rows)

    def message(self, number: int, severity: int, state: int, text: str, procedure: str, line: int) -> None:  # noqa: PLR0917
        if severity >= ERROR_SEVERITY and not self.error:
            self.error = f"error {number}: {text}"


class _Exchange:
    """A request at the instance, until its answer leaves or the instance dies."""

    def __init__(self) -> None:
        self.results: _Results | None = None
        self.is_over = False
        self.over = Signal()

    def end(self) -> None:
        self.is_over = True
        self.over.notify_all()


class InstanceConnections:
    """All requests at one instance; `broken` is called when it is killed."""

    def __init__(self, server: Server) -> None:
        self.server = server
        self.exchanges: list[_Exchange] = []
        self.asked = Signal()  # notified when a request arrives

    def broken(self) -> None:
        """End all requests without an answer, because the instance is dead."""
        exchanges, self.exchanges = self.exchanges, []
        for exchange in exchanges:
            exchange.end()


class ClientConnection:
    """The connection of one client, which reconnects when it has broken."""

    def __init__(self, board: InstanceConnections, *, login: str, database: str) -> None:
        self._board = board
        self._server = board.server
        self._login, self._database = login, database
        self._session: ClientSession | None = None
        self._start = 0  # number of the instance's start when the session was opened

    def call(self, request: Request) -> Waiting[Answer]:
        """Send a request, and connect before for as long as that takes; the answer tells the result."""
        while not self._server.is_running:
            yield Delay(AGAIN_NS)
        session = self._connected()
        yield Delay(TRIP_NS)
        if self._is_broken:
            return Answer(CallOutcome.CUT_OFF)
        exchange = _Exchange()
        self._board.exchanges.append(exchange)
        self._board.asked.notify_all()
        self._server.scheduler.spawn(self._serve(session, request, exchange), "call")
        while not exchange.is_over:
            yield exchange.over.wait()
        if exchange.results is None:
            return Answer(CallOutcome.CUT_OFF)
        yield Delay(TRIP_NS)
        if self._is_broken:
            return Answer(CallOutcome.CUT_OFF)
        results = exchange.results
        if results.error:
            return Answer(CallOutcome.REFUSED, results.error)
        return Answer(CallOutcome.COMMITTED, rows=results.found)

    def _serve(self, session: ClientSession, request: Request, exchange: _Exchange) -> Waiting[None]:
        results = _Results()
        yield from request(session, results)
        exchange.results = results
        self._board.exchanges.remove(exchange)
        exchange.end()

    @property
    def _is_broken(self) -> bool:
        return not self._server.is_running or self._server.starts != self._start

    def _connected(self) -> ClientSession:
        if self._session is None or self._is_broken:
            self._session = self._server.session(login=self._login, database=self._database, program="faults")
            self._start = self._server.starts
        return self._session


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
            target = self._boards[fault.where].asked if fault.aim is Aim.CALLS else self.wires[fault.where]
            yield target.wait(AIMING_MAX_NS)
            yield Delay(int(fault.strength * SECOND))
        while not world.servers[fault.where].is_running:  # killed by another fault
            yield Delay(AGAIN_NS)
        self._note(f"{fault.where} is killed")
        yield from self._crash(fault)
        yield from self._start(fault.where)

    def _crash(self, fault: Fault) -> Waiting[None]:
        self.disturbances += 1
        self._world.servers[fault.where].crash()
        self._boards[fault.where].broken()
        yield Delay(int(fault.duration_s * SECOND))

    def _start(self, name: str) -> Waiting[None]:
        while True:
            try:
                self._world.servers[name].start()
            except OSError as error:
                self._note(f"{name} cannot start: {error.strerror}")
                yield Delay(AGAIN_NS)
            else:
                self.started(name)
                return

    def _disk(self, fault: Fault) -> Waiting[None]:
        server = self._world.servers[fault.where]
        assert isinstance(fault.disk, DiskFault)
        server.disk.fault = fault.disk
        yield server.disk_lost.wait(DISK_MAX_NS)
        server.disk.fault = None
        if server.is_running and server.has_lost_disk:
            self._note(f"{fault.where} ends, because its disk has failed")
            yield from self._crash(fault)
            yield from self._start(fault.where)

    def _fill(self, fault: Fault) -> Waiting[None]:
        disk = self._world.servers[fault.where].disk
        disk.is_full = True
        yield Delay(int(fault.duration_s * SECOND))
        disk.is_full = False

    def _damage(self, fault: Fault) -> Waiting[None]:
        server = self._world.servers[fault.where]
        disk = server.disk
        if fault.disk is Damage.LOST_WRITE:
            disk.fault = DiskFault.LOST_WRITE
            yield Delay(DISK_MAX_NS // 10)
            disk.fault = None
        while not server.is_running:
            yield Delay(AGAIN_NS)
        yield from self._crash(fault)
        assert isinstance(fault.disk, Damage)
        contents = disk.contents()
        disk.damage(DATA if fault.strength < DATA_SHARE or fault.disk is Damage.LOST_WRITE else MARK, fault.disk)
        try:
            yield from self._start(fault.where)
        except DamagedStore as error:
            self._note(f"{fault.where} does not start: {error}; its operator has a copy")
            disk.restore(contents)
            yield from self._start(fault.where)

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
            if self._is_failing or answer.outcome is not CallOutcome.COMMITTED or answer.rows[0][0]:
                continue
            self._note("operator: the queue is off; removes poison and turns it on")
            yield from self._until_done(self._operator, receive_procedures.REMOVE_POISON)

    def _until_done(self, line: ClientConnection, text: str) -> Waiting[None]:
        """Run a batch, again if the connection broke: it may be executed twice."""
        while True:
            answer = yield from _batch(line, text)
            if answer.outcome is CallOutcome.COMMITTED:
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
    Kind.DISK: Injector._disk,
    Kind.FULL: Injector._fill,
    Kind.DAMAGED: Injector._damage,
}
