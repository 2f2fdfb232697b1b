"""What the harness owns on a user's own server: a marked database, and in it the list of all else that it created.

Rules: a database without the mark is not ours; an object outside it that the ledger does not list is not ours. The row
is written before the object is created and struck off after it is gone, so whatever is interrupted can be run again:
a listed object that is not there is only struck off. Everything inside the database is the harness's as a whole. One
that the harness made is dropped, last; one that an administrator prepared is emptied and keeps its mark.

The one gap: a database whose creation the client's death cut off before the mark was on it. It is refused like any
other without a mark.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from harness.lab import scripts
from harness.lab.instances import Instance, LabError
from harness.lab.link import local_name

if TYPE_CHECKING:
    import pyodbc

MASTER_KEY = "##MS_DatabaseMasterKey##"
# Classes outside the database, in the order in which they can go.
REMOVALS = {
    "endpoint": "server/drop_endpoint.sql",
    "certificate": "server/drop_certificate.sql",  # after the endpoint that shows it
    "user": "server/drop_user.sql",  # after the certificates that it owns
    "login": "server/drop_login.sql",
}
# A process that was killed, or has just closed its connections, is still there for a moment.
_SESSIONS_END_WITHIN_S = 3.0
_POLL_S = 0.1
_PLURAL = {"certificate": "certificates of master", "user": "users of master", "login": "logins"}
_SERVICE_BROKER = "SERVICE_BROKER"  # type_desc of an endpoint


@dataclass(frozen=True, slots=True, order=True)
class Thing:
    """A database, or an object outside of it. Classes `user`, `certificate` and `master key` are those of master."""

    kind: str
    name: str

    @property
    def drop(self) -> str:
        """The statement with which a person removes it."""
        where = "USE [master]; " if self.kind in ("user", "certificate") else ""
        return f"{where}DROP {self.kind.upper()} [{self.name}];"


@dataclass(frozen=True, slots=True)
class Listener:
    """An endpoint that listens on a port, whosever it is."""

    name: str
    type_desc: str
    port: int


@dataclass(frozen=True, slots=True)
class Holdings:
    """What is on an instance that concerns the harness, and what of it is the harness's."""

    exists: bool  # the database
    mark: str | None  # of the database: made | prepared | None
    listed: tuple[Thing, ...]  # by the ledger
    found: frozenset[Thing]  # that are there: the database, the master key, and names with the prefix
    listeners: tuple[Listener, ...]

    @property
    def is_ours(self) -> bool:
        return self.mark is not None


def place(instance: Instance) -> str:
    """An instance as messages name it."""
    return f"{instance.name} ({instance.host}:{instance.port})"


def planned(instance: Instance, others: Iterable[Instance], prefix: str) -> list[Thing]:
    """What linking creates outside the database of an instance whose other sides are `others`."""
    own, remote = local_name(instance), [local_name(other) for other in others]
    return [
        Thing("master key", MASTER_KEY),
        Thing("endpoint", f"{prefix}Endpoint_SRPerf_1"),
        *(Thing("certificate", f"{prefix}{name}_Endpoint") for name in (own, *remote)),
        *(Thing(kind, f"{prefix}User_{name}") for kind in ("login", "user") for name in remote),
        *([] if own == "Target" else [Thing("login", f"{prefix}Client")]),
    ]


def look(instance: Instance, connection: pyodbc.Connection, prefix: str) -> Holdings:
    """Reads catalog, mark and ledger."""
    database = {"Database": instance.database}
    rows = scripts.rows(connection, "server/inventory.sql", database | {"Prefix": prefix})
    found = frozenset(Thing(row["class"], row["name"]) for row in rows)
    listeners = tuple(
        Listener(row["name"], row["detail"], row["port"])
        for row in rows
        if row["class"] == "endpoint" and row["port"] is not None
    )
    mark: str | None = None
    listed: list[Thing] = []
    exists = any(thing.kind == "database" for thing in found)
    if exists:
        try:
            [row] = scripts.rows(connection, "server/ownership.sql", database)
        except scripts.ScriptError as error:
            raise LabError(f"{place(instance)}: the database {instance.database} cannot be entered: {error}") from None
        mark = row["mark"] if row["mark"] in (None, "made") else "prepared"  # in doubt it is not dropped
        if mark is not None and row["has_ledger"]:
            listed = [
                Thing(row["class"], row["name"]) for row in scripts.rows(connection, "server/listed.sql", database)
            ]
        scripts.execute(connection, "USE [master];")
    return Holdings(exists, mark, tuple(listed), found, listeners)


