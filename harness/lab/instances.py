"""A lab and its instances: how to connect to them, and whether they are alive."""

import contextlib
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, ClassVar, Protocol, TypeVar

from harness.definitions.lab_kinds import LabKind
from harness.definitions.matrix import INITIATORS_MAX
from harness.failures import MachineFailure
from harness.files import workload_file
from harness.files.script_text import ScriptError
from harness.files.workload_file import Names, Workload
from harness.lab import drivers, error_remedies, interruption
from harness.lab.control_groups import ControlGroup
from harness.lab.drivers import Connection, Driver, OdbcError, Secret
from harness.lab.error_remedies import error_text
from harness.lab.log_storage import LogStorage
from harness.lab.placement import Placement
from harness.lab.processes import Process, stop_all

Result = TypeVar("Result")

PROGRAM = "service-broker-harness"
# The sides of the largest lab: the instance's name and its database's.
SIDES = (
    ("target", "SSBTarget"),
    *((f"initiator-{number}", f"SSBInitiator{number}") for number in range(1, INITIATORS_MAX + 1)),
)
# An instance may count an administrator connection for some time after it was closed.
ADMIN_TIMEOUT_S = 5.0
_ADMIN_POLL_S = 0.2
_ADMIN_TAKEN = "(error 17810)"
# A statement that takes longer is blocked by something. Ten minutes suffice to zero a large log file.
STATEMENT_TIMEOUT_S = 600


class LabError(MachineFailure):
    """The lab cannot do what was asked. The message says which part and why."""


class InstanceDied(LabError):
    """An instance that should run has ended."""


class InstanceSilent(LabError):
    """An instance that runs, as far as anybody knows, answers no more."""


class ProcedureFails(LabError):
    """The target's activation procedure has processed no message, and another attempt would fail the same way."""


@dataclass(frozen=True)
class Login:
    """A SQL login, or an application that Microsoft Entra knows. Integrated authentication has none: the operating
    system vouches for this process's user."""

    user: str
    password: Secret
    is_entra: bool = False


class Clock(Protocol):
    """The clock of a lab. A simulated lab has its own."""

    def now_s(self) -> float:
        """Return seconds since any origin; they never go back."""
        ...

    def utc_ns(self) -> int:
        """Return nanoseconds since 1970-01-01 UTC."""
        ...

    def sleep(self, duration_s: float) -> None: ...


class RealClock:
    now_s = staticmethod(time.monotonic)
    utc_ns = staticmethod(time.time_ns)
    sleep = staticmethod(time.sleep)


@dataclass(frozen=True)
class Security:
    """Which traffic is encrypted. In the paper: dialogs, but not in addition the connections between endpoints."""

    dialog: bool = True
    endpoint_encryption: bool = False


@dataclass
class Instance:
    """One instance of SQL Server (or its substitute) with the one database that the lab uses on it."""

    takes_turns: ClassVar[bool] = False  # its calls must not run in parallel: simulated instances share virtual time

    name: str  # target | initiator-1 ...
    database: str  # SSBTarget | SSBInitiator1 ...
    host: str
    port: int
    broker_port: int  # where its Service Broker endpoint listens
    driver: Driver
    login: Login | None  # None: integrated authentication
    process: Process | None = field(default=None, repr=False)
    broker_host: str = ""  # the host by which the other instances reach it; "": `host`
    listener_ip: str = "ALL"  # the address on which its endpoint listens, as T-SQL writes it: ALL or (127.0.0.1)
    admin_port: int | None = None  # of the dedicated administrator connection; None: there is none
    encrypt: drivers.Encryption = "optional"
    trust_server_certificate: bool = True
    control_group: ControlGroup | None = field(default=None, repr=False)  # of its container on this machine
    log_storage: LogStorage | None = field(default=None, repr=False)  # of its container, likewise
    silence: str = ""  # for how long it has not answered, once it counts as dead (`lab.pulse`)
    may_be_silent: bool = False  # it is being restarted, so that it does not count as dead
    client: Login | None = None  # the test clients' own login, once the lab is linked
    names: Names = field(default_factory=Names, repr=False)  # of the lab's workload, once the lab is linked
    retention: bool = False  # of its queue, likewise

    is_existing: bool = False  # the database is an application's: only what its ledger lists is the harness's
    kept: frozenset[str] = frozenset()  # of QUEUE, SERVICE and PROCEDURE of the workload: those that were there before

    @property
    def service(self) -> str:
        """This side's service."""
        return self.names.target_service if self.name == SIDES[0][0] else self.names.initiator_service

    @property
    def queue(self) -> str:
        """This side's queue, with its schema."""
        return self.names.target_queue if self.name == SIDES[0][0] else self.names.initiator_queue

    @property
    def variables(self) -> dict[str, str]:
        """The variables of sqlcmd that name what scripts create and use here."""
        return {
            "Database": self.database,
            "MessageType": self.names.message_type,
            "Contract": self.names.contract,
            "Service": self.service,
            "TargetService": self.names.target_service,
            "Queue": self.queue,
        }

    @property
    def broker_address(self) -> str:
        """The address by which a route names it."""
        return f"TCP://{self.broker_host or self.host}:{self.broker_port}"

    def connection_string(self, database: str | None = None) -> Secret:
        return self._connection_string(self.login, self.port, database or self.database)

    def client_connection_string(self) -> Secret:
        """Return the connection string of the test clients, who may only send."""
        assert self.client is not None, f"{self.name} has no login for clients: the lab is not linked"
        return self._connection_string(self.client, self.port, self.database)

    def _connection_string(self, login: Login | None, port: int, database: str) -> Secret:
        return self.driver.connection_string(
            host=self.host,
            port=port,
            user=login.user if login else None,
            password=login.password if login else None,
            is_entra=login is not None and login.is_entra,
            database=database,
            program=PROGRAM,
            encrypt=self.encrypt,
            trust_server_certificate=self.trust_server_certificate,
        )

    def connect(self, database: str | None = None, *, query_timeout_s: int | None = None) -> Connection:
        """Open a connection with autocommit. Raises LabError, or InstanceDied if the instance has ended."""
        return self._connect(self.connection_string(database), self.port, query_timeout_s)

    def connect_admin(self, database: str | None = None) -> Connection:
        """Open the dedicated administrator connection, which alone may read system base tables.

        An instance has only one: close it at once. The server frees its place some time after that, so a place that is
        taken is asked for again for some seconds. Raises LabError if it is refused.
        """
        if self.admin_port is None:
            raise LabError(f"{self.name} has no dedicated administrator connection")
        connection_string = self._connection_string(self.login, self.admin_port, database or self.database)
        deadline = time.monotonic() + ADMIN_TIMEOUT_S
        while True:
            try:
                return self._connect(connection_string, self.admin_port, None)
            except LabError as error:
                if _ADMIN_TAKEN not in str(error) or time.monotonic() > deadline:
                    raise
            self.check()
            time.sleep(_ADMIN_POLL_S)

    def _connect(self, connection_string: Secret, port: int, query_timeout_s: int | None) -> Connection:
        self.check()
        # Never a knock on the administrator's port: the server may count it as the one connection.
        if reason := self.out_of_reach():
            self.check()
            raise LabError(reason)
        try:
            connection = drivers.connect(connection_string)
        except OdbcError as error:
            self.check()
            strict = ' (encrypt = "strict" needs SQL Server 2022 or later)' if self.encrypt == "strict" else ""
            raise LabError(f"{self.name} ({self.host}:{port}): {error_text(error)}{strict}") from None
        connection.timeout = STATEMENT_TIMEOUT_S if query_timeout_s is None else query_timeout_s
        return connection

    def out_of_reach(self) -> str:
        """Return why nobody can connect to it, in one line; "" if somebody can."""
        reason = error_remedies.out_of_reach(self.host, self.port)
        return f"{self.name} ({self.host}:{self.port}): {reason}" if reason else ""

    def check(self) -> None:
        """Raise InstanceDied, with signal and last line of the log, if its process has ended, or InstanceSilent."""
        if self.process is not None and (death := self.process.death()):
            raise InstanceDied(death)
        if self.silence:
            raise InstanceSilent(self.silence)


