"""`lab.toml`: the servers of a user's own lab.

```toml
version = "2022"      # what the servers are; checked against each
prefix = "ssbh_"      # begins the name of everything that the harness creates on them

[target]
host = "sql1.example"
user = "harness"

[[initiator]]         # one to sixteen
host = "sql2.example"
user = "harness"
```

A side needs `host` and, unless `authentication = "integrated"`, `user`; the other keys have defaults (`ServerKeys`). By
default connections are encrypted and certificates verified: `trust_server_certificate = true` is for self-signed ones.
`existing_database = "Orders"` names a database that an application has already, in place of the harness's own:
`sql/server/README.md` says what is created in it. A password here is refused.
"""

import re
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, StringConstraints

from harness.definitions.matrix import INITIATORS_MAX
from harness.files import toml_file
from harness.files.toml_file import Key, TomlFile
from harness.machine.addresses import is_loopback

PREFIX = "ssbh_"
# version -> major of SERVERPROPERTY('ProductVersion')
MAJORS = {"2016": 13, "2017": 14, "2019": 15, "2022": 16, "2025": 17}
LEAST = (13, 0, 4001)  # Service Pack 1 of 2016: the scripts of sql/ have CREATE OR ALTER


def _identifier(text: str) -> str:
    if not re.fullmatch("[A-Za-z_][A-Za-z0-9_]*", text):
        raise ValueError(f"{text!r} is not a plain identifier: letters, digits and _, not beginning with a digit")
    return text


def _word(text: str) -> str:
    if not text.isprintable():
        raise ValueError("a line break or another character that is not printed: remove it")
    return text


NAMED_INSTANCE = (
    "a named instance is reached by its port: write host and port; EXEC sp_readerrorlog 0, 1, N'listening on' shows it"
)


def _host(text: str) -> str:
    if "\\" in text:
        raise ValueError(NAMED_INSTANCE)
    if not re.fullmatch(r"[\w.-]+|[0-9A-Fa-f:.]+(%\w+)?", text):
        raise ValueError("neither a host's name nor an address: write sql1.example, or 10.0.0.1")
    return text


Port = Annotated[int, Field(ge=1, le=65535)]
Identifier = Annotated[str, AfterValidator(_identifier)]
Word = Annotated[str, StringConstraints(strip_whitespace=True, min_length=1, max_length=255), AfterValidator(_word)]
Host = Annotated[Word, AfterValidator(_host)]


class LoginKeys(BaseModel):
    """The keys by which this machine reaches a server and signs in."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    host: Host  # name or address under which this machine reaches it
    port: Port = 1433
    # integrated: Windows or Kerberos, as this process's user; entra: an application (service principal) and its secret
    authentication: Literal["sql", "integrated", "entra"] = "sql"
    user: Word | None = None
    # As Microsoft's driver has them: a server's certificate is verified, and a self-signed one is none.
    encrypt: Literal["optional", "mandatory", "strict"] = "mandatory"
    trust_server_certificate: bool = False


class ServerKeys(LoginKeys):
    """The keys of `[target]` and `[[initiator]]`."""

    broker_port: Annotated[int, Field(ge=1024, le=32767)] = 4022  # LISTENER_PORT's range
    broker_host: Host | None = None  # what the other instances call it; host by default
    # <prefix>SSBTarget, <prefix>SSBInitiator1, ... by default; names of 128 characters have room for what follows
    database: Annotated[Identifier, Field(max_length=100)] | None = None
    existing_database: Annotated[Identifier, Field(max_length=128)] | None = None  # an application's, in its place
    admin_port: Port | None = None  # of the dedicated administrator connection, usually 1434


class _Document(BaseModel):
    """The whole file."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    version: Literal["2016", "2017", "2019", "2022", "2025"]
    brakes: bool = True  # a run ends before it takes what others on these servers need (`harness.lab.brakes`)
    processor_percent_max: Annotated[int, Field(ge=1, le=100)] = 90  # a brake: of a server's processors
    hours_max: Annotated[float, Field(gt=0)] = 24.0  # a brake: of a run
    prefix: Annotated[Identifier, Field(max_length=32)] = PREFIX
    by_script: bool = False  # an administrator has executed the files of `harness doctor --script`
    target: Annotated[ServerKeys, Field(description="a table [target] names the target's server")]
    initiator: Annotated[
        list[ServerKeys],
        Field(
            min_length=1,
            max_length=INITIATORS_MAX,
            description="a table [[initiator]] names an initiator's server; one to sixteen of them",
        ),
    ]


class Server(ServerKeys):
    """One side, with the defaults filled in."""

    role: str  # target | initiator-1 ...
    broker_host: str
    database: str  # the existing one, if the file names one

    @property
    def is_local(self) -> bool:
        """Whether the other instances reach it by the loopback address: all are on one machine."""
        return is_loopback(self.broker_host)


