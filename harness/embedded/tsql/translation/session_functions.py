"""Functions that only the session can answer: who am I, what time is it, what went wrong, which object is that."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Any

from harness.embedded.errors import SqlServerError
from harness.embedded.sqltypes import (
    BIGINT,
    DATETIME,
    DATETIME2,
    INT,
    MAX,
    SMALLINT,
    SYSNAME,
    UNIQUEIDENTIFIER,
    SqlType,
)
from harness.embedded.tsql.catalog.objects import SYSTEM_OBJECTS
from harness.embedded.tsql.instance.products import product
from harness.embedded.tsql.permissions.fixed_principals import (
    DATABASE_ROLE_IDS,
    FIXED_USER_IDS,
    SA,
    SA_ID,
    SERVER_ROLE_IDS,
    sid_of,
)
from harness.embedded.tsql.storage.conversion import guid_text
from harness.embedded.tsql.storage.moments import from_utc_ns
from harness.embedded.tsql.text.tokens import Tokens
from harness.embedded.tsql.translation.fragments import Fragment
from harness.embedded.tsql.translation.functions import (
    FUNCTIONS,
    GLOBALS,
    NVARCHAR,
    Arguments,
    Function,
    in_session,
    of_frame,
)
from harness.embedded.tsql.translation.permission_functions import current_user, login_name

if TYPE_CHECKING:
    from harness.embedded.tsql.session.frame import Frame
    from harness.embedded.tsql.translation.renderer import Renderer

VARBINARY_MAX = SqlType("varbinary", length=MAX)


def version_text(frame: Frame) -> str:
    """@@VERSION; it does not pretend to be the real thing."""
    number, name = product(frame.instance.engine.version)
    return f"Embedded Service Broker, speaking as {name} - {number}"


# -- time and identity -------------------------------------------------------------------------------------------------


def _utc(frame: Frame) -> str:
    return from_utc_ns(frame.instance.engine.clock.utc_ns())


def _utc_milliseconds(frame: Frame) -> str:
    return _utc(frame)[:23]


def newid(frame: Frame) -> str:
    """A random uniqueidentifier, version 4."""
    raw = bytearray(frame.instance.engine.entropy.random_bytes(16))
    raw[7] = raw[7] & 0x0F | 0x40
    raw[8] = raw[8] & 0x3F | 0x80
    return guid_text(bytes(raw))


def _newid(renderer: Renderer, arguments: Arguments) -> Fragment:
    """A new value for every row, so no parameter."""
    renderer.function("session_newid", 0, newid, constant=False)
    return Fragment("session_newid()", UNIQUEIDENTIFIER, nullable=False)


# -- errors ------------------------------------------------------------------------------------------------------------


def _caught(frame: Frame) -> SqlServerError | None:
    return frame.session.caught[-1] if frame.session.caught else None


def _of_error(name: str) -> Any:
    """A property of the error that the CATCH block is about; NULL outside of one."""

    def value(frame: Frame) -> Any:
        error = _caught(frame)
        return None if error is None else getattr(error, name) or None

    return value


# -- names and ids of objects ------------------------------------------------------------------------------------------


def db_id(frame: Frame, name: Any = "") -> int | None:
    database = frame.instance.engine.databases.get(str(name).lower()) if name else frame.session.database
    return None if database is None or name is None else database.database_id


def db_name(frame: Frame, identifier: Any) -> str | None:
    for database in frame.instance.engine.databases.values():
        if database.database_id == identifier:
            return database.name
    return None


@lru_cache(maxsize=1024)  # the same few names are asked for again and again
def _parts(name: str) -> tuple[str, ...]:
    return Tokens(name).object_name()


def object_id(frame: Frame, name: Any, kind: Any = "") -> int | None:
    """OBJECT_ID('name' [, 'type'])"""
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
        "SQ": database.queues.get(key),
    }
    for type_, item in found.items():
        if item is not None and kind in ("", type_):
            return item.object_id
    return SYSTEM_OBJECTS.get(last.lower()) if schema.lower() == "sys" and kind in ("", "S") else None


def object_name(frame: Frame, identifier: Any, database_id: Any = None) -> str | None:
    databases = frame.instance.engine.databases.values()
    wanted = frame.session.database.database_id if database_id is None else database_id
    objects: list[Any] = [*frame.instance.tables.values(), *frame.instance.procedures.values()]
    for item in objects:
        if item.object_id == identifier and item.database_id == wanted:
            return str(item.name)
    for database in databases:
        for queue in database.queues.values() if database.database_id == wanted else ():
            if queue.object_id == identifier:
                return queue.name
    return next((name for name, number in SYSTEM_OBJECTS.items() if number == identifier), None)


def object_schema_name(frame: Frame, identifier: Any, database_id: Any = None) -> str | None:
    """OBJECT_SCHEMA_NAME ( object_id [, database_id ] )"""
    if identifier in SYSTEM_OBJECTS.values():
        return "sys"
    wanted = frame.session.database.database_id if database_id is None else database_id
    objects: list[Any] = [*frame.instance.tables.values(), *frame.instance.procedures.values()]
    for database in frame.instance.engine.databases.values():
        if database.database_id == wanted:
            objects += database.queues.values()
    found = (item for item in objects if item.object_id == identifier)
    return next((str(item.schema) for item in found if getattr(item, "database_id", wanted) == wanted), None)


def schema_name(frame: Frame, identifier: Any = 1) -> str | None:
    return {1: "dbo", 4: "sys"}.get(identifier)


def schema_id(frame: Frame, name: Any = "dbo") -> int | None:
    return {"dbo": 1, "sys": 4}.get(str(name).lower())


def suser_id(frame: Frame, name: Any = None) -> int | None:
    key = str(name or login_name(frame)).lower()
    login = frame.instance.engine.logins.get(key)
    if login is not None:
        return login.principal_id
    return SA_ID if key == SA else SERVER_ROLE_IDS.get(key)


def suser_name(frame: Frame, identifier: Any = None) -> str | None:
    if identifier is None:
        return login_name(frame)
    for login in frame.instance.engine.logins.values():
        if login.principal_id == identifier:
            return login.name
    return SA if identifier == SA_ID else _name_of(SERVER_ROLE_IDS, identifier)


def _name_of(identifiers: dict[str, int], identifier: Any) -> str | None:
    return next((name for name, number in identifiers.items() if number == identifier), None)


def suser_sname(frame: Frame, sid: Any) -> str | None:
    """SUSER_SNAME(sid); NULL for nobody's."""
    for login in frame.instance.engine.logins.values():
        if sid_of(login.principal_id) == sid:
            return login.name
    return SA if sid == sid_of(SA_ID) else None


