"""A database that existed before the lab, such as an application's: what the lab uses of it, and creates in it.

lab.toml names it as `existing_database`. Nothing about the database itself is changed: what the lab needs of it and
does not find is refused, with the statement that the user may run. Message type, contract, queue and service of the
workload's names that exist are used as they are and left as they are, and so are its procedures. What does not exist is
announced, listed in the ledger, created, and removed at the end; nothing else is. An object of a name that the lab
needs for itself is refused before anything is created.
"""

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from harness.definitions.units import counted
from harness.files.script_text import ScriptError, quoted
from harness.files.workload_file import DEFAULT_PRIORITY
from harness.lab import scripts
from harness.lab.drivers import Connection
from harness.lab.instances import Instance, Lab
from harness.lab.link import local_name

# Kinds of objects in a database as DROP writes them, in an order in which nothing else depends on them any more.
_REMOVALS = (
    *("ROUTE", "REMOTE SERVICE BINDING", "SERVICE", "QUEUE", "CONTRACT", "MESSAGE TYPE"),
    *("TRIGGER", "PROCEDURE", "VIEW", "FUNCTION", "SYNONYM", "TABLE", "SEQUENCE", "TYPE", "CERTIFICATE", "USER"),
)
_EXACT = ("MESSAGE TYPE", "CONTRACT", "SERVICE")  # Service Broker compares these names byte by byte
_PARTS = re.compile(r"\[([^]]+)\]|([^.\[\]]+)")
# Those of sql/doctor, which exist while a preflight runs.
_PROBE_SERVICE, _PROBE_QUEUE = "//MySSB.com/Lab/S_Probe", "dbo.MySSBLabProbeQueue"


@dataclass(frozen=True, slots=True, order=True)
class Thing:
    """What a ledger lists: a database, an object outside it, or, with a kind in capitals, one in an existing database.

    Users, certificates and the master key are those of master. A name in an existing database is in brackets.
    """

    kind: str
    name: str

    def __str__(self) -> str:
        return f"the {self.kind.lower()} {self.name}"

    @property
    def is_inside(self) -> bool:
        """Whether it is an object in an existing database."""
        return self.kind.isupper()

    @property
    def drop(self) -> str:
        """The statement that drops it, if it is outside the lab's database."""
        where = "USE [master]; " if self.kind in ("user", "certificate") else ""
        return f"{where}DROP {self.kind.upper()} {quoted(self.name)};"

    @property
    def key(self) -> tuple[str, str]:
        """What two names of one object have in common."""
        return self.kind, self.name if self.kind in _EXACT else self.name.lower()


@dataclass(frozen=True, slots=True)
class Plan:
    """What a lab creates in an existing database, and what of its workload it finds there."""

    created: tuple[Thing, ...]
    found: tuple[Thing, ...]  # message type, contract, queue, service and procedure
    refusals: tuple[str, ...]


def plan(lab: Lab, instance: Instance, connection: Connection, far_sides: Sequence[Instance]) -> Plan:
    """Read the database and plan what is created in it. `others` are the sides that this one is linked to."""
    scripts.execute(connection, f"USE [{instance.database}];")
    present = _objects(instance, connection)
    refusals = [*_unfit(lab, instance, connection), *_unfit_service(lab, instance, connection)]
    needed = [*_needed(lab, instance, far_sides)]
    created = [*_of_scripts(lab, instance)]
    tables = {thing.key for _, thing, _ in created}
    for script, thing, table in created:
        if thing.kind == "INDEX" and _inside("TABLE", table).key in tables:
            continue
        if thing.kind not in _REMOVALS:
            refusals.append(f"{script} creates {thing}, which the harness cannot take away again: create it yourself")
        needed.append(thing)
    refusals += [
        f"{thing} exists, and the lab creates it: rename one of the two, or leave the script out that creates it"
        for thing in (*needed, _LEDGER)
        if thing.key in present
    ]
    procedure, *named_things = _named(lab, instance)
    if procedure.key not in {*present, *(thing.key for thing in needed)}:
        refusals.append(f"{procedure} does not exist, and no script of the workload creates it")
    needed += [thing for thing in named_things if thing.key not in present]
    existing = tuple(thing for thing in (procedure, *named_things) if thing.key in present)
    scripts.execute(connection, "USE [master];")
    return Plan(tuple(dict.fromkeys(needed)), existing, tuple(refusals))


