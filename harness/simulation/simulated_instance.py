"""An instance of the lab whose connections run in virtual time."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, ClassVar, cast

from harness.embedded.errors import SqlServerError
from harness.lab.drivers import Driver, Secret
from harness.lab.error_remedies import error_text
from harness.lab.instances import PROGRAM, STATEMENT_TIMEOUT_S, Instance, InstanceDied, LabError, Login
from harness.simulation.virtual_connection import VirtualConnection, login_refused
from harness.simulation.world import Server
from harness.whitepaper import BROKER_PORT

if TYPE_CHECKING:
    import pyodbc

# Nobody connects by it; it names the instance where a connection string is asked for.
NO_DRIVER = Driver("microsoft", "none: virtual time", "simulation")
TDS_PORT, ADMIN_PORT = 1433, 1434


@dataclass
class SimulatedInstance(Instance):
    """One instance in a world. Sessions share its time: whoever executes waits, and the others go on."""

    takes_turns: ClassVar[bool] = True

    server: Server = field(kw_only=True)

    @classmethod
    def on(cls, server: Server, database: str) -> SimulatedInstance:
        return cls(
            server.name,
            database,
            server.name,
            TDS_PORT,
            BROKER_PORT,
            NO_DRIVER,
            Login("sa", Secret("")),
            admin_port=ADMIN_PORT,
            server=server,
        )

    def connect(self, database: str | None = None, *, query_timeout_s: int | None = None) -> pyodbc.Connection:
        return self._opened(self.login, database, query_timeout_s)

    def connect_admin(self, database: str | None = None) -> pyodbc.Connection:
        return self._opened(self.login, database, None, is_administrative=True)

    def connect_client(self) -> VirtualConnection:
        """As a test client, who may do nothing but send."""
        assert self.client is not None, f"{self.name} has no login for clients: the lab is not linked"
        return cast(VirtualConnection, self._opened(self.client, None, None))

    def _opened(
        self, login: Login | None, database: str | None, timeout_s: int | None, *, is_administrative: bool = False
    ) -> pyodbc.Connection:
        self.check()
        assert login is not None
        try:
            session = self.server.session(
                login=login.user,
                database=database or self.database,
                program=PROGRAM,
                is_administrative=is_administrative,
            )
        except SqlServerError as error:
            raise LabError(f"{self.name}: {error_text(login_refused(error))}") from None
        timeout_s = STATEMENT_TIMEOUT_S if timeout_s is None else timeout_s
        return cast("pyodbc.Connection", VirtualConnection(session, self.server.finish, timeout_s=timeout_s))

    def out_of_reach(self, port: int | None = None) -> str:
        return "" if self.server.is_running else f"{self.name} is down"

    def check(self) -> None:
        if reason := self.out_of_reach():
            raise InstanceDied(reason)