def refusals(instance: Instance, holdings: Holdings, wanted: Sequence[Thing], keys: Keys) -> Iterator[str]:
    """Why nothing can be created here without touching what belongs to others: a line for each reason."""
    who = place(instance)
    if holdings.exists and not holdings.is_ours:
        yield (
            f"{who}: the database {instance.database} is there and carries no mark of the harness, so it stays as it "
            f"is: name another ({keys.database}), or drop it, or mark it by sql/server/prepare_database.sql"
        )
        return
    names = {(thing.kind, thing.name.lower()) for thing in holdings.listed}
    there = {(thing.kind, thing.name.lower()) for thing in holdings.found}
    for thing in wanted:
        key = thing.kind, thing.name.lower()
        if thing.kind != "master key" and key in there and key not in names:
            yield (
                f"{who}: the {thing.kind} {thing.name} is there and stands in no ledger, so it stays as it is: "
                f"choose another prefix ({keys.prefix}), or {thing.drop}"
            )
    for listener in holdings.listeners:
        if ("endpoint", listener.name.lower()) in names:
            continue
        if listener.type_desc == _SERVICE_BROKER:
            yield (
                f"{who}: the endpoint {listener.name} serves Service Broker already, and an instance has one: "
                "use another instance, or drop it if nobody needs it"
            )
        elif listener.port == instance.broker_port:
            yield f"{who}: port {listener.port} is that of the endpoint {listener.name}: choose another ({keys.port})"


@dataclass(frozen=True, slots=True)
class Keys:
    """Where a lab file says what a refusal is about: `database: lab.toml, line 7`."""

    database: str
    prefix: str
    port: str


def description(instance: Instance, holdings: Holdings, wanted: Sequence[Thing]) -> str:
    """What will be created, for the user to read before it is."""
    prepared = holdings.mark == "prepared"
    parts = [f"{'everything in' if prepared else 'the database'} {instance.database}"]
    for thing in wanted:
        if thing.kind == "endpoint":
            parts.append(f"the endpoint {thing.name} on port {instance.broker_port}")
        elif thing.kind == "master key" and thing not in holdings.found:
            parts.append("the master key of master")
    parts += grouped(wanted)
    return f"on {place(instance)} will be created: {'; '.join(parts)}"


def grouped(things: Iterable[Thing]) -> list[str]:
    """Things of the kinds of which there are several, by kind: `logins a, b`."""
    names: dict[str, list[str]] = {kind: [] for kind in _PLURAL}
    for thing in things:
        if thing.kind in names:
            names[thing.kind].append(thing.name)
    return [f"{_PLURAL[kind]} {', '.join(found)}" for kind, found in names.items() if found]


def begin(instance: Instance, connection: pyodbc.Connection, holdings: Holdings, wanted: Sequence[Thing]) -> None:
    """Makes and marks the database, and lists in it what is about to be created."""
    database = {"Database": instance.database}
    if not holdings.exists:
        scripts.run(connection, "server/create_database.sql", database)
    scripts.run(connection, "server/ledger.sql", database)
    rows = [thing for thing in wanted if thing.kind != "master key" or thing not in holdings.found]
    if holdings.mark != "prepared":
        rows.append(Thing("database", instance.database))
    for thing in rows:
        scripts.run(connection, "server/record.sql", database | {"Class": thing.kind, "Name": thing.name})


def is_name_taken(error: BaseException) -> bool:
    """Whether a database could not be created because there is one of its name."""
    return "(error 1801)" in str(error)


def remove(
    instance: Instance,
    connection: pyodbc.Connection,
    holdings: Holdings,
    prefix: str,
    tell: Callable[[str], None],
) -> None:
    """Removes what the ledger lists and then the database, or its contents. Nothing where the database is not ours."""
    if not holdings.is_ours:
        return
    database = {"Database": instance.database, "Prefix": prefix}
    scripts.run(connection, "reset/broker.sql", database)
    for kind, path in REMOVALS.items():
        for thing in holdings.listed:
            if thing.kind == kind:
                scripts.run(connection, path, database | {"Name": thing.name})
                tell(f"{instance.name}: removed the {kind} {thing.name}")
    if any(thing.kind == "master key" for thing in holdings.listed):
        users = scripts.rows(connection, "server/drop_master_key.sql", database)
        if users:
            tell(f"{instance.name}: the master key of master stays, {users[0]['name']} needs it by now")
        else:
            tell(f"{instance.name}: removed the master key of master")
    if holdings.mark == "prepared":
        scripts.run(connection, "server/empty_database.sql", database)
        tell(f"{instance.name}: emptied the database {instance.database}, which an administrator prepared")
    else:
        scripts.run(connection, "server/drop_database.sql", database)
        tell(f"{instance.name}: removed the database {instance.database}")


def refuse_if_in_use(instance: Instance, connection: pyodbc.Connection) -> None:
    """LabError if another run of the harness is in the database, and stays there."""
    deadline = time.monotonic() + _SESSIONS_END_WITHIN_S
    while rows := scripts.rows(connection, "server/sessions.sql", {"Database": instance.database}):
        if time.monotonic() > deadline:
            raise LabError(
                f"{place(instance)}: a run of the harness on {rows[0]['host_name']} uses the database "
                f"{instance.database} (session {rows[0]['session_id']}): let it end first"
            )
        time.sleep(_POLL_S)
