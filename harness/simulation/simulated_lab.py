"""The lab in virtual time: whatever runs on a lab runs on this one, with the same scripts.

`open` gives empty instances, as every lab does; `harness.lab.link` installs the workload.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, cast

from harness.embedded.errors import SqlServerError
from harness.lab.drivers import Driver, Secret
from harness.lab.error_remedies import error_text
from harness.lab.instances import PROGRAM, STATEMENT_TIMEOUT_S, Instance, InstanceDied, Lab, LabError, Login
from harness.simulation.parameters import Parameters
from harness.simulation.virtual_connection import VirtualConnection, login_refused
from harness.simulation.world import Server, World
from harness.whitepaper import BROKER_PORT

if TYPE_CHECKING:
    import pyodbc

# Names the instance where a connection string is wanted; nobody connects with it.
NO_DRIVER = Driver("microsoft", "none: virtual time", "simulation")
TDS_PORT, ADMIN_PORT = 1433, 1434


@dataclass
class SimulatedInstance(Instance):
    """One instance in a world. A caller's statement takes virtual time, in which all other sessions go on."""

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
        return cast("pyodbc.Connection", self._open(self.login, database, query_timeout_s))

    def connect_admin(self, database: str | None = None) -> pyodbc.Connection:
        return cast("pyodbc.Connection", self._open(self.login, database, None, is_administrative=True))

    def connect_client(self) -> VirtualConnection:
        """Connect with the login of the test clients, which may only send."""
        return self._open(self.client, None, None)

    def _open(
        self, login: Login | None, database: str | None, timeout_s: int | None, *, is_administrative: bool = False
    ) -> VirtualConnection:
        self.check()
        assert login is not None, f"{self.name} has no login for clients: the lab is not linked"
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
        return VirtualConnection(session, self.server, timeout_s=timeout_s)

    def out_of_reach(self, port: int | None = None) -> str:
        return "" if self.server.is_running else f"{self.name} is down"

    def check(self) -> None:
        if reason := self.out_of_reach():
            raise InstanceDied(reason)


@dataclass
class SimulatedLab(Lab):
    """A lab with its world."""

    world: World = field(kw_only=True)


def open(
    parameters: Parameters, *, version: str, initiators: int, seed: int, is_recoverable: bool = False
) -> SimulatedLab:
    """Open a lab with a target and some initiators, all empty; `is_recoverable` as in `World`."""
    world = World(seed, parameters, is_recoverable=is_recoverable)
    numbers = range(1, initiators + 1)
    return SimulatedLab(
        "simulated",
        version,
        SimulatedInstance.on(world.server("target", version), "SSBTarget"),
        [SimulatedInstance.on(world.server(f"initiator-{n}", version), f"SSBInitiator{n}") for n in numbers],
        Path(),
        clock=world,
        world=world,
    )
