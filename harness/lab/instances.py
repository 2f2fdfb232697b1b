"""What a lab consists of: instances that can be connected to, and their state of health."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Protocol, TypeVar

from harness.failures import MachineFailure
from harness.lab import drivers, error_remedies, interruption
from harness.lab.drivers import Driver, Secret
from harness.lab.error_remedies import error_text
from harness.lab.processes import Process, stop_all
from harness.lab.scripts import ScriptError

if TYPE_CHECKING:
    import pyodbc

Result = TypeVar("Result")

PROGRAM = "service-broker-harness"
# A statement that takes longer is blocked by something. Ten minutes are enough to zero a large log file.
STATEMENT_TIMEOUT_S = 600


class LabError(MachineFailure):
    """The lab cannot do what was asked; the message says which part and why."""


class InstanceDied(LabError):
    """An instance has ended that should run."""


@dataclass(frozen=True)
class Login:
    """Who signs in. Integrated authentication has no login: the operating system vouches for this process's user."""

    user: str
    password: Secret


class Clock(Protocol):
    """Where those who wait for a lab have the time from; a simulated lab has its own."""

    def now_s(self) -> float:
        """Monotonic, from any origin."""
        ...

    def utc_ns(self) -> int:
        """Nanoseconds since 1970-01-01 UTC."""
        ...

    def sleep(self, duration_s: float) -> None: ...


class RealClock:
    now_s = staticmethod(time.monotonic)
    utc_ns = staticmethod(time.time_ns)
    sleep = staticmethod(time.sleep)


@dataclass(frozen=True)
class Security:
    """What is encrypted. The paper: dialogs are, the way between endpoints is not again."""

    dialog: bool = True
    endpoint_encryption: bool = False


@dataclass
class Instance:
    """One instance of SQL Server (or what stands for it) with the one database that the lab uses on it."""

    takes_turns: ClassVar[bool] = False  # its calls must not run beside others: virtual time is one for all

    name: str  # target | initiator-1 ...
    database: str  # SSBTarget | SSBInitiator1 ...
    host: str
    port: int
    broker_port: int  # where its Service Broker endpoint listens
    driver: Driver
    login: Login | None  # None: integrated authentication
    process: Process | None = field(default=None, repr=False)
    broker_host: str = ""  # what the other instances call it, where that is not `host`
    listener_ip: str = "ALL"  # where its endpoint listens, as T-SQL has it: ALL or one address (127.0.0.1)
    admin_port: int | None = None  # of the dedicated administrator connection; None: not to be had
    encrypt: str = "optional"
    trust_server_certificate: bool = True
    client: Login | None = None  # the test clients' own login, once the lab is linked

    @property
    def broker_address(self) -> str:
        """As a route names it."""
        return f"TCP://{self.broker_host or self.host}:{self.broker_port}"

    def connection_string(self, database: str | None = None) -> Secret:
        return self._connection_string(self.login, self.port, database or self.database)

    def client_connection_string(self) -> Secret:
        """For the test clients, who may do nothing but send."""
        assert self.client is not None, f"{self.name} has no login for clients: the lab is not linked"
        return self._connection_string(self.client, self.port, self.database)

    def _connection_string(self, login: Login | None, port: int, database: str) -> Secret:
        return self.driver.connection_string(
            host=self.host,
            port=port,
            user=login.user if login else None,
            password=login.password if login else None,
            database=database,
            program=PROGRAM,
            encrypt=self.encrypt,
            trust_server_certificate=self.trust_server_certificate,
        )

    def connect(self, database: str | None = None, *, query_timeout_s: int | None = None) -> pyodbc.Connection:
        """A connection with autocommit; LabError, or InstanceDied, where there is none to be had."""
        return self._connect(self.connection_string(database), self.port, query_timeout_s)

    def connect_admin(self, database: str | None = None) -> pyodbc.Connection:
        """The dedicated administrator connection, which alone may read system base tables. There is one an instance:
        close it at once. LabError where it is refused."""
        if self.admin_port is None:
            raise LabError(f"{self.name} has no dedicated administrator connection")
        connection_string = self._connection_string(self.login, self.admin_port, database or self.database)
        return self._connect(connection_string, self.admin_port, None)

    def _connect(self, connection_string: Secret, port: int, query_timeout_s: int | None) -> pyodbc.Connection:
        import pyodbc  # noqa: PLC0415

        pyodbc.pooling = False
        if reason := self.out_of_reach(port):
            self.check()
            raise LabError(reason)
        try:
            connection = pyodbc.connect(connection_string, autocommit=True, timeout=drivers.login_timeout_s())
        except pyodbc.Error as error:
            self.check()
            raise LabError(f"{self.name} ({self.host}:{port}): {error_text(error)}") from None
        connection.timeout = STATEMENT_TIMEOUT_S if query_timeout_s is None else query_timeout_s
        return connection

    def out_of_reach(self, port: int | None = None) -> str:
        """Why nobody can connect to it, in one line; "" if somebody can."""
        reason = error_remedies.out_of_reach(self.host, port or self.port)
        return f"{self.name} ({self.host}:{port or self.port}): {reason}" if reason else ""

    def check(self) -> None:
        """InstanceDied, with its signal and its last words, if its process has ended."""
        if self.process is not None and (death := self.process.death()):
            raise InstanceDied(death)


