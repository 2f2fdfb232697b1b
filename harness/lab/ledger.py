"""What the harness owns on a user's own server: a marked database, which lists everything else that it created.

A database without the mark belongs to others, and so does an object outside it that the ledger does not list. A row is
written before its object is created and deleted after the object is dropped. Therefore an interrupted step can be
repeated: for a listed object that does not exist only the row is deleted. Everything inside the database belongs to the
harness. A database that the harness created is dropped last; one that an administrator prepared is emptied and keeps
its mark.

There is one gap: if the client dies between creating the database and marking it, the database is refused like any
other without a mark.
"""

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

from harness.files.lab_file import LabFile, Server
from harness.files.script_text import ScriptError
from harness.lab import existing_database, scripts
from harness.lab.drivers import Connection
from harness.lab.existing_database import Thing
from harness.lab.instances import Instance, LabError
from harness.lab.link import local_name

MASTER_KEY = "##MS_DatabaseMasterKey##"
# Classes of objects outside the database, in the order in which they can be dropped.
REMOVALS = {
    "endpoint": "server/drop_endpoint.sql",
    "certificate": "server/drop_certificate.sql",  # after the endpoint that uses it
    "user": "server/drop_user.sql",  # after the certificates that it owns
    "login": "server/drop_login.sql",
}
# The sessions of a process that was killed, or has just closed its connections, remain for a moment.
_SESSIONS_END_WITHIN_S = 3.0
_POLL_S = 0.1
_PLURAL = {"certificate": "certificates of master", "user": "users of master", "login": "logins"}
_SERVICE_BROKER = "SERVICE_BROKER"  # type_desc of an endpoint


@dataclass(frozen=True, slots=True)
class Listener:
    """An endpoint that listens on a port, whoever owns it."""

    name: str
    type_desc: str
    port: int


@dataclass(frozen=True, slots=True)
class Holdings:
    """The objects on an instance that concern the harness, and which of them it owns."""

    exists: bool  # whether the database exists
    mark: str | None  # of the database: made | prepared | existing | None
    listed: tuple[Thing, ...]  # in the ledger
    found: frozenset[Thing]  # existing: the database, the master key, and objects whose name has the prefix
    listeners: tuple[Listener, ...]

    @property
    def is_ours(self) -> bool:
        return self.mark is not None

    @property
    def is_left_over(self) -> bool:
        """Whether an earlier opening left something. A prepared database is the harness's also when it is empty."""
        return self.mark in ("made", "existing") or bool(self.mark and self.listed)


def place(instance: Instance) -> str:
    """Return an instance's name for messages."""
    return f"{instance.name} ({instance.host}:{instance.port})"


def planned(instance: Instance, far_sides: Iterable[Instance], prefix: str) -> list[Thing]:
    """List what linking an instance to `others` creates outside its database."""
    own_name, remote = local_name(instance), [local_name(other) for other in far_sides]
    return [
        Thing("master key", MASTER_KEY),
        Thing("endpoint", f"{prefix}Endpoint_SRPerf_1"),
        *(Thing("certificate", f"{prefix}{name}_Endpoint") for name in (own_name, *remote)),
        *(Thing(kind, f"{prefix}User_{name}") for kind in ("login", "user") for name in remote),
        *([] if own_name == "Target" else [Thing("login", f"{prefix}Client")]),
    ]


def read_holdings(instance: Instance, connection: Connection, prefix: str) -> Holdings:
    """Read catalog, mark and ledger."""
    database = {"Database": instance.database}
    rows = scripts.rows(connection, "server/inventory.sql", database | {"Prefix": prefix})
    things = frozenset(Thing(row["class"], row["name"]) for row in rows)
    listeners = tuple(
        Listener(row["name"], row["detail"], row["port"])
        for row in rows
        if row["class"] == "endpoint" and row["port"] is not None
    )
    mark: str | None = None
    listed: list[Thing] = []
    exists = any(thing.kind == "database" for thing in things)
    if exists:
        try:
            [row] = scripts.rows(connection, "server/ownership.sql", database)
        except ScriptError as error:
            raise LabError(f"{place(instance)}: cannot use the database {instance.database}: {error}") from None
        # Never drop a database with another mark.
        mark = row["mark"] if row["mark"] in (None, "made", "existing") else "prepared"
        if mark is not None and row["has_ledger"]:
            listed = [
                Thing(row["class"], row["name"]) for row in scripts.rows(connection, "server/listed.sql", database)
            ]
        scripts.execute(connection, "USE [master];")
    return Holdings(exists, mark, tuple(listed), things, listeners)


