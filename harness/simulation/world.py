"""Instances that share virtual time and a network.

All randomness comes from the world's seed: an instance's entropy is derived by SHA-256 from the seed, its name and the
number of its start. So the same seed gives the same trace, whatever ran in the process before.
"""

from __future__ import annotations

import hashlib
import itertools
from collections.abc import Callable
from heapq import heappop, heappush
from typing import Any

from harness.embedded.broker.engine import Engine
from harness.embedded.errors import SqlServerError
from harness.embedded.runtime.platform import WaitStatistics
from harness.embedded.runtime.tasks import SECOND, Scheduler, Signal, TaskState, Waiting
from harness.embedded.runtime.virtual import SeededEntropy, VirtualClock, VirtualDriver
from harness.embedded.store.file_store import FileStore
from harness.embedded.store.group_commit import Store
from harness.embedded.store.memory_store import MemoryStore
from harness.embedded.store.row_file import IDENTITY_BYTES, DamagedStore
from harness.embedded.tsql.instance.instance import Instance
from harness.embedded.tsql.permissions.guard import of_login
from harness.embedded.tsql.requests import ClientSession, activate, sending_problem
from harness.embedded.tsql.storage.tables import database_of
from harness.simulation.computer import Computer, Cores
from harness.simulation.dice import Dice
from harness.simulation.faulty_disk import FaultyDisk
from harness.simulation.network import Network
from harness.simulation.parameters import Parameters

FIRST_SPID = 51  # as SQL Server's user sessions
DAY_S = 24 * 3600.0


class World:
    """Virtual time, the network, and the servers in it, by name."""

    def __init__(self, seed: int, parameters: Parameters, *, is_recoverable: bool = False) -> None:
        """`is_recoverable` lets instances be killed and started again; it keeps all that is on disk in memory."""
        self.seed = seed
        self.is_recoverable = is_recoverable
        self.parameters = parameters
        self.clock = VirtualClock()
        self.driver = VirtualDriver(self.clock)
        # The cores of the machine, if instances and clients share one.
        self.cores: Cores | None = None
        if parameters.processors.are_shared:
            self.cores = Cores(self.driver.scheduler(), WaitStatistics(), parameters.processors.count)
        self.network = Network(self.clock, self.entropy("network"), parameters.network)
        self.servers: dict[str, Server] = {}
        self._visits: list[tuple[int, int, Callable[[], None]]] = []  # by (due, sequence)
        self._sequence = 0

    def server(self, name: str, version: str) -> Server:
        """Add a computer with an empty instance, and start it."""
        assert name not in self.servers, name
        server = self.servers[name] = Server(self, name, version)
        server.start()
        return server

    def change_costs(self, parameters: Parameters) -> None:
        """Charge these costs from now on; work in progress ends at the old ones."""
        self.parameters = parameters
        self.network.change_costs(parameters.network)
        for server in self.servers.values():
            server.computer.change_costs(parameters)
            if isinstance(server.store, MemoryStore):
                server.store.record_overhead_bytes = parameters.log.record_overhead_bytes

    def reseed(self, seed: int) -> None:
        """Use other entropy from now on, for forks of a world that was built with one seed."""
        self.seed = seed
        self.network.entropy = self.entropy("network")
        for server in self.servers.values():
            server.computer.log.reseed(self.entropy(server.name, server.starts, "log"))
            # Never the entropy with which the instance began, even for the same seed: identifiers must not repeat.
            server.engine.entropy.source = self.entropy(server.name, server.starts, "reseeded")

    def entropy(self, *names: object) -> SeededEntropy:
        """Derive entropy for a purpose."""
        return SeededEntropy(derived_seed(self.seed, *names))

    def now_s(self) -> float:
        return self.clock.now_ns / SECOND

    def utc_ns(self) -> int:
        return self.clock.utc_ns()

    def sleep(self, duration_s: float) -> None:
        """Let virtual time pass, with its visits.

        At least a nanosecond passes, so that a caller who waits for a shorter remainder does not wait for ever.
        """
        until_ns = self.clock.now_ns + max(1, round(duration_s * SECOND))
        while self._visits and self._visits[0][0] <= until_ns:
            due_ns, _, action = heappop(self._visits)
            self._run_until_ns(due_ns)
            action()
        self._run_until_ns(until_ns)

    def visit(self, delay_s: float, action: Callable[[], None]) -> None:
        """Call `action` after a delay, while a caller sleeps: so observers see instances under load."""
        self._sequence += 1
        heappush(self._visits, (self.clock.now_ns + round(delay_s * SECOND), self._sequence, action))

    def _run_until_ns(self, until_ns: int) -> None:
        if until_ns > self.clock.now_ns:
            self.driver.run_for((until_ns - self.clock.now_ns) / SECOND)

    def run_until(self, condition: Callable[[], bool], *, limit_s: float = DAY_S) -> bool:
        """Let time pass until the condition holds; return False if the limit comes first."""
        return self.driver.run_until(condition, limit_s=limit_s)


def derived_seed(seed: int, *names: object) -> int:
    """Derive a seed for a part: equal for equal names, in any process."""
    digest = hashlib.sha256("/".join(str(part) for part in (seed, *names)).encode()).digest()
    return int.from_bytes(digest[:8], "big")