@dataclass
class Lab:
    """Linked instances, ready for dialogs. Everything further is T-SQL."""

    place: Literal["embedded", "containers", "servers", "simulated"]
    version: str
    target: Instance
    initiators: list[Instance]
    directory: Path
    prefix: str = ""  # begins the name of every object outside the lab's databases
    security: Security = field(default_factory=Security)
    variables: dict[str, str] = field(default_factory=dict)  # of sqlcmd, beside those of each instance
    identities: list[dict[str, Any]] = field(default_factory=list)  # rows of observe/instance.sql, target first
    clock: Clock = field(default_factory=RealClock, repr=False)
    watch: Callable[[], None] = field(default=lambda: None, repr=False)  # raises to end whatever waits for the lab

    @property
    def instances(self) -> list[Instance]:
        return [self.target, *self.initiators]

    def check(self) -> None:
        """InstanceDied if one has; every loop that waits for the lab calls it."""
        self.watch()
        for instance in self.instances:
            instance.check()

    def close(self) -> None:
        stop_all([instance.process for instance in self.instances if instance.process is not None])


def in_parallel(
    action: Callable[..., Result], *arguments: Iterable[Any], on_interrupt: Callable[[], None] = lambda: None
) -> list[Result]:
    """`map` with one native thread each, for calls that block in the driver; raises the first error after all ended.
    With instances that take turns it is `map`, in this thread.

    A script that fails is told with the instance's name, if an Instance is among the action's arguments.
    On Ctrl-C statements under way are cancelled, and `on_interrupt` may end what else the calls wait for.
    """
    rows = list(zip(*arguments, strict=True))

    def named(*row: Any) -> Result:
        try:
            return action(*row)
        except ScriptError as error:
            names = [value.name for value in row if isinstance(value, Instance)]
            raise ScriptError(": ".join([*names, str(error)])) from None

    if any(value.takes_turns for row in rows for value in row if isinstance(value, Instance)):
        return [named(*row) for row in rows]
    with ThreadPoolExecutor(max(1, len(rows))) as pool:
        futures = [pool.submit(named, *row) for row in rows]
        try:
            return [future.result() for future in futures]
        except KeyboardInterrupt:
            on_interrupt()
            interruption.cancel(futures)
            raise


@contextlib.contextmanager
def connections(instances: Sequence[Instance], database: str | None = None) -> Iterator[list[pyodbc.Connection]]:
    """A connection to each, closed at the end."""
    opened = in_parallel(lambda instance: instance.connect(database), instances)
    try:
        yield opened
    finally:
        for connection in opened:
            with contextlib.suppress(Exception):
                connection.close()
