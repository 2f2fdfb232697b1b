"""What statements ask of who is no sysadmin: one gate for each kind, put before the step when it is compiled.

A gate raises what SQL Server would: 262 names the right to create, 15151 and its kin say that the thing is not there
or not to be touched, 15247 says no more than that. Queries and the verbs on conversations are not here: their plans
know the objects (`execution.binding`), their handles the queues (`execution.verbs`).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from harness.embedded.errors import SqlServerError
from harness.embedded.tsql.instance import securables
from harness.embedded.tsql.permissions.fixed_principals import SYSADMIN
from harness.embedded.tsql.permissions.grants import SERVER
from harness.embedded.tsql.permissions.guard import Guard
from harness.embedded.tsql.permissions.rights import SCHEMA_DBO
from harness.embedded.tsql.session.frame import Frame
from harness.embedded.tsql.session.steps import Compiler, Scope, Step
from harness.embedded.tsql.syntax import broker_objects as broker
from harness.embedded.tsql.syntax import data, dbcc, files, procedures, schema, security
from harness.embedded.tsql.text.parser import Statement

Gate = Callable[[Any, Frame, Guard], None]


def gated(gate: Gate | None, compile_: Compiler) -> Compiler:
    """The same statement behind its gate."""
    if gate is None:
        return compile_

    def compiled(node: Statement, scope: Scope) -> Step:
        step = compile_(node, scope)
        inner = step.run

        def run(frame: Frame) -> Any:
            guard = frame.session.guard
            if guard is not None:
                gate(node, frame, guard)
            return inner(frame)

        return Step(run, step.waits, step.line)

    return compiled


def _in_database(frame: Frame, guard: Guard, permission: str) -> bool:
    return guard.allows(frame.database, "DATABASE", 0, permission)


def _create(permission: str, *, in_schema: bool = False) -> Gate:
    """CREATE something in the database; objects also change their schema."""

    def gate(node: Any, frame: Frame, guard: Guard) -> None:
        if not _in_database(frame, guard, permission):
            raise SqlServerError(262, permission, frame.database.name)
        if in_schema and not guard.allows(frame.database, "SCHEMA", SCHEMA_DBO, "ALTER"):
            raise SqlServerError(2760, "dbo")
        if getattr(node, "owner", ""):
            _give(frame, guard, node.owner)

    return gate


def _give(frame: Frame, guard: Guard, owner: str) -> None:
    """AUTHORIZATION: to oneself, or to a user that one may impersonate."""
    if owner.lower() == frame.session.user_name().lower():
        return
    user = securables.find(frame, "USER", (owner,))
    if user is None or not guard.allows(frame.database, *user[1:], "IMPERSONATE"):
        raise SqlServerError(15151, "find", "user", owner)


def _object(number: int, permission: str, verb: str = "", kind: str = "object") -> Gate:
    """Something of a schema; `number` is the error's, whose text says that it does not exist or may not be touched."""

    def gate(node: Any, frame: Frame, guard: Guard) -> None:
        parts = getattr(node, "table", None) or node.name
        found = securables.find(frame, "OBJECT", parts)
        if found is not None and not securables.is_held(frame, found, permission):
            name = ".".join(parts)
            raise SqlServerError(number, name) if number == 1088 else SqlServerError(number, verb, kind, name)

    return gate


def _create_procedure(node: procedures.CreateProcedure, frame: Frame, guard: Guard) -> None:
    if frame.instance.procedure(node.name, frame.database) is not None:
        _object(15151, "ALTER", "alter", "procedure")(node, frame, guard)
    else:
        _create("CREATE PROCEDURE", in_schema=True)(node, frame, guard)
    if node.execute_as not in ("", "CALLER", "SELF"):
        _give(frame, guard, "dbo" if node.execute_as == "OWNER" else node.execute_as)


def _drop_object(node: schema.DropObject, frame: Frame, guard: Guard) -> None:
    for name in node.names:
        found = securables.find(frame, "OBJECT", name)
        may_alter_schema = guard.allows(frame.database, "SCHEMA", SCHEMA_DBO, "ALTER")
        if found is not None and not may_alter_schema and not securables.is_held(frame, found, "CONTROL"):
            raise SqlServerError(3701, node.kind.lower(), ".".join(name))