def file_property(frame: Frame, name: Any, what: Any) -> int | None:
    """FILEPROPERTY: nobody counts the pages in use here."""
    return None


def user_id(frame: Frame, name: Any = None) -> int | None:
    key = str(name or current_user(frame)).lower()
    user = frame.database.principals.users.get(key)
    return user.principal_id if user is not None else FIXED_USER_IDS.get(key, DATABASE_ROLE_IDS.get(key))


def user_name(frame: Frame, identifier: Any = None) -> str | None:
    if identifier is None:
        return current_user(frame)
    for user in frame.database.principals.users.values():
        if user.principal_id == identifier:
            return user.name
    return _name_of(FIXED_USER_IDS | DATABASE_ROLE_IDS, identifier)


def cert_id(frame: Frame, name: Any) -> int | None:
    certificate = frame.database.certificate(str(name))
    return certificate.certificate_id if certificate is not None else None


def cert_encoded(frame: Frame, identifier: Any) -> bytes | None:
    for certificate in frame.database.principals.certificates.values():
        if certificate.certificate_id == identifier:
            return certificate.blob
    return None


def get_transmission_status(frame: Frame, handle: Any) -> str:
    return frame.database.transmission_status(str(handle).upper())


def server_property(frame: Frame, name: Any) -> Any:
    engine = frame.instance.engine
    number, _ = product(engine.version)
    properties = {
        "servername": engine.name,
        "machinename": engine.name,
        "instancename": None,
        "productversion": number,
        "productlevel": "RTM",
        "productmajorversion": number.partition(".")[0],
        "edition": "Embedded Service Broker",
        "engineedition": 3,
        "collation": "SQL_Latin1_General_CP1_CI_AS",
        "isclustered": 0,
        "ishadrenabled": 0,
        "isintegratedsecurityonly": 0,
        "issingleuser": 0,
        "processid": None,
    }
    return properties.get(str(name).lower())


def _server_property(renderer: Renderer, arguments: Arguments) -> Fragment:
    type_ = INT if str(arguments[0].constant).lower() == "engineedition" else NVARCHAR
    return in_session("SERVERPROPERTY", server_property, type_, least=1).render(renderer, arguments)


def database_property(frame: Frame, name: Any, what: Any) -> Any:
    database = frame.instance.engine.databases.get(str(name).lower())
    if database is None:
        return None
    return {"collation": "SQL_Latin1_General_CP1_CI_AS", "status": "ONLINE", "updateability": "READ_WRITE"}.get(
        str(what).lower()
    )


