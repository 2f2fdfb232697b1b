"""Finds the securable that a class and a name mean."""

from collections.abc import Callable
from typing import Any, Protocol

from harness.embedded.broker.catalog import OWNED
from harness.embedded.broker.database import Database
from harness.embedded.broker.system_objects import FIRST_USER_ID
from harness.embedded.errors import SqlServerError
from harness.embedded.tsql.instance.instance import Instance
from harness.embedded.tsql.permissions import guard, rights
from harness.embedded.tsql.permissions.guard import THE_SERVER, object_of


class NameContext(guard.Context, Protocol):
    """The session and the database in which a name is looked up."""

    @property
    def instance(self) -> Instance: ...


def _schema(frame: NameContext, parts: tuple[str, ...]) -> rights.Securable | None:
    schema = frame.database.catalog.schemas.get(parts[-1].lower())
    return None if schema is None else rights.Securable(frame.database.database_id, "SCHEMA", schema.schema_id)


def _database(frame: NameContext, parts: tuple[str, ...]) -> rights.Securable | None:
    database = frame.instance.engine.databases.get(parts[-1].lower())
    return None if database is None else rights.Securable(database.database_id, "DATABASE", 0)


def _object(frame: NameContext, parts: tuple[str, ...]) -> rights.Securable | None:
    database, schema, name = frame.instance.located(parts, frame.database, frame.session.guard)
    item = (
        frame.instance.table(parts, frame.database)
        or frame.instance.procedure(parts, frame.database)
        or frame.instance.view(parts, frame.database)
        or frame.instance.function(parts, frame.database)
        or database.catalog.queues.get(f"{schema}.{name}".lower())
    )
    return None if item is None else object_of(database, item)


def _user(frame: NameContext, parts: tuple[str, ...]) -> rights.Securable | None:
    user = frame.database.catalog.principals.users.get(parts[-1].lower())
    if user is None and parts[-1].lower() != "dbo":
        return None
    return rights.Securable(
        frame.database.database_id, "USER", user.principal_id if user is not None else rights.DBO_ID
    )


def _endpoint(frame: NameContext, parts: tuple[str, ...]) -> rights.Securable | None:
    endpoint = frame.instance.engine.link.endpoint
    if endpoint is None or endpoint.name.lower() != parts[-1].lower():
        return None
    return rights.Securable(rights.SERVER, "ENDPOINT", endpoint.endpoint_id)


def _owned(class_: str) -> Callable[[NameContext, tuple[str, ...]], rights.Securable | None]:
    """Find a Service Broker object, whose name is compared byte by byte."""
    attribute, identifier = OWNED[class_]

    def find(frame: NameContext, parts: tuple[str, ...]) -> rights.Securable | None:
        item: Any = getattr(frame.database.catalog, attribute).get(parts[-1])
        return None if item is None else rights.Securable(frame.database.database_id, class_, getattr(item, identifier))

    return find


def _certificate(frame: NameContext, parts: tuple[str, ...]) -> rights.Securable | None:
    certificate = frame.database.catalog.principals.certificate(parts[-1])
    return (
        None
        if certificate is None
        else rights.Securable(frame.database.database_id, "CERTIFICATE", certificate.certificate_id)
    )


FINDERS: dict[str, Callable[[NameContext, tuple[str, ...]], rights.Securable | None]] = {
    "SERVER": lambda frame, parts: THE_SERVER,
    "ENDPOINT": _endpoint,
    "DATABASE": _database,
    "SCHEMA": _schema,
    "OBJECT": _object,
    "USER": _user,
    "CERTIFICATE": _certificate,
    **{class_: _owned(class_) for class_ in ("SERVICE", "CONTRACT", "MESSAGE TYPE", "ROUTE", "REMOTE SERVICE BINDING")},
}


def find(frame: NameContext, class_: str, parts: tuple[str, ...]) -> rights.Securable | None:
    """The securable of that name; None if there is none."""
    return FINDERS[class_](frame, parts)


def is_held(frame: NameContext, securable: rights.Securable, permission: str) -> bool:
    """Whether the session holds a permission. A sysadmin holds all."""
    held_by = frame.session.guard
    if held_by is None:
        return True
    if securable.database_id == rights.SERVER:
        return held_by.allows_on_server(permission, securable.securable_class, securable.id)
    return held_by.allows(_database_of(frame, securable), *securable[1:], permission)


def require_references(frame: NameContext, class_: str, name: str) -> None:
    """Raise 15151 unless the session may refer to a message type or contract; everyone may to those of the system."""
    securable = find(frame, class_, (name,))
    if securable is not None and securable.id >= FIRST_USER_ID and not is_held(frame, securable, "REFERENCES"):
        raise SqlServerError(15151, "find", class_.lower(), name)


def _database_of(frame: NameContext, securable: rights.Securable) -> Database:
    databases = frame.instance.engine.databases.values()
    return next(database for database in databases if database.database_id == securable.database_id)


def principal(frame: NameContext, name: str, *, of_server: bool) -> str:
    """The name of a login or server role, or of a user or database role, in lower case; 15151 if there is none."""
    key = name.lower()
    if of_server:
        if key in rights.SERVER_ROLE_IDS or key == "sa" or key in frame.instance.engine.logins:
            return key
        raise SqlServerError(15151, "find", "login", name)
    if key in {"dbo", "guest"} or key in rights.DATABASE_ROLES or key in frame.database.catalog.principals.users:
        return key
    raise SqlServerError(15151, "find", "user", name)