class VirtualBackground:
    """The background of a store: work is done at once, and known to the loop when it has taken its time."""

    def __init__(self, scheduler: Scheduler, flush_ns: Callable[[int], int]) -> None:
        self._scheduler = scheduler
        self._flush_ns = flush_ns

    def run(self, size_bytes: int, work: Callable[[], Any], on_done: Callable[[Any], None]) -> None:
        result = work()
        due_ns = self._scheduler.clock.now_ns + self._flush_ns(size_bytes)
        self._scheduler.call_at(due_ns, lambda: on_done(result))

    def run_long(self, work: Callable[[], Any], on_done: Callable[[Any], None]) -> None:
        self.run(0, work, on_done)

    def close(self) -> None: ...


class Server:
    """A computer with an instance. `start` and `crash` alternate; the rows on disk survive a crash."""

    def __init__(self, world: World, name: str, version: str) -> None:
        self.world = world
        self.name = name
        self.version = version
        self.starts = 0
        self.is_running = False
        self.disk = FaultyDisk(Dice(world.entropy(name, "disk")))
        self.has_lost_disk = False  # it has failed, which ends a process: `crash` comes
        self.disk_lost = Signal()

    def start(self) -> None:
        """Start the instance, empty or from what was on disk."""
        assert not self.is_running, f"{self.name} runs"
        assert not self.starts or self.world.is_recoverable, "the world is not recoverable"
        self.starts += 1
        self.scheduler = self.world.driver.scheduler()
        self.waits = WaitStatistics()
        entropy = self.world.entropy(self.name, self.starts)
        # The device has entropy of its own, so that the number of flushes does not change identifiers.
        device_entropy = self.world.entropy(self.name, self.starts, "log")
        self.computer = Computer(
            self.scheduler, self.waits, device_entropy, self.world.parameters, cores_of_all=self.world.cores
        )
        try:
            self.store = self._store()
        except (OSError, DamagedStore):
            self.world.driver.forget(self.scheduler)
            raise
        self.has_lost_disk = False
        transport = self.world.network.transport(self.name, self.scheduler)
        self.engine = Engine(
            name=self.name,
            version=self.version,
            scheduler=self.scheduler,
            entropy=entropy,
            store=self.store,
            transport=transport,
            platform=self.computer,
            waits=self.waits,
            activate=activate,
            sending_problem=sending_problem,
        )
        transport.broker = self.engine
        self.instance.usage = self.computer.usage
        self.engine.recover()
        self._spids = itertools.count(FIRST_SPID)
        self.is_running = True

    def _store(self) -> Store:
        log, flush_ns = self.world.parameters.log, self.computer.log.duration_ns
        if self.world.is_recoverable:
            return FileStore(
                self.disk,
                scheduler=self.scheduler,
                background=VirtualBackground(self.scheduler, flush_ns),
                lost=self._on_lost_disk,
                identity=self.name.encode().ljust(IDENTITY_BYTES),
                may_be_new=self.starts == 1,
                owner_of=database_of,
            )
        return MemoryStore(
            self.scheduler,
            flush_ns=flush_ns,
            flushes_in_flight=log.flushes_in_flight,
            record_overhead_bytes=log.record_overhead_bytes,
            is_recoverable=False,
            owner_of=database_of,
        )

    def _on_lost_disk(self, error: Exception) -> None:
        self.has_lost_disk = True
        self.disk_lost.notify_all()

    def crash(self) -> None:
        """Kill the instance: it loses what is not on disk, its connections break, and frames to it are lost."""
        assert self.is_running, f"{self.name} does not run"
        self.is_running = False
        self.world.network.down(self.name)
        self.world.driver.forget(self.scheduler)

    @property
    def instance(self) -> Instance:
        return Instance.of(self.engine)

    def session(self, *, login: str, database: str, program: str, is_administrative: bool = False) -> ClientSession:
        """Open a session as after a login, without a password; raise SqlServerError if the login may not enter."""
        if database.lower() not in self.engine.databases:
            raise SqlServerError(4060, database)
        login_ = self.engine.logins.get(login.lower())
        if login != "sa" and (login_ is None or login_.is_disabled):
            raise SqlServerError(18456, login)
        guard = of_login(self.instance, login)
        if guard is not None and guard.user_in(self.instance.database(database)) is None:
            raise SqlServerError(4060, database)
        return ClientSession(
            self.engine,
            spid=next(self._spids),
            login=login,
            database=database,
            program=program,
            host=self.name,
            is_administrative=is_administrative,
        )

    def finish(self, generator: Waiting[None], *, timeout_s: float, is_cancelled: Callable[[], bool]) -> str:
        """Let time pass until a statement ends; return "" or the SQLSTATE of what interrupted it."""
        if not self.is_running:
            generator.close()
            return "08S01"
        started = self.starts
        task = self.scheduler.spawn(_catching(generator), "statement")

        def is_over() -> bool:
            return task.state is TaskState.DONE or is_cancelled() or self.starts != started or not self.is_running

        self.world.run_until(is_over, limit_s=timeout_s or DAY_S)
        if task.state is TaskState.DONE:
            if task.result is not None:
                raise task.result
            return ""
        if self.starts != started or not self.is_running:
            return "08S01"
        self.scheduler.cancel(task)
        return "HY008" if is_cancelled() else "HYT00"


def _catching(generator: Waiting[None]) -> Waiting[Exception | None]:
    """Catch the error of a statement for its caller, so that it does not reach the driver."""
    try:
        yield from generator
    except Exception as error:
        return error
    return None
