"""What a lab consists of: instances that can be connected to, and their state of health."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from harness.failures import MachineFailure
from harness.lab import drivers
from harness.lab.drivers import Driver, Secret
from harness.lab.processes import Child, stop_all

if TYPE_CHECKING:
    import pyodbc

Result = TypeVar("Result")

PROGRAM = "service-broker-harness"


class LabError(MachineFailure):
    """The lab cannot do what was asked; the message says which part and why."""


class InstanceDied(LabError):
    """An instance has ended that should run."""


@dataclass
class Instance:
    """One instance of SQL Server (or what stands for it) with the one database that the lab uses on it."""

    name: str  # target | initiator-1 ...
    database: str  # SSBTarget | SSBInitiator1 ...
    host: str
    port: int
    broker_port: int  # where its Service Broker endpoint listens
    driver: Driver
    user: str
    password: Secret
    process: Child | None = field(default=None, repr=False)

    @property
    def broker_address(self) -> str:
        """As a route names it."""
        return f"TCP://{self.host}:{self.broker_port}"

    def connection_string(self, database: str | None = None, *, program: str = PROGRAM) -> Secret:
        return self.driver.connection_string(
            host=self.host,
            port=self.port,
            user=self.user,
            password=self.password,
            database=database or self.database,
            program=program,
        )

    def connect(self, database: str | None = None, *, query_timeout_s: int = 0) -> pyodbc.Connection:
        """A connection with autocommit; LabError, or InstanceDied, where there is none to be had."""
        import pyodbc  # noqa: PLC0415

        pyodbc.pooling = False
        try:
            connection = pyodbc.connect(
                self.connection_string(database), autocommit=True, timeout=drivers.login_timeout_s()
            )
        except pyodbc.Error as error:
            self.check()
            from harness.lab.scripts import error_text  # noqa: PLC0415

            raise LabError(f"{self.name} ({self.host}:{self.port}): {error_text(error)}") from None
        connection.timeout = query_timeout_s
        return connection

    def check(self) -> None:
        """InstanceDied, with its signal and its last words, if its process has ended."""
        if self.process is not None and (death := self.process.death()):
            raise InstanceDied(death)


@dataclass
class Lab:
    """Linked instances, ready for dialogs. Everything further is T-SQL."""

    kind: str
    version: str
    target: Instance
    initiators: list[Instance]
    directory: Path
    variables: dict[str, str] = field(default_factory=dict)  # of sqlcmd, beside those of each instance
    identities: list[dict[str, Any]] = field(default_factory=list)  # rows of observe/instance.sql, target first
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

    Nothing can interrupt a call inside the driver. On Ctrl-C `on_interrupt` may end what the calls wait for.
    """
    rows = list(zip(*arguments, strict=True))
    with ThreadPoolExecutor(max(1, len(rows))) as pool:
        futures = [pool.submit(action, *row) for row in rows]
        try:
            return [future.result() for future in futures]
        except KeyboardInterrupt:
            on_interrupt()
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