FUNCTIONS.update(
    {
        "CERTENCODED": in_session("CERTENCODED", cert_encoded, VARBINARY_MAX, least=1),
        "CERT_ID": in_session("CERT_ID", cert_id, INT, least=1),
        "CURRENT_TIMESTAMP": of_frame("@now", DATETIME, _utc_milliseconds),
        "DATABASEPROPERTYEX": in_session("DATABASEPROPERTYEX", database_property, NVARCHAR, least=2),
        "DB_ID": in_session("DB_ID", db_id, SMALLINT, least=0, most=1),
        "DB_NAME": Function(
            0,
            1,
            lambda renderer, arguments: (
                in_session("DB_NAME", db_name, SYSNAME, least=1).render(renderer, arguments)
                if arguments
                else of_frame("@database", SYSNAME, lambda frame: frame.session.database.name).render(renderer, [])
            ),
        ),
        "ERROR_LINE": of_frame("ERROR_LINE", INT, _of_error("line")),
        "ERROR_MESSAGE": of_frame("ERROR_MESSAGE", NVARCHAR, _of_error("text")),
        "ERROR_NUMBER": of_frame("ERROR_NUMBER", INT, _of_error("number")),
        "ERROR_PROCEDURE": of_frame("ERROR_PROCEDURE", SYSNAME, _of_error("procedure")),
        "ERROR_SEVERITY": of_frame("ERROR_SEVERITY", INT, _of_error("severity")),
        "ERROR_STATE": of_frame("ERROR_STATE", INT, _of_error("state")),
        "FILEPROPERTY": in_session("FILEPROPERTY", file_property, INT, least=2),
        "GETDATE": of_frame("@now", DATETIME, _utc_milliseconds),
        "GETUTCDATE": of_frame("@now", DATETIME, _utc_milliseconds),
        "GET_TRANSMISSION_STATUS": in_session("GET_TRANSMISSION_STATUS", get_transmission_status, NVARCHAR, least=1),
        "HOST_NAME": of_frame("HOST_NAME", SYSNAME, lambda frame: frame.session.host),
        "APP_NAME": of_frame("APP_NAME", SYSNAME, lambda frame: frame.session.program),
        "NEWID": Function(0, 0, _newid),
        "NEWSEQUENTIALID": Function(0, 0, _newid),
        "OBJECT_ID": in_session("OBJECT_ID", object_id, INT, least=1, most=2),
        "OBJECT_NAME": in_session("OBJECT_NAME", object_name, SYSNAME, least=1, most=2),
        "OBJECT_SCHEMA_NAME": in_session("OBJECT_SCHEMA_NAME", object_schema_name, SYSNAME, least=1, most=2),
        "ORIGINAL_LOGIN": of_frame("@login", SYSNAME, lambda frame: frame.session.login),
        "SCHEMA_ID": in_session("SCHEMA_ID", schema_id, INT, least=0, most=1),
        "SCHEMA_NAME": in_session("SCHEMA_NAME", schema_name, SYSNAME, least=0, most=1),
        "SCOPE_IDENTITY": of_frame("SCOPE_IDENTITY", BIGINT, lambda frame: frame.session.identity),
        "SERVERPROPERTY": Function(1, 1, _server_property),
        "SUSER_ID": in_session("SUSER_ID", suser_id, INT, least=0, most=1),
        "SUSER_NAME": in_session("SUSER_NAME", suser_name, SYSNAME, least=0, most=1),
        "SUSER_SNAME": Function(
            0,
            1,
            lambda renderer, arguments: (
                in_session("SUSER_SNAME", suser_sname, SYSNAME, least=1).render(renderer, arguments)
                if arguments
                else of_frame("@context", SYSNAME, login_name).render(renderer, [])
            ),
        ),
        "SYSDATETIME": of_frame("@utcnow", DATETIME2, _utc),
        "SYSUTCDATETIME": of_frame("@utcnow", DATETIME2, _utc),
        "USER_ID": in_session("USER_ID", user_id, INT, least=0, most=1),
        "USER_NAME": in_session("USER_NAME", user_name, SYSNAME, least=0, most=1),
        "XACT_STATE": of_frame("XACT_STATE", SMALLINT, lambda frame: frame.session.xact_state),
    }
)

GLOBALS.update(
    {
        "CURSOR_ROWS": (INT, lambda frame: 0),
        "DBTS": (BIGINT, lambda frame: 0),
        "ERROR": (INT, lambda frame: frame.session.error_number),
        "FETCH_STATUS": (INT, lambda frame: frame.session.fetch_status),
        "IDENTITY": (BIGINT, lambda frame: frame.session.identity),
        "LANGUAGE": (SYSNAME, lambda frame: "us_english"),
        "LOCK_TIMEOUT": (INT, lambda frame: frame.session.options.lock_timeout_ms),
        "MAX_PRECISION": (SqlType("tinyint"), lambda frame: 38),
        "MICROSOFTVERSION": (INT, lambda frame: int(product(frame.instance.engine.version)[0].partition(".")[0]) << 24),
        "NESTLEVEL": (INT, lambda frame: frame.depth),
        "OPTIONS": (INT, lambda frame: 512 if frame.session.options.nocount else 0),
        "PROCID": (INT, lambda frame: object_id(frame, frame.procedure, "P") or 0 if frame.procedure else 0),
        "ROWCOUNT": (INT, lambda frame: frame.session.row_count),
        "SERVERNAME": (SYSNAME, lambda frame: frame.instance.engine.name),
        "SERVICENAME": (SYSNAME, lambda frame: "MSSQLSERVER"),
        "SPID": (SMALLINT, lambda frame: frame.session.spid),
        "TEXTSIZE": (INT, lambda frame: -1),
        "TRANCOUNT": (INT, lambda frame: frame.session.tran_count),
        "VERSION": (SqlType("nvarchar", length=300), version_text),
    }
)
