"""Instances with T-SQL in virtual time, joined by a network in memory."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from harness.embedded.broker.engine import Engine
from harness.embedded.runtime.platform import WaitStatistics
from harness.embedded.runtime.tasks import Waiting
from harness.embedded.runtime.virtual import SeededEntropy, VirtualClock, VirtualDriver
from harness.embedded.sqltypes import BIGINT, INT, MAX, UNIQUEIDENTIFIER, Column, Parameter, ResultSink, SqlType
from harness.embedded.store.memory_store import MemoryStore
from harness.embedded.tsql.instance.instance import Instance
from harness.embedded.tsql.requests import ClientSession, activate, sending_problem
from harness.embedded.tsql.storage.tables import database_of
from harness.embedded.versions import NEWEST
from harness.lab.scripts import load
from tests.embedded.broker.world import Network, flush_ns
from tests.latching import LatchingPlatform

LISTINGS = Path(__file__).parent.parent.parent / "listings"


TABLE = """
CREATE TABLE dbo.t (id int IDENTITY NOT NULL CONSTRAINT PK_t PRIMARY KEY, n int NOT NULL, name nvarchar(10) NULL);
GO
"""


class Message(Exception):
    """An error the client would see."""

    def __init__(self, number: int, severity: int, text: str, procedure: str, line: int) -> None:
        super().__init__(f"Msg {number}, Level {severity}, {procedure or 'batch'}, Line {line}: {text}")
        self.number, self.severity, self.text, self.procedure, self.line = number, severity, text, procedure, line


class Results(ResultSink):
    """Keeps all results."""

    def __init__(self) -> None:
        self.sets: list[tuple[list[Column], list[tuple[Any, ...]]]] = []
        self.counts: list[int | None] = []
        self.messages: list[Message] = []
        self.status: int | None = None
        self.values: dict[str, Any] = {}
        self.databases: list[str] = []

    def columns(self, columns: Sequence[Column]) -> None:
        self.sets.append((list(columns), []))

    def rows(self, rows: Sequence[Sequence[Any]]) -> None:
        columns, kept = self.sets[-1]
        kept.extend(tuple(row) for row in rows)
        # TDS sends such a column with a fixed type, which has no NULL.
        for place, column in enumerate(columns):
            assert column.nullable or all(row[place] is not None for row in kept), column

    def done(self, row_count: int | None, *, in_procedure: bool) -> None:
        self.counts.append(row_count)

    def message(self, number: int, severity: int, state: int, text: str, procedure: str, line: int) -> None:  # noqa: PLR0917
        self.messages.append(Message(number, severity, text, procedure, line))

    def return_status(self, value: int) -> None:
        self.status = value

    def return_value(self, ordinal: int, name: str, type: SqlType, value: Any) -> None:
        self.values[name] = value

    def database_changed(self, old: str, new: str) -> None:
        self.databases.append(new)

    @property
    def errors(self) -> list[Message]:
        return [message for message in self.messages if message.severity > 10]

    @property
    def prints(self) -> list[str]:
        return [message.text for message in self.messages if message.number == 0]


class _Transport:
    def __init__(self, side: Side) -> None:
        self._side = side

    def listen(self, host: str, port: int) -> None:
        self._side.world.network.listening["127.0.0.1", port] = self._side  # type: ignore[assignment]

    def stop(self) -> None:
        pass

    def send(self, address: tuple[str, int], frames: Sequence[Any]) -> None:
        self._side.world.network.carry(self._side.engine.clock.now_ns, address, frames)


class World:
    def __init__(self) -> None:
        self.clock = VirtualClock()
        self.driver = VirtualDriver(self.clock)
        self.network = Network()
        self.seed = 0
        self.latch_ns = 0  # how long a change of a row holds the latch of its page; 0 for no latches

    def side(self, name: str, version: str = NEWEST, *, set_up: str = "") -> Side:
        """A new instance, after the batches of `set_up` between its lines GO."""
        self.seed += 1
        side = Side(self, name, self.seed, version)
        side.set_up(set_up)
        return side

    def run_for(self, seconds: float) -> None:
        self.driver.run_for(seconds)


class Batches:
    """What most tests do with an instance. Errors are raised, except by `results` and `error`."""

    def results(self, text: str, session: Any = None) -> Any:
        """The results of a batch, including its errors."""
        raise NotImplementedError

    def run(self, text: str, session: Any = None) -> Any:
        results = self.results(text, session)
        if results.errors:
            raise results.errors[0]
        return results

    def set_up(self, batches: str) -> None:
        for batch in filter(None, batches.split("GO\n")):
            self.run(batch)

    def rows(self, text: str, session: Any = None) -> list[tuple[Any, ...]]:
        """The rows of the first result set of a batch."""
        return self.run(text, session).sets[0][1]

    def value(self, text: str, session: Any = None) -> Any:
        return self.rows(text, session)[0][0]

    def error(self, text: str, session: Any = None) -> Any:
        """The first error of a batch that must have one."""
        return self.results(text, session).errors[0]


class Side(Batches):
    """An instance with a session."""

    def __init__(self, world: World, name: str, seed: int, version: str) -> None:
        self.world, self.name, self.seed, self.version = world, name, seed, version
        self.start({})

    def start(self, rows: dict[Any, Any]) -> None:
        self.scheduler = self.world.driver.scheduler()
        self.store = MemoryStore(self.scheduler, rows=rows, flush_ns=flush_ns, owner_of=database_of)
        waits = WaitStatistics()
        latches = LatchingPlatform(self.scheduler, waits, hold_ns=self.world.latch_ns) if self.world.latch_ns else None
        self.engine = Engine(
            name=self.name,
            version=self.version,
            scheduler=self.scheduler,
            entropy=SeededEntropy(self.seed),
            store=self.store,
            transport=_Transport(self),
            platform=latches,
            waits=waits,
            activate=activate,
            sending_problem=sending_problem,
        )
        self.instance = Instance.of(self.engine)
        self.engine.recover()
        self.spids = 50
        self.session = self.connect("master")

    def crash(self) -> None:
        """Restart from what was on disk, as after kill -9."""
        self.world.driver.forget(self.scheduler)
        self.start(self.store.rows)

    def connect(self, database: str, *, is_administrative: bool = False) -> ClientSession:
        self.spids += 1
        return ClientSession(
            self.engine,
            spid=self.spids,
            login="sa",
            database=database,
            program="tests",
            host="here",
            is_administrative=is_administrative,
        )

    def arrive_at(self, when_ns: int, frame: Any) -> None:
        self.scheduler.call_at(when_ns, lambda: self.engine.on_frames("peer", [frame]))

    def finish(self, generator: Waiting[Any]) -> Any:
        return self.world.driver.finish(self.scheduler, generator)

    def results(self, text: str, session: ClientSession | None = None) -> Results:
        """The results of a batch, including its errors."""
        results = Results()
        self.finish((session or self.session).batch(text, results))
        return results

    def call(self, procedure: str, *values: Any, session: ClientSession | None = None, **named: Any) -> Results:
        """Call a procedure with parameters of the types that drivers choose."""
        parameters = [_parameter("", value) for value in values]
        parameters += [_parameter("@" + name, value) for name, value in named.items()]
        return self.rpc(procedure, parameters, session=session)

    def rpc(self, procedure: str, parameters: Sequence[Parameter], session: ClientSession | None = None) -> Results:
        results = Results()
        self.finish((session or self.session).rpc(procedure, parameters, results))
        if results.errors:
            raise results.errors[0]
        return results

    def script(self, path: str, **variables: str) -> list[Results]:
        """Run a file of `sql/`, batch by batch."""
        return [self.run(batch.text) for batch in load(path, variables)]


def _parameter(name: str, value: Any) -> Parameter:
    if isinstance(value, Parameter):
        return value
    if isinstance(value, bytes):
        type_ = SqlType("varbinary", length=8000 if len(value) <= 8000 else MAX)
    elif isinstance(value, int):
        type_ = INT if -(2**31) <= value < 2**31 else BIGINT
    elif isinstance(value, str) and len(value) == 36 and value.count("-") == 4:
        type_ = UNIQUEIDENTIFIER
    else:
        type_ = SqlType("nvarchar", length=4000)
    return Parameter(name, type_, value, False)