@dataclass(frozen=True)
class LabFile:
    """A lab file, checked."""

    path: Path
    version: str
    prefix: str
    brakes: bool
    processor_percent_max: int
    hours_max: float
    by_script: bool
    target: Server
    initiators: tuple[Server, ...]
    _toml: TomlFile = field(repr=False, compare=False)
    read_at_s: float = field(default_factory=time.monotonic, repr=False, compare=False)

    @property
    def servers(self) -> tuple[Server, ...]:
        return (self.target, *self.initiators)

    def where(self, *key: str | int) -> str:
        """`lab.toml, line 7`"""
        return self._toml.where(*key)

    def where_of(self, server: Server, key: str) -> str:
        """The same for a key of a side, or the side's table where the key is missing."""
        table: Key = ("target",) if server is self.target else ("initiator", self.initiators.index(server))
        return self.where(*table, key)


def read(path: Path) -> LabFile:
    """The lab file at a path; raises TomlError for the first mistake."""
    return check(toml_file.read(path, "lab file"))


def check(toml: TomlFile) -> LabFile:
    """The lab that a file describes; raises TomlError for the first mistake."""
    names = "HARNESS_PASSWORD, HARNESS_PASSWORD_TARGET, HARNESS_PASSWORD_INITIATOR_1, ..."
    refuse_passwords(toml, f"set one of {names}, or type it when asked")
    document = toml.validate(_Document)
    tables: list[Key] = [("target",), *(("initiator", number) for number in range(len(document.initiator)))]
    for table, keys in zip(tables, (document.target, *document.initiator), strict=True):
        if keys.database and keys.existing_database:
            raise toml.error((*table, "database"), "the side has an existing_database: remove one of the two")
    target = _server(document, document.target, 0)
    initiators = tuple(_server(document, keys, number) for number, keys in enumerate(document.initiator, start=1))
    _check_servers(toml, document.prefix, target, initiators)
    of_lab = document.model_dump(exclude={"target", "initiator"})
    return LabFile(path=toml.path, **of_lab, target=target, initiators=initiators, _toml=toml)


def refuse_passwords(toml: TomlFile, instead: str) -> None:
    """Raise TomlError for a key that is called like a password."""
    for key in toml_file.keys(toml.values):
        if re.search(r"passw|pwd|secret", str(key[-1]), re.IGNORECASE):
            raise toml.error(key, f"passwords do not belong here: {instead}")


def _server(document: _Document, keys: ServerKeys, number: int) -> Server:
    values = keys.model_dump()
    values["role"] = f"initiator-{number}" if number else "target"
    values["broker_host"] = keys.broker_host or keys.host
    values["database"] = (
        keys.existing_database or keys.database or f"{document.prefix}SSB{f'Initiator{number}' if number else 'Target'}"
    )
    return Server(**values)


def _check_servers(toml: TomlFile, prefix: str, target: Server, initiators: Sequence[Server]) -> None:
    """Check what the models of single keys cannot."""
    places: dict[tuple[str, int], Server] = {}
    listeners: dict[tuple[str, int], Server] = {}
    sides: list[tuple[Key, Server]] = [(("target",), target)]
    sides += [(("initiator", number), server) for number, server in enumerate(initiators)]
    for table, server in sides:
        check_login(toml, table, server)
        if server.existing_database is None and not server.database.startswith(prefix):
            raise toml.error((*table, "database"), f"{server.database!r} does not begin with the prefix {prefix!r}")
        same = places.setdefault((server.host.lower(), server.port), server)
        if same is not server:
            message = f"{server.host} port {server.port} is already the server of {same.role}"
            raise toml.error((*table, "host"), f"{message}: give each side an instance of its own")
        if server.port == server.broker_port:
            raise toml.error((*table, "broker_port"), f"{server.port} is the port on which the server itself listens")
        same = listeners.setdefault((server.broker_host.lower(), server.broker_port), server)
        if same is not server:
            message = f"{server.broker_host} port {server.broker_port} is already the endpoint of {same.role}"
            raise toml.error((*table, "broker_port"), message)
    for table, server in sides:
        if server.is_local and not all(is_loopback(other.broker_host) for _, other in sides):
            message = f"the other instances cannot reach {server.broker_host}: set the address that they see"
            raise toml.error((*table, "broker_host"), message)


def check_login(toml: TomlFile, table: Key, server: LoginKeys) -> None:
    """Raise TomlError unless a table names its user just where it needs one."""
    if server.authentication != "integrated" and server.user is None:
        who = "the SQL login" if server.authentication == "sql" else "the id of the application in Microsoft Entra"
        raise toml.error((*table, "user"), f'missing: {who} (or authentication = "integrated")')
    if server.authentication == "integrated" and server.user is not None:
        raise toml.error((*table, "user"), "integrated authentication signs in as this process's user: remove it")
