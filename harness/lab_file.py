"""`lab.toml`: the servers of a user's own lab, each mistake in one line with the place where it stands.

```toml
version = "2022"      # what the servers are; checked against each
prefix = "ssbh_"      # begins the name of everything that the harness creates on them

[target]
host = "sql1.example"
user = "harness"

[[initiator]]         # one to three
host = "sql2.example"
user = "harness"
```

A side needs `host` and, unless `authentication = "integrated"`, `user`; the other keys have defaults (`ServerKeys`).
Passwords never stand here. tomllib gives no positions; `Lines` finds them by parsing the file's beginnings: the line on
which a key is first there is the key's line.
"""

from __future__ import annotations

import ipaddress
import re
import tomllib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, StringConstraints, ValidationError

from harness.failures import UsageFailure
from harness.settings import SECRETS, nearest

PREFIX = "ssbh_"
INITIATORS_MAX = 3
# version -> major of SERVERPROPERTY('ProductVersion'); the scripts of sql/ need 2017 (CREATE OR ALTER, DATEDIFF_BIG)
MAJORS = {"2017": 14, "2019": 15, "2022": 16, "2025": 17}

_IDENTIFIER = r"[A-Za-z_][A-Za-z0-9_]*"
_LOOPBACK_NAMES = frozenset({"localhost", "localhost.localdomain"})

Key = tuple[str | int, ...]  # ("initiator", 0, "port")
Port = Annotated[int, Field(ge=1, le=65535)]
# Goes into T-SQL between brackets and apostrophes, and leaves room for what follows in names of 128 characters.
Identifier = Annotated[str, StringConstraints(pattern=rf"^{_IDENTIFIER}$", max_length=100)]
Word = Annotated[str, StringConstraints(strip_whitespace=True, min_length=1, max_length=255)]


class LabFileError(UsageFailure):
    """A lab file that cannot be read or says what cannot be: one line with file, line and key."""


class ServerKeys(BaseModel):
    """What `[target]` and `[[initiator]]` take."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    host: Word  # name or address under which this machine reaches it
    port: Port = 1433
    authentication: Literal["sql", "integrated"] = "sql"  # integrated: Windows or Kerberos, as this process's user
    user: Word | None = None
    broker_port: Annotated[int, Field(ge=1024, le=32767)] = 4022  # LISTENER_PORT's range
    broker_host: Word | None = None  # what the other instances call it; host by default
    database: Identifier | None = None  # <prefix>SSBTarget, <prefix>SSBInitiator1, ... by default
    admin_port: Port | None = None  # of the dedicated administrator connection, usually 1434
    encrypt: Literal["optional", "mandatory", "strict"] = "optional"
    trust_server_certificate: bool = True


class _Document(BaseModel):
    """The whole file."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    version: Literal["2017", "2019", "2022", "2025"]
    prefix: Annotated[str, StringConstraints(pattern=rf"^{_IDENTIFIER}$", max_length=32)] = PREFIX
    target: ServerKeys
    initiator: Annotated[list[ServerKeys], Field(min_length=1, max_length=INITIATORS_MAX)]


@dataclass(frozen=True, kw_only=True)
class Server:
    """One side: `ServerKeys` with the defaults filled in."""

    role: str  # target | initiator-1 ...
    host: str
    port: int
    authentication: Literal["sql", "integrated"]
    user: str | None
    broker_port: int
    broker_host: str
    database: str
    admin_port: int | None
    encrypt: Literal["optional", "mandatory", "strict"]
    trust_server_certificate: bool

    @property
    def is_local(self) -> bool:
        """Whether the other instances reach it by the loopback address: all are on one machine."""
        return _is_loopback(self.broker_host)


@dataclass(frozen=True)
class LabFile:
    """A lab file, checked."""

    path: Path
    version: str
    prefix: str
    target: Server
    initiators: tuple[Server, ...]
    _lines: Lines = field(repr=False, compare=False)

    @property
    def servers(self) -> tuple[Server, ...]:
        return (self.target, *self.initiators)

    def where(self, *key: str | int) -> str:
        """`lab.toml, line 7`"""
        return f"{self.path.name}, line {self._lines.of(key)}"

    def where_of(self, server: Server, key: str) -> str:
        """The same for a key of a side; of the side's table where the key is not given."""
        table: Key = ("target",) if server is self.target else ("initiator", self.initiators.index(server))
        return self.where(*table, key)