def refusals(
    instance: Instance, holdings: Holdings, needed: Sequence[Thing], lab_file: LabFile, server: Server
) -> Iterator[str]:
    """Yield a line for each reason why creating the lab here would touch what belongs to others."""
    where = place(instance)
    if instance.is_existing:
        where = lab_file.where_of(server, "existing_database")
        if not holdings.exists:
            yield f"{where}: there is no database {instance.database} ({where}): create it, or leave the key out"
            return
        if holdings.mark not in (None, "existing"):
            yield f"{where}: the database {instance.database} ({where}) is the harness's: name it as database"
            return
    elif holdings.mark == "existing":
        yield (
            f"{where}: the database {instance.database} is an application's, with the ledger of an earlier lab in it: "
            "harness lab clean removes that; then name it as existing_database "
            f"({lab_file.where_of(server, 'database')})"
        )
        return
    elif holdings.exists and not holdings.is_ours:
        yield (
            f"{where}: the database {instance.database} exists and does not carry the harness's mark: name another "
            f"({lab_file.where_of(server, 'database')}), or use it as existing_database, or drop it, or mark it with "
            "sql/server/prepare_database.sql"
        )
        return
    names = {(thing.kind, thing.name.lower()) for thing in holdings.listed}
    present = {(thing.kind, thing.name.lower()) for thing in holdings.found}
    for thing in needed:
        key = thing.kind, thing.name.lower()
        if thing.kind != "master key" and key in present and key not in names:
            yield (
                f"{where}: the {thing.kind} {thing.name} exists and is in no ledger of the harness: "
                f"choose another prefix ({lab_file.where('prefix')}), or {thing.drop}"
            )
    for listener in holdings.listeners:
        if ("endpoint", listener.name.lower()) in names:
            continue
        if listener.type_desc == _SERVICE_BROKER:
            yield (
                f"{where}: the endpoint {listener.name} already serves Service Broker, and an instance can have only "
                "one: use another instance, or drop the endpoint if nobody needs it"
            )
        elif listener.port == instance.broker_port:
            where = lab_file.where_of(server, "broker_port")
            yield f"{where}: the endpoint {listener.name} uses port {listener.port}: choose another ({where})"


def description(instance: Instance, holdings: Holdings, needed: Sequence[Thing]) -> str:
    """Describe what will be created, before it is."""
    prepared = holdings.mark == "prepared"
    parts = [f"{'everything in' if prepared else 'the database'} {instance.database}"]
    if instance.is_existing:
        inside = ", ".join(f"{thing.kind.lower()} {thing.name}" for thing in needed if thing.is_inside)
        parts = [f"in the database {instance.database}, which exists: {inside}"]
    for thing in needed:
        if thing.kind == "endpoint":
            parts.append(f"the endpoint {thing.name} on port {instance.broker_port}")
        elif thing.kind == "master key" and thing not in holdings.found:
            parts.append("the master key of master")
    parts += grouped(needed)
    return f"on {place(instance)} will be created: {'; '.join(parts)}"


def grouped(things: Iterable[Thing]) -> list[str]:
    """List certificates, users and logins by kind, like `logins a, b`."""
    names: dict[str, list[str]] = {kind: [] for kind in _PLURAL}
    for thing in things:
        if thing.kind in names:
            names[thing.kind].append(thing.name)
    return [f"{_PLURAL[kind]} {', '.join(things_of_kind)}" for kind, things_of_kind in names.items() if things_of_kind]


def begin(instance: Instance, connection: Connection, holdings: Holdings, needed: Sequence[Thing]) -> None:
    """Create and mark the database, and list in it what will be created."""
    database = {"Database": instance.database}
    if instance.is_existing:
        scripts.run(connection, "server/mark_existing.sql", database)
    elif not holdings.exists:
        scripts.run(connection, "server/create_database.sql", database)
    scripts.run(connection, "server/ledger.sql", database)
    rows = list(needed)
    if holdings.mark != "prepared" and not instance.is_existing:
        rows.append(Thing("database", instance.database))
    for thing in rows:
        scripts.run(connection, "server/record.sql", database | {"Class": thing.kind, "Name": thing.name})


def is_name_taken(error: BaseException) -> bool:
    """Return whether a database could not be created because its name is in use."""
    return "(error 1801)" in str(error)


def remove(
    instance: Instance, connection: Connection, holdings: Holdings, prefix: str, tell: Callable[[str], None]
) -> None:
    """Remove what the ledger lists, then the database or its contents. A database of others is left alone.

    In a database that existed before, the dialogs must have ended (`pool_dialogs`).
    """
    if not holdings.is_ours:
        return
    database = {"Database": instance.database, "Prefix": prefix}
    if holdings.mark != "existing":
        scripts.run(connection, "reset/broker.sql", database)
    for kind, path in REMOVALS.items():
        for thing in holdings.listed:
            if thing.kind == kind:
                scripts.run(connection, path, database | {"Name": thing.name})
                tell(f"{instance.name}: removed the {kind} {thing.name}")
    if any(thing.kind == "master key" for thing in holdings.listed):
        users = scripts.rows(connection, "server/drop_master_key.sql", database)
        if users:
            tell(f"{instance.name}: kept the master key of master, which {users[0]['name']} needs")
        else:
            tell(f"{instance.name}: removed the master key of master")
    if holdings.mark == "existing":
        existing_database.remove(instance, connection, holdings.listed, tell)
        tell(f"{instance.name}: the database {instance.database} is as it was")
    elif holdings.mark == "prepared":
        scripts.run(connection, "server/empty_database.sql", database)
        tell(f"{instance.name}: emptied the database {instance.database}, which an administrator prepared")
    else:
        scripts.run(connection, "server/drop_database.sql", database)
        tell(f"{instance.name}: removed the database {instance.database}")


def refuse_if_in_use(instance: Instance, connection: Connection) -> None:
    """Raise LabError if another run of the harness keeps using the database."""
    deadline = time.monotonic() + _SESSIONS_END_WITHIN_S
    while rows := scripts.rows(connection, "server/sessions.sql", {"Database": instance.database}):
        if time.monotonic() > deadline:
            raise LabError(
                f"{place(instance)}: a run of the harness on {rows[0]['host_name']} uses the database "
                f"{instance.database} (session {rows[0]['session_id']}): wait until it has ended"
            )
        time.sleep(_POLL_S)