def remove(instance: Instance, connection: Connection, listed: Sequence[Thing], tell: Callable[[str], None]) -> None:
    """Drop the objects that the ledger lists, then the ledger and the mark."""
    objects = _objects(instance, connection)
    left = sorted((thing for thing in listed if thing.is_inside), key=lambda thing: _REMOVALS.index(thing.kind))
    while left:
        remaining: list[Thing] = []
        for thing in left:
            variables = {"Class": thing.kind, "Name": thing.name, "Exists": str(int(thing.key in objects))}
            try:
                scripts.run(connection, "server/drop_object.sql", {"Database": instance.database, **variables})
            except ScriptError:
                if len(remaining) + 1 == len(left):
                    raise  # none could be dropped: another round would be the same
                remaining.append(thing)  # something that the workload created depends on it
            else:
                tell(f"{instance.name}: removed {thing} of {instance.database}")
        left = remaining
    scripts.run(connection, "server/leave_database.sql", {"Database": instance.database})


def _objects(instance: Instance, connection: Connection) -> set[tuple[str, str]]:
    """The keys of the objects that exist in the database."""
    rows = scripts.rows(connection, "server/objects.sql", {"Database": instance.database})
    return {
        Thing(row["class"], ".".join(f"[{part}]" for part in (row["schema_name"], row["name"]) if part is not None)).key
        for row in rows
    }


def _inside(kind: str, name: str) -> Thing:
    """An object of the database; a name without schema is one of dbo, if the kind has schemas."""
    if kind in (*_EXACT, "ROUTE", "REMOTE SERVICE BINDING", "CERTIFICATE", "USER"):
        return Thing(kind, f"[{name.strip('[]')}]")
    parts = [one or other for one, other in _PARTS.findall(name)]
    return Thing(kind, ".".join(f"[{part}]" for part in (["dbo", *parts][-2:])))


_LEDGER = _inside("TABLE", "dbo.harness_ledger")  # removed last


def _named(lab: Lab, instance: Instance) -> list[Thing]:
    """What the workload names: its procedure on this side, then what may exist or not."""
    workload = lab.workload
    is_target = instance is lab.target
    procedure = workload.target.activation_procedure if is_target else workload.client.procedure
    return [
        _inside("PROCEDURE", procedure),
        _inside("MESSAGE TYPE", workload.names.message_type),
        _inside("CONTRACT", workload.names.contract),
        _inside("QUEUE", instance.queue),
        _inside("SERVICE", instance.service),
    ]


def _needed(lab: Lab, instance: Instance, far_sides: Sequence[Instance]) -> Iterator[Thing]:
    """What the lab needs for itself, the doctor's probe included, which exists for a moment only."""
    if instance is lab.target:
        for table in ("messageErrors", *(() if lab.workload.is_counted else ("messageDrop", "receiveCount"))):
            yield _inside("TABLE", f"dbo.{table}")
    else:
        yield _inside("TABLE", "dbo.dialogs")
        for procedure in ("CreateDialogs", "WarmUpDialogs", "GroupDialogs"):
            yield _inside("PROCEDURE", f"dbo.{procedure}")
        yield _inside("USER", f"{lab.prefix}Client")
    yield _inside("QUEUE", _PROBE_QUEUE)
    yield _inside("SERVICE", _PROBE_SERVICE)
    if lab.security.dialog:
        yield _inside("CERTIFICATE", f"{local_name(instance)}_Dialog")
    for other in map(local_name, far_sides):
        for name in (f"Test_{other}", f"Probe_{other}"):
            yield _inside("ROUTE", name)
            if lab.security.dialog and instance is not lab.target:
                yield _inside("REMOTE SERVICE BINDING", name)
        if lab.security.dialog:
            yield _inside("CERTIFICATE", f"{other}_Dialog")
            yield _inside("USER", f"Proxy:User_{other}")


