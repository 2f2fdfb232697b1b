"""The activator's file: where notifications arrive, and which program reads which queue.

```toml
logs = "logs"                          # folder for the output of the programs, beside this file

[server]                               # as in lab.toml
host = "sql1.example"
port = 1433
user = "harness"                       # its password: HARNESS_PASSWORD
trust_server_certificate = true        # default: false, it is verified
database = "Orders"
notification_queue = "dbo.Activation"  # what sql/activation/queue.sql has created

[[queue]]                              # one for each queue with an event notification
name = "dbo.Incoming"
database = "Orders"                    # default: that of the server
command = [".venv/bin/python", "-m", "harness.activator.reader"]
min = 0                                # processes at a time
max = 4
```

A program finds HARNESS_READER_HOST, _PORT, _USER, _DATABASE, _QUEUE and the like in its environment, and
HARNESS_PASSWORD.
"""

import os
import re
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from pydantic import AfterValidator, BaseModel, ConfigDict, Field

from harness.failures import UsageFailure
from harness.files import toml_file
from harness.files.lab_file import LoginKeys, Word, check_login, refuse_passwords
from harness.lab.drivers import Driver, Secret

PASSWORD = "HARNESS_PASSWORD"
PROGRAM = "service-broker-harness activator"
PROCESSES_MAX = 1000


def _queue_name(text: str) -> str:
    """Go into T-SQL as it is."""
    if not re.fullmatch(r"[A-Za-z_]\w*\.[A-Za-z_]\w*", text, re.ASCII):
        raise ValueError(f"{text!r} is no queue with its schema: write dbo.Incoming, in letters, digits and _")
    return text


QueueName = Annotated[str, AfterValidator(_queue_name)]


class ServerKeys(LoginKeys):
    """The keys of `[server]`."""

    database: Word
    notification_queue: QueueName


class QueueKeys(BaseModel):
    """The keys of `[[queue]]`."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    name: QueueName
    database: Word | None = None
    command: Annotated[list[str], Field(min_length=1, description="the program and its arguments: ['python3', ...]")]
    min: Annotated[int, Field(ge=0, le=PROCESSES_MAX)] = 0
    max: Annotated[int, Field(ge=1, le=PROCESSES_MAX)] = 1


class _Document(BaseModel):
    """The whole file."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    logs: Word = "logs"
    server: Annotated[ServerKeys, Field(description="a table [server] says where the notifications arrive")]
    queue: Annotated[
        list[QueueKeys], Field(min_length=1, description="a table [[queue]] names a queue and its program")
    ]


@dataclass(frozen=True)
class WatchedQueue:
    """A queue with the program that reads it."""

    database: str
    name: str  # schema.name
    command: tuple[str, ...]
    least: int
    most: int

    @property
    def full_name(self) -> str:
        return f"{self.database}.{self.name}"


@dataclass(frozen=True)
class Config:
    """The file, checked."""

    server: ServerKeys
    queues: tuple[WatchedQueue, ...]
    logs: Path
    password: Secret | None

    def connection_string(self, driver: Driver) -> Secret:
        server = self.server
        return driver.connection_string(
            host=server.host,
            port=server.port,
            user=server.user,
            password=self.password,
            is_entra=server.authentication == "entra",
            database=server.database,
            program=PROGRAM,
            encrypt=server.encrypt,
            trust_server_certificate=server.trust_server_certificate,
        )

    def environment(self, queue: WatchedQueue, driver: str) -> dict[str, str]:
        """Return what a program of a queue finds in its environment, beside this process's own."""
        server = self.server
        values = {
            "HOST": server.host,
            "PORT": str(server.port),
            "USER": server.user,
            "ENTRA": str(server.authentication == "entra"),
            "DATABASE": queue.database,
            "QUEUE": queue.name,
            "ENCRYPT": server.encrypt,
            "TRUST_SERVER_CERTIFICATE": str(server.trust_server_certificate),
            "DRIVER": driver,
        }
        variables = {f"HARNESS_READER_{name}": value for name, value in values.items() if value is not None}
        return variables | ({PASSWORD: self.password} if self.password is not None else {})


def read(path: Path) -> Config:
    """The file at a path; raises UsageFailure for the first mistake."""
    toml = toml_file.read(path, "file of an activator")
    refuse_passwords(toml, f"set {PASSWORD} in the environment")
    document = toml.validate(_Document)
    server = document.server
    check_login(toml, ("server",), server)
    password = os.environ.get(PASSWORD)
    if server.user is not None and not password:
        raise UsageFailure(f"there is no password for {server.user}: set {PASSWORD} in the environment")
    queues: dict[str, WatchedQueue] = {}
    for place, keys in enumerate(document.queue):
        queue = WatchedQueue(keys.database or server.database, keys.name, tuple(keys.command), keys.min, keys.max)
        if keys.min > keys.max:
            raise toml.error(("queue", place, "min"), f"{keys.min} is more than max, {keys.max}: lower it")
        if shutil.which(keys.command[0]) is None:
            text = f"there is no program {keys.command[0]!r} in the PATH: install it, or write its whole path"
            raise toml.error(("queue", place, "command"), text)
        if queue.full_name.lower() in queues:
            raise toml.error(("queue", place, "name"), f"{queue.full_name} has a [[queue]] already: remove one")
        queues[queue.full_name.lower()] = queue
    logs = path.parent / document.logs
    return Config(server, tuple(queues.values()), logs, Secret(password) if server.user and password else None)