class ReconnectingConnection:
    """One thread's connection to an instance, opened on first use, and again after `drop`."""

    def __init__(self, instance: Instance, *, query_timeout_s: int) -> None:
        self._instance = instance
        self._query_timeout_s = query_timeout_s
        self._connection: Connection | None = None

    def get(self) -> Connection:
        if self._connection is None:
            self._connection = self._instance.connect(query_timeout_s=self._query_timeout_s)
        return self._connection

    def drop(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            interruption.close(connection)


@dataclass
class Lab:
    """Linked instances, ready for dialogs. Everything else is T-SQL."""

    kind: LabKind
    version: str
    target: Instance
    initiators: list[Instance]
    directory: Path
    prefix: str = ""  # of the name of every object outside the lab's databases
    security: Security = field(default_factory=Security)
    workload: Workload = field(default_factory=workload_file.paper, repr=False)
    variables: dict[str, str] = field(default_factory=dict)  # of sqlcmd, common to all instances
    identities: list[dict[str, Any]] = field(default_factory=list)  # rows of observe/instance.sql, target first
    clock: Clock = field(default_factory=RealClock, repr=False)
    watch: Callable[[], None] = field(default=lambda: None, repr=False)  # raises to end whatever waits for the lab
    placement: Placement = field(default_factory=Placement, repr=False)  # where the parts run, once the lab is open
    end_pulse: Callable[[], None] = field(default=lambda: None, repr=False)  # before whatever closes the lab

    @property
    def instances(self) -> list[Instance]:
        return [self.target, *self.initiators]

    def check(self) -> None:
        """Raise InstanceDied or InstanceSilent if an instance is lost. Every loop that waits for the lab calls it."""
        self.watch()
        for instance in self.instances:
            instance.check()

    def close(self) -> None:
        stop_all([instance.process for instance in self.instances if instance.process is not None])


def in_parallel(
    action: Callable[..., Result], *arguments: Iterable[Any], on_interrupt: Callable[[], None] = lambda: None
) -> list[Result]:
    """Map with one native thread a call, since calls block in the driver. Raises the first error after all have ended.

    Calls for instances that take turns run one after the other in this thread. A ScriptError names the instance, if an
    Instance is among the action's arguments. Ctrl-C cancels running statements; `on_interrupt` may end whatever else
    the calls wait for.
    """
    rows = list(zip(*arguments, strict=True))

    def named(*row: Any) -> Result:
        try:
            return action(*row)
        except ScriptError as error:
            names = [value.name for value in row if isinstance(value, Instance)]
            raise type(error)(": ".join([*names, str(error)])) from None

    if any(value.takes_turns for row in rows for value in row if isinstance(value, Instance)):
        return [named(*row) for row in rows]
    return interruption.call_all([partial(named, *row) for row in rows], on_interrupt)


@contextlib.contextmanager
def connections(instances: Sequence[Instance], database: str | None = None) -> Iterator[list[Connection]]:
    """Open a connection to each instance, and close them at the end."""
    opened = in_parallel(lambda instance: instance.connect(database), instances)
    try:
        yield opened
    finally:
        for connection in opened:
            interruption.close(connection)