def _of_scripts(lab: Lab, instance: Instance) -> Iterator[tuple[str, Thing, str]]:
    """What the workload's scripts create: the script's name, the object, and of an index or a trigger the table."""
    workload = lab.workload
    variables = {**instance.variables, "Prefix": lab.prefix, **workload.script_variables}
    of_side = workload.target_scripts if instance is lab.target else workload.initiator_scripts
    for path in (*workload.both_scripts, *of_side):
        for kind, name, table in scripts.creations(path, variables):
            yield Path(path).name, _inside(kind, name), table


def _unfit(lab: Lab, instance: Instance, connection: Connection) -> Iterator[str]:
    """What the database lacks, each with the statement that a user may run."""
    database = instance.database
    if lab.workload.dialogs.priority != DEFAULT_PRIORITY:
        yield f"a priority would change the database: remove it ({lab.workload.where('dialogs', 'priority')})"
    [row] = scripts.rows(connection, "server/existing_database.sql", {"Database": database})
    if not row["is_broker_enabled"]:
        yield f"its broker is off: ALTER DATABASE [{database}] SET ENABLE_BROKER WITH ROLLBACK IMMEDIATE;"
    if problem := scripts.rows(connection, "doctor/owner.sql", {})[0]["problem"]:
        yield f"the server cannot act as its owner ({problem}): ALTER AUTHORIZATION ON DATABASE::[{database}] TO [sa];"
    if lab.security.dialog:
        if not row["master_keys"]:
            yield (
                f"it has no master key, which secured dialogs need: USE [{database}]; CREATE MASTER KEY ENCRYPTION BY "
                "PASSWORD = N'...'; or leave security out: --no-dialog-security"
            )
        elif not row["is_master_key_encrypted_by_server"]:
            yield (
                f"the server cannot open its master key: USE [{database}]; OPEN MASTER KEY DECRYPTION BY PASSWORD = "
                "N'...'; ALTER MASTER KEY ADD ENCRYPTION BY SERVICE MASTER KEY;"
            )
        if (certificate := row["dialog_certificate"]) is not None:
            yield (
                f"dialogs of the application may be secured by the certificate {certificate} of dbo, and by the lab's "
                "while it is open: leave security out: --no-dialog-security"
            )
        for binding in scripts.rows(connection, "doctor/bindings.sql", instance.variables):
            yield (
                f"the remote service binding {binding['binding_name']} secures dialogs to "
                f"{instance.names.target_service} by now: name another target_service, or drop the binding"
            )
    if instance is not lab.target:
        waiting = sum(row["messages"] for row in scripts.rows(connection, "observe/transmission_queue.sql", {}))
        if waiting:
            complaint = f"its transmission queue has {counted(waiting, 'message')} of others"
            yield f"{complaint}, and must be empty: wait, or end them"


def _unfit_service(lab: Lab, instance: Instance, connection: Connection) -> Iterator[str]:
    """In what an existing service and its queue differ from what the workload says of them."""
    for service in scripts.rows(connection, "doctor/service.sql", instance.variables):
        queue = _inside("QUEUE", f"[{service['queue_schema_name']}].[{service['queue_name']}]")
        if queue.key != _inside("QUEUE", instance.queue).key:
            yield f"the service {instance.service} is on {queue}: name it in the workload instead of {instance.queue}"
        elif bool(service["is_retention_enabled"]) != lab.workload.queue.retention:
            state = "ON" if service["is_retention_enabled"] else "OFF"
            where = lab.workload.where("queue", "retention")
            yield f"{queue} has RETENTION = {state}: say so in the workload ({where})"