def read(path: Path) -> LabFile:
    """The lab file at a path; LabFileError names the first thing that is wrong with it."""
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        folder = path.parent if path.parent.is_dir() else Path()
        others = sorted(other.name for other in folder.glob("*.toml"))
        raise LabFileError(f"there is no lab file {path}{nearest(path.name, others) if others else ''}") from None
    except UnicodeDecodeError:
        raise LabFileError(f"{path.name}: not UTF-8, as TOML has to be") from None
    except OSError as error:
        raise LabFileError(f"{path}: {error.strerror}") from None
    return parse(text, path)


def parse(text: str, path: Path) -> LabFile:
    """The same from the file's text."""
    text = text.removeprefix("\ufeff")
    try:
        values = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise LabFileError(_syntax_error(path, text, str(error))) from None
    checks = _Checks(path, Lines(text))
    checks.no_passwords(values)
    try:
        document = _Document.model_validate(values)
    except ValidationError as error:
        raise checks.error(*_first(error)) from None
    target = _server(document, document.target, 0)
    initiators = tuple(_server(document, keys, number) for number, keys in enumerate(document.initiator, start=1))
    checks.servers(document.prefix, target, initiators)
    return LabFile(path, document.version, document.prefix, target, initiators, checks.lines)


def _server(document: _Document, keys: ServerKeys, number: int) -> Server:
    given = keys.model_dump()
    given["role"] = f"initiator-{number}" if number else "target"
    given["broker_host"] = keys.broker_host or keys.host
    given["database"] = keys.database or f"{document.prefix}SSB{f'Initiator{number}' if number else 'Target'}"
    return Server(**given)


# -- places ------------------------------------------------------------------------------------------------------------


class Lines:
    """On which line each key and table of a TOML text begins."""

    def __init__(self, text: str) -> None:
        self._first: dict[Key, int] = {}
        lines = text.replace("\r\n", "\n").split("\n")
        beginning = 1  # first line after what has been parsed
        for number in range(1, len(lines) + 1):
            try:
                values = tomllib.loads("\n".join(lines[:number]))
            except tomllib.TOMLDecodeError:
                continue  # in the middle of a value of several lines
            for key in _keys(values):
                self._first.setdefault(key, beginning)
            beginning = number + 1

    def of(self, key: Sequence[str | int]) -> int:
        """The line of a key; of the nearest table around it where it is not there; else the first."""
        for length in range(len(key), 0, -1):
            if (line := self._first.get(tuple(key[:length]))) is not None:
                return line
        return 1


def _keys(value: Any, path: Key = ()) -> list[Key]:
    """The paths of everything in parsed TOML, outermost first."""
    items: list[tuple[str | int, Any]] = []
    if isinstance(value, dict):
        items = list(value.items())
    elif isinstance(value, list):
        items = list(enumerate(value))
    found = [path] if path else []
    for name, inner in items:
        found += _keys(inner, (*path, name))
    return found


# -- messages ----------------------------------------------------------------------------------------------------------


def _syntax_error(path: Path, text: str, message: str) -> str:
    what = re.sub(r"\s*\(at .*\)$", "", message)
    place = re.search(r"\(at line (\d+), column \d+\)", message)
    line = int(place[1]) if place else text.count("\n") + 1
    return f"{path.name}, line {line}: this is no TOML: {what[:1].lower()}{what[1:]}"


def _first(error: ValidationError) -> tuple[Key, str]:
    """Where the first error of a validation is, and what it is. Unknown keys first: a misspelt key is missing too."""
    errors = sorted(error.errors(), key=lambda one: one["type"] != "extra_forbidden")
    found = errors[0]
    key: Key = tuple(found["loc"])
    return key, _MESSAGES.get(found["type"], _other)(key, found)


def _valid_keys(key: Key) -> list[str]:
    return list((_Document if len(key) == 1 else ServerKeys).model_fields)


def _missing(key: Key, error: Any) -> str:
    if key == ("target",):
        return "missing: a table [target] names the target's server"
    if key == ("initiator",):
        return "missing: a table [[initiator]] names an initiator's server; one to three of them"
    return "missing"