def _create_database(node: Any, frame: Frame, guard: Guard) -> None:
    if not guard.allows_on_server("CREATE ANY DATABASE"):
        raise SqlServerError(262, "CREATE DATABASE", "master")


def _alter_database(node: Any, frame: Frame, guard: Guard) -> None:
    database = frame.instance.database(node.name) if node.name else frame.database
    if not guard.allows(database, "DATABASE", 0, "ALTER"):
        raise SqlServerError(5011, database.name)


def _drop_database(node: schema.DropDatabase, frame: Frame, guard: Guard) -> None:
    for name in node.names:
        database = frame.instance.engine.databases.get(name.lower())
        if database is not None and not guard.allows(database, "DATABASE", 0, "CONTROL"):
            raise SqlServerError(3701, "database", name)


def _broker_object(verb: str, class_: str = "") -> Gate:
    """ALTER or DROP of what belongs to the database alone; a DROP statement says itself of what kind."""

    def gate(node: Any, frame: Frame, guard: Guard) -> None:
        kind = class_ or node.kind
        parts = node.name if isinstance(node.name, tuple) else (node.name,)
        if kind == "BROKER PRIORITY":
            allowed = _in_database(frame, guard, "ALTER")
        elif kind == "QUEUE":
            found = securables.find(frame, "OBJECT", parts)
            right = "ALTER" if verb == "alter" else "CONTROL"  # "ALTER on the queue is not enough to drop it"
            may_drop = verb == "drop" and guard.allows(frame.database, "SCHEMA", SCHEMA_DBO, "ALTER")
            allowed = found is None or may_drop or securables.is_held(frame, found, right)
        else:
            found = securables.find(frame, kind, parts)
            allowed = found is None or securables.is_held(frame, found, "ALTER")
        if not allowed:
            raise SqlServerError(15151, verb, kind.lower(), ".".join(parts))

    return gate


def _create_service(node: broker.CreateService, frame: Frame, guard: Guard) -> None:
    _create("CREATE SERVICE")(node, frame, guard)
    queue = securables.find(frame, "OBJECT", node.queue)
    if queue is not None and not securables.is_held(frame, queue, "CONTROL"):
        raise SqlServerError(15151, "find", "queue", ".".join(node.queue))


def _event_notification(node: Any, frame: Frame, guard: Guard) -> None:
    queue = securables.find(frame, "OBJECT", node.queue)
    if queue is not None and not securables.is_held(frame, queue, "ALTER"):
        raise SqlServerError(15151, "alter", "queue", ".".join(node.queue))


def _control_of_database(node: Any, frame: Frame, guard: Guard) -> None:
    if not _in_database(frame, guard, "CONTROL"):
        raise SqlServerError(15247)


def _create_certificate(node: security.CreateCertificate, frame: Frame, guard: Guard) -> None:
    if not _in_database(frame, guard, "CREATE CERTIFICATE"):
        raise SqlServerError(15247)
    if node.owner:
        _give(frame, guard, node.owner)


def _alter_any_user(node: Any, frame: Frame, guard: Guard) -> None:
    if not _in_database(frame, guard, "ALTER ANY USER"):
        raise SqlServerError(15247)


def _alter_user(node: security.AlterUser, frame: Frame, guard: Guard) -> None:
    """ "To change the login, CONTROL permission on the database is required." """
    if not _in_database(frame, guard, "CONTROL"):
        raise SqlServerError(15151, "alter", "user", node.name)


def _create_login(node: Any, frame: Frame, guard: Guard) -> None:
    if not guard.allows_on_server("CREATE LOGIN"):
        raise SqlServerError(15247)


def _may_alter_login(frame: Frame, guard: Guard, name: str) -> bool:
    """A sysadmin's login is a sysadmin's business."""
    key = name.lower()
    if key == "sa" or frame.instance.grants.is_member(SERVER, SYSADMIN, key):
        return False
    found = securables.find(frame, "LOGIN", (name,))
    return found is None or guard.allows_on_server("ALTER", *found[1:])


def _alter_login(node: security.AlterLogin, frame: Frame, guard: Guard) -> None:
    if not _may_alter_login(frame, guard, node.name):
        raise SqlServerError(15151, "alter", "login", node.name)


