"""An embedded instance with a watched queue, and activators that read its notifications."""

import os
import secrets
import socket
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pyodbc
import pytest

from harness.lab import drivers, scripts
from harness.lab.drivers import Secret
from harness.lab.embedded_instances import HOST, read_ready_line
from harness.lab.processes import Child as Instance
from tests.processes import Child
from tests.waiting import wait_until

NAMES = {
    "Database": "Orders",
    "Queue": "dbo.Incoming",
    "NotificationQueue": "dbo.Activation",
    "NotificationService": "//Test/Activation",
    "Notification": "Incoming",
}
SCRIPTS = (
    *(f"target/{name}.sql" for name in ("message_drop", "receive_count", "message_errors")),
    *(f"activation/{name}.sql" for name in ("queue", "service", "notification")),
)
READER = (sys.executable, "-m", "harness.activator.reader", "--timeout-ms", "300", "--top", "20")


class Site:
    """A server with the database Orders, and the folder of an activator's file."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        (folder / "lines").touch()  # of activators
        self.password = Secret(secrets.token_urlsafe(16))
        with socket.socket() as free:
            free.bind((HOST, 0))
            self.port = free.getsockname()[1]
        self.start()
        with self.connect("master") as connection:
            connection.execute("CREATE DATABASE Orders;")
        with self.connect() as connection:
            for statement in (
                "CREATE QUEUE dbo.Outgoing;",
                "CREATE SERVICE Sender ON QUEUE dbo.Outgoing;",
                # Readers that are killed roll back.
                "CREATE QUEUE dbo.Incoming WITH POISON_MESSAGE_HANDLING (STATUS = OFF);",
                "CREATE SERVICE Receiver ON QUEUE dbo.Incoming ([DEFAULT]);",
            ):
                connection.execute(statement)
            for _ in range(2):  # a second run changes nothing
                for script in SCRIPTS:
                    scripts.run(connection, script, NAMES)

    def start(self) -> None:
        self.server = Instance(
            "server",
            [sys.executable, "-m", "harness", "serve", "--port", str(self.port), "--data", "data", "--throwaway"],
            log=self.folder / "server.log",
            environment={"HARNESS_PASSWORD": self.password},
            pipe_stdout=True,
        )
        read_ready_line(self.server)

    def connect(self, database: str = "Orders") -> pyodbc.Connection:
        return drivers.connect(
            drivers.choose().connection_string(
                host=HOST, port=self.port, user="sa", password=self.password, database=database, program="tests"
            )
        )

    def send(self, connection: pyodbc.Connection, *bodies: bytes | None, last: bool = True) -> str:
        """Send messages on a dialog of their own, which `last` ends."""
        begin = "BEGIN DIALOG @h FROM SERVICE Sender TO SERVICE 'Receiver' WITH ENCRYPTION = OFF; SELECT @h;"
        handle = connection.execute(f"SET NOCOUNT ON; DECLARE @h uniqueidentifier; {begin}").fetchval()
        for body in bodies:
            if body is None:
                connection.execute(f"SEND ON CONVERSATION '{handle}';")
            else:
                connection.execute(f"SEND ON CONVERSATION '{handle}' (?);", body)
        if last:
            connection.execute(f"END CONVERSATION '{handle}';")
        return str(handle)

    def stored(self, connection: pyodbc.Connection) -> list[bytes]:
        rows = connection.execute("SELECT messageVal FROM dbo.messageDrop ORDER BY id;").fetchall()
        return [bytes(row[0]) for row in rows]

    def write(self, command: Sequence[str] = READER, **keys: int) -> Path:
        """Write the activator's file."""
        more = "".join(f"{name} = {value}\n" for name, value in keys.items())
        file = self.folder / "a.toml"
        file.write_text(
            f'[server]\nhost = "{HOST}"\nport = {self.port}\nuser = "sa"\ntrust_server_certificate = true\ndatabase = "Orders"\n'
            f'notification_queue = "dbo.Activation"\n[[queue]]\nname = "dbo.Incoming"\ncommand = {list(command)}\n{more}'
        )
        return file

    def activator(self, *words: str, **more: Any) -> Child:
        """An activator of its own process; its lines are in `lines()`."""
        with (self.folder / "lines").open("ab") as output:
            return Child(
                [sys.executable, "-m", "harness", "activator", str(self.folder / "a.toml"), *words],
                env={**os.environ, "HARNESS_PASSWORD": self.password, "PYTHONUNBUFFERED": "1"},
                stdout=output,
                stderr=output,
                **more,
            )

    def lines(self, containing: str = "") -> list[str]:
        return [line for line in (self.folder / "lines").read_text().splitlines() if containing in line]

    def wait_for_line(self, containing: str, count: int = 1) -> list[str]:
        return wait_until(lambda: len(found := self.lines(containing)) >= count and found)


@pytest.fixture
def site(tmp_path, monkeypatch) -> Iterator[Site]:
    monkeypatch.chdir(tmp_path)
    site = Site(tmp_path)
    try:
        yield site
    finally:
        site.server.stop()