def _pattern(key: Key, error: Any) -> str:
    return f"{error['input']!r} is no plain identifier: letters, digits and _, not beginning with a digit"


def _other(key: Key, error: Any) -> str:
    text = str(error["msg"])
    if isinstance(error["input"], (dict, list)):
        return f"{text[:1].lower()}{text[1:]}"
    return f"{error['input']!r}: {text[:1].lower()}{text[1:]}"


def _not_among(key: Key, error: Any) -> str:
    valid = [word.strip(" '") for word in re.split(",| or ", error["ctx"]["expected"])]
    return f"{error['input']!r} is not valid{nearest(str(error['input']), valid)}"


_MESSAGES: dict[str, Callable[[Key, Any], str]] = {
    "extra_forbidden": lambda key, error: f"no such key{nearest(str(key[-1]), _valid_keys(key))}",
    "literal_error": _not_among,
    "missing": _missing,
    "string_pattern_mismatch": _pattern,
    "too_long": lambda key, error: f"{error['ctx']['actual_length']} initiators; at most {INITIATORS_MAX}",
    "too_short": lambda key, error: "no initiator; one to three are needed",
    "model_type": lambda key, error: "a table is needed here",
    "list_type": lambda key, error: "write [[initiator]], with two brackets: there may be several",
}


class _Checks:
    """What a model of single values does not see."""

    def __init__(self, path: Path, lines: Lines) -> None:
        self._path = path
        self.lines = lines

    def error(self, key: Key, message: str) -> LabFileError:
        name = "prefix" if not key else _name(key)
        return LabFileError(f"{self._path.name}, line {self.lines.of(key)}: {name}: {message}")

    def no_passwords(self, values: Mapping[str, Any]) -> None:
        for key in _keys(dict(values)):
            if re.search(r"passw|pwd|secret", str(key[-1]), re.IGNORECASE):
                names = ", ".join(sorted(SECRETS - {"HARNESS_SA_PASSWORD"}, key=lambda name: (len(name), name)))
                raise self.error(key, f"passwords do not belong here: set one of {names}, or be asked for it")

    def servers(self, prefix: str, target: Server, initiators: Sequence[Server]) -> None:
        places: dict[tuple[str, int], Server] = {}
        listeners: dict[tuple[str, int], Server] = {}
        sides: list[tuple[Key, Server]] = [(("target",), target)]
        sides += [(("initiator", number), server) for number, server in enumerate(initiators)]
        for table, server in sides:
            self._login(table, server)
            if not server.database.startswith(prefix):
                raise self.error((*table, "database"), f"{server.database!r} does not begin with the prefix {prefix!r}")
            if "\\" in server.host:
                raise self.error((*table, "host"), "name a named instance by its port: host = ..., port = ...")
            same = places.setdefault((server.host.lower(), server.port), server)
            if same is not server:
                raise self.error((*table, "host"), f"{server.host} port {server.port} is {same.role} already")
            if server.port == server.broker_port:
                raise self.error((*table, "broker_port"), f"{server.port} is where the server itself listens")
            same = listeners.setdefault((server.broker_host.lower(), server.broker_port), server)
            if same is not server:
                message = f"{server.broker_host} port {server.broker_port} is the endpoint of {same.role} already"
                raise self.error((*table, "broker_port"), message)
        for table, server in sides:
            if server.is_local and not all(_is_loopback(other.broker_host) for _, other in sides):
                message = f"the other instances cannot reach {server.broker_host}: set the address that they see"
                raise self.error((*table, "broker_host"), message)

    def _login(self, table: Key, server: Server) -> None:
        if server.authentication == "sql" and server.user is None:
            raise self.error((*table, "user"), 'missing: the SQL login (or authentication = "integrated")')
        if server.authentication == "integrated" and server.user is not None:
            raise self.error((*table, "user"), "integrated authentication signs in as this process's user: remove it")


def _name(key: Key) -> str:
    """A key as messages name it: version, target.port, initiator-2.port."""
    if len(key) > 1 and isinstance(key[1], int):
        key = (f"{key[0]}-{key[1] + 1}", *key[2:])
    return ".".join(str(part) for part in key)


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host.lower() in _LOOPBACK_NAMES