def _drop_principal(node: security.DropPrincipal, frame: Frame, guard: Guard) -> None:
    found = securables.find(frame, node.kind, (node.name,))
    if node.kind == "LOGIN":
        allowed = _may_alter_login(frame, guard, node.name)
    elif node.kind == "USER":
        allowed = _in_database(frame, guard, "ALTER ANY USER")
    else:
        allowed = found is None or securables.is_held(frame, found, "CONTROL")
    if not allowed:
        raise SqlServerError(15151, "drop", node.kind.lower(), node.name)


def _endpoint(node: security.Endpoint, frame: Frame, guard: Guard) -> None:
    if node.verb == "CREATE":
        if not guard.allows_on_server("CREATE ENDPOINT"):
            raise SqlServerError(15247)
        return
    found = securables.find(frame, "ENDPOINT", (node.name,))
    if found is not None and not securables.is_held(frame, found, "ALTER"):
        raise SqlServerError(15151, "alter", "endpoint", node.name)


def _alter_role(node: security.AlterRole, frame: Frame, guard: Guard) -> None:
    """Members of a fixed role are added by its members: here, of the server's by nobody but a sysadmin."""
    if node.of_server:
        raise SqlServerError(15151, "alter", "server role", node.role)
    if not _in_database(frame, guard, "CONTROL"):
        raise SqlServerError(15151, "alter", "role", node.role)


def _alter_authorization(node: security.AlterAuthorization, frame: Frame, guard: Guard) -> None:
    found = securables.find(frame, "DATABASE", node.securable)
    own = node.owner.lower() == guard.login.lower()
    if found is None or not own or not securables.is_held(frame, found, "TAKE OWNERSHIP"):
        raise SqlServerError(15151, "find", "database", node.securable[-1])


def _reconfigure(node: Any, frame: Frame, guard: Guard) -> None:
    if not guard.allows_on_server("ALTER SETTINGS"):
        raise SqlServerError(5812)


def _dbcc(node: dbcc.Dbcc, frame: Frame, guard: Guard) -> None:
    if node.command != "TRACESTATUS":
        raise SqlServerError(2571, guard.login, node.command)


GATES: dict[type[Statement], Gate] = {
    schema.CreateTable: _create("CREATE TABLE", in_schema=True),
    schema.AlterTable: _object(1088, "ALTER"),
    schema.CreateIndex: _object(1088, "ALTER"),
    schema.DropObject: _drop_object,
    schema.CreateDatabase: _create_database,
    schema.AlterDatabase: _alter_database,
    schema.DropDatabase: _drop_database,
    files.AlterDatabaseFiles: _alter_database,
    files.Reconfigure: _reconfigure,
    data.Truncate: _object(1088, "ALTER"),
    dbcc.Dbcc: _dbcc,
    procedures.CreateProcedure: _create_procedure,
    broker.CreateMessageType: _create("CREATE MESSAGE TYPE"),
    broker.AlterMessageType: _broker_object("alter", "MESSAGE TYPE"),
    broker.CreateContract: _create("CREATE CONTRACT"),
    broker.CreateQueue: _create("CREATE QUEUE", in_schema=True),
    broker.AlterQueue: _broker_object("alter", "QUEUE"),
    broker.CreateService: _create_service,
    broker.AlterService: _broker_object("alter", "SERVICE"),
    broker.CreateRoute: _create("CREATE ROUTE"),
    broker.AlterRoute: _broker_object("alter", "ROUTE"),
    broker.CreateRemoteServiceBinding: _create("CREATE REMOTE SERVICE BINDING"),
    broker.AlterRemoteServiceBinding: _broker_object("alter", "REMOTE SERVICE BINDING"),
    broker.BrokerPriority: _broker_object("alter", "BROKER PRIORITY"),
    broker.CreateEventNotification: _event_notification,
    broker.DropEventNotification: _event_notification,
    broker.DropBrokerObject: _broker_object("drop"),
    security.CreateMasterKey: _control_of_database,
    security.DropMasterKey: _control_of_database,
    security.CreateCertificate: _create_certificate,
    security.CreateLogin: _create_login,
    security.AlterLogin: _alter_login,
    security.CreateUser: _alter_any_user,
    security.AlterUser: _alter_user,
    security.DropPrincipal: _drop_principal,
    security.Endpoint: _endpoint,
    security.AlterRole: _alter_role,
    security.AlterAuthorization: _alter_authorization,
}
