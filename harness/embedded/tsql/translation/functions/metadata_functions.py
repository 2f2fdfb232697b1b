"""Names and ids of databases, objects, schemas and certificates."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

from harness.embedded.errors import SqlServerError
from harness.embedded.sqltypes import INT, MAX, SMALLINT, SYSNAME, SqlType
from harness.embedded.tsql.catalog.object_views import SYSTEM_OBJECTS
from harness.embedded.tsql.session.frame import Frame
from harness.embedded.tsql.text.tokens import Tokens
from harness.embedded.tsql.translation.functions.kinds import (
    Functions,
    in_session,
    of_frame,
    without_or_with_arguments,
)


def db_id(frame: Frame, name: Any = "") -> int | None:
    database = frame.instance.engine.databases.get(str(name).lower()) if name else frame.session.database
    return None if database is None or name is None else database.database_id


def db_name(frame: Frame, identifier: Any) -> str | None:
    for database in frame.instance.engine.databases.values():
        if database.database_id == identifier:
            return database.name
    return None


@lru_cache(maxsize=1024)
def _parts(name: str) -> tuple[str, ...]:
    return Tokens(name).object_name()


def object_id(frame: Frame, name: Any, kind: Any = "") -> int | None:
    """OBJECT_ID ( 'name' [ , 'type' ] )"""
    if name is None:
        return None
    try:
        parts = _parts(str(name))
        database, schema, last = frame.instance.located(parts, frame.database)
    except SqlServerError:
        return None
    kind = str(kind or "").strip().upper()
    key = f"{schema}.{last}".lower()
    found = {
        "U": frame.instance.tables.get((database.database_id, key)),
        "P": frame.instance.procedures.get((database.database_id, key)),
        "SQ": database.catalog.queues.get(key),
    }
    for type_, item in found.items():
        if item is not None and kind in ("", type_):
            return item.object_id
    return SYSTEM_OBJECTS.get(last.lower()) if schema.lower() == "sys" and kind in ("", "S") else None


def _object(frame: Frame, identifier: Any, database_id: Any) -> Any:
    """The table, procedure or queue with that object_id in a database, by default the current one."""
    wanted = frame.session.database.database_id if database_id is None else database_id
    objects: list[Any] = [*frame.instance.tables.values(), *frame.instance.procedures.values()]
    for item in objects:
        if item.object_id == identifier and item.database_id == wanted:
            return item
    for database in frame.instance.engine.databases.values():
        if database.database_id == wanted:
            return next((queue for queue in database.catalog.queues.values() if queue.object_id == identifier), None)
    return None


def object_name(frame: Frame, identifier: Any, database_id: Any = None) -> str | None:
    """OBJECT_NAME ( object_id [ , database_id ] )"""
    item = _object(frame, identifier, database_id)
    if item is not None:
        return str(item.name)
    return next((name for name, number in SYSTEM_OBJECTS.items() if number == identifier), None)


def object_schema_name(frame: Frame, identifier: Any, database_id: Any = None) -> str | None:
    """OBJECT_SCHEMA_NAME ( object_id [ , database_id ] )"""
    if identifier in SYSTEM_OBJECTS.values():
        return "sys"
    item = _object(frame, identifier, database_id)
    return None if item is None else str(item.schema)


def schema_name(frame: Frame, identifier: Any = 1) -> str | None:
    return {1: "dbo", 4: "sys"}.get(identifier)


def schema_id(frame: Frame, name: Any = "dbo") -> int | None:
    return {"dbo": 1, "sys": 4}.get(str(name).lower())


def cert_id(frame: Frame, name: Any) -> int | None:
    certificate = frame.database.catalog.principals.certificate(str(name))
    return certificate.certificate_id if certificate is not None else None


def cert_encoded(frame: Frame, identifier: Any) -> bytes | None:
    for certificate in frame.database.catalog.principals.certificates.values():
        if certificate.certificate_id == identifier:
            return certificate.blob
    return None


def file_property(frame: Frame, name: Any, what: Any) -> int | None:
    """FILEPROPERTY: this server does not count the pages that a file uses."""
    return None


FUNCTIONS: Functions = {
    "CERTENCODED": in_session("CERTENCODED", cert_encoded, SqlType("varbinary", length=MAX), least=1),
    "CERT_ID": in_session("CERT_ID", cert_id, INT, least=1),
    "DB_ID": in_session("DB_ID", db_id, SMALLINT, least=0, most=1),
    "DB_NAME": without_or_with_arguments(
        of_frame("@database", SYSNAME, lambda frame: frame.session.database.name),
        in_session("DB_NAME", db_name, SYSNAME, least=1),
    ),
    "FILEPROPERTY": in_session("FILEPROPERTY", file_property, INT, least=2),
    "OBJECT_ID": in_session("OBJECT_ID", object_id, INT, least=1, most=2),
    "OBJECT_NAME": in_session("OBJECT_NAME", object_name, SYSNAME, least=1, most=2),
    "OBJECT_SCHEMA_NAME": in_session("OBJECT_SCHEMA_NAME", object_schema_name, SYSNAME, least=1, most=2),
    "SCHEMA_ID": in_session("SCHEMA_ID", schema_id, INT, least=0, most=1),
    "SCHEMA_NAME": in_session("SCHEMA_NAME", schema_name, SYSNAME, least=0, most=1),
}
