"""Functions about the session and the server: time, errors, connection, server properties."""

from typing import Any
from zlib import crc32

from harness.embedded.errors import SqlServerError
from harness.embedded.sqltypes import (
    BIGINT,
    DATETIME,
    DATETIME2,
    DATETIMEOFFSET,
    FLOAT,
    INT,
    SMALLINT,
    SYSNAME,
    UNIQUEIDENTIFIER,
    SqlType,
)
from harness.embedded.tsql.session.session import Frame
from harness.embedded.tsql.storage.conversion import guid_text
from harness.embedded.tsql.storage.moments import datetime_from_utc_ns, from_utc_ns
from harness.embedded.tsql.translation.fragments import CONDITION, NVARCHAR, Fragment, Getter
from harness.embedded.tsql.translation.functions.kinds import (
    Arguments,
    Function,
    Functions,
    in_session,
    of_frame,
    without_or_with_arguments,
)
from harness.embedded.tsql.translation.renderer import Renderer
from harness.embedded.versions import product

IDENTITY = SqlType("decimal", precision=38)


def _utc(frame: Frame) -> str:
    return from_utc_ns(frame.instance.engine.clock.utc_ns())


def _utc_datetime(frame: Frame) -> str | None:
    return datetime_from_utc_ns(frame.instance.engine.clock.utc_ns())


def newid(frame: Frame) -> str:
    """A random uniqueidentifier, version 4."""
    raw = bytearray(frame.instance.engine.entropy.random_bytes(16))
    raw[7] = raw[7] & 0x0F | 0x40
    raw[8] = raw[8] & 0x3F | 0x80
    return guid_text(bytes(raw))


def _sequential_id(frame: Frame) -> str:
    """A uniqueidentifier greater than all before it since the start of the instance."""
    instance = frame.instance
    instance.sequential_ids += 1
    return f"{instance.sequential_ids:08X}{newid(frame)[8:]}"


def sequential_id(renderer: Renderer) -> Fragment:
    """NEWSEQUENTIALID, which only the default of a column may call."""
    renderer.function("session_newsequentialid", 0, _sequential_id, constant=False)
    return Fragment("session_newsequentialid()", UNIQUEIDENTIFIER, nullable=False)


def _only_in_defaults(renderer: Renderer, arguments: Arguments) -> Fragment:
    raise SqlServerError(302)


def _newid(renderer: Renderer, arguments: Arguments) -> Fragment:
    """NEWID: not a parameter, because every row gets a value of its own."""
    renderer.function("session_newid", 0, newid, constant=False)
    return Fragment("session_newid()", UNIQUEIDENTIFIER, nullable=False)


def _rand(frame: Frame, seed: int | None = None) -> float:
    """RAND ( [ seed ] ): from 0 to 1, the same for the same seed, but other numbers than SQL Server's."""
    if seed is not None:
        return crc32(str(seed).encode()) / 2**32
    return int.from_bytes(frame.instance.engine.entropy.random_bytes(6), "big") / 2**48


# -- errors ------------------------------------------------------------------------------------------------------------


def _of_error(name: str) -> Any:
    """A property of the error that a CATCH block handles; NULL outside one."""

    def value(frame: Frame) -> Any:
        caught = frame.session.caught
        return getattr(caught[-1], name) if caught else None

    return value


_procedure = _of_error("procedure")  # "" in a batch


# -- the server --------------------------------------------------------------------------------------------------------


def get_transmission_status(frame: Frame, handle: Any) -> str:
    return frame.database.transmission_status(str(handle).upper())


def trigger_nestlevel(frame: Frame, identifier: Any = None) -> int:
    """TRIGGER_NESTLEVEL ( [ object_id ] ): how many triggers, or runs of one, have been fired and have not ended."""
    firing = frame.session.firing
    return len(firing) if not identifier else sum(trigger.object_id == identifier for trigger in firing)


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
        "processid": None,
    }
    return properties.get(str(name).lower())


NUMBERS = frozenset({"engineedition", "isclustered", "ishadrenabled", "processid"})


def server_property_text(frame: Frame, name: Any) -> str | None:
    value = server_property(frame, name)
    return None if value is None else str(value)


def _server_property(renderer: Renderer, arguments: Arguments) -> Fragment:
    """SERVERPROPERTY: a number for the properties that are numbers, as the sql_variant of SQL Server holds it."""
    if str(arguments[0].constant).lower() in NUMBERS:
        return in_session(server_property, INT).render(renderer, arguments)
    return in_session(server_property_text, NVARCHAR).render(renderer, arguments)


def _update(renderer: Renderer, arguments: Arguments) -> Fragment:
    """`UPDATE ( column )` in a trigger: whether the statement assigns the column; "TRUE in INSERT actions"."""
    name = arguments[0].sql

    def is_assigned(frame: Frame) -> bool:
        if frame.assigned is None:
            raise SqlServerError(140)
        if name.lower() not in frame.assigned:
            raise SqlServerError(207, name)
        return frame.assigned[name.lower()]

    return Fragment(f"({renderer.parameter(f'UPDATE({name})', is_assigned)} = 1)", CONDITION)


FUNCTIONS: Functions = {
    "APP_NAME": of_frame("APP_NAME", SYSNAME, lambda frame: frame.session.program),
    "CURRENT_TIMESTAMP": of_frame("@now", DATETIME, _utc_datetime, nullable=False),
    "ERROR_LINE": of_frame("ERROR_LINE", INT, _of_error("line")),
    "ERROR_MESSAGE": of_frame("ERROR_MESSAGE", NVARCHAR, _of_error("text")),
    "ERROR_NUMBER": of_frame("ERROR_NUMBER", INT, _of_error("number")),
    "ERROR_PROCEDURE": of_frame("ERROR_PROCEDURE", SYSNAME, lambda frame: _procedure(frame) or None),
    "ERROR_SEVERITY": of_frame("ERROR_SEVERITY", INT, _of_error("severity")),
    "ERROR_STATE": of_frame("ERROR_STATE", INT, _of_error("state")),
    "GETDATE": of_frame("@now", DATETIME, _utc_datetime, nullable=False),
    "GETUTCDATE": of_frame("@now", DATETIME, _utc_datetime, nullable=False),
    "GET_TRANSMISSION_STATUS": in_session(get_transmission_status, NVARCHAR),
    "HOST_NAME": of_frame("HOST_NAME", SYSNAME, lambda frame: frame.session.host),
    "NEWID": Function(0, 0, _newid),
    "NEWSEQUENTIALID": Function(0, 0, _only_in_defaults),
    "RAND": without_or_with_arguments(of_frame("rand", FLOAT, _rand), in_session(_rand, FLOAT)),
    "ROWCOUNT_BIG": of_frame("@@ROWCOUNT_BIG", BIGINT, lambda frame: frame.session.row_count, nullable=False),
    "SCOPE_IDENTITY": of_frame("SCOPE_IDENTITY", IDENTITY, lambda frame: frame.identity),
    "SERVERPROPERTY": Function(1, 1, _server_property),
    "SYSDATETIME": of_frame("@utcnow", DATETIME2, _utc, nullable=False),
    "SYSDATETIMEOFFSET": of_frame("@utcoffset", DATETIMEOFFSET, lambda frame: f"{_utc(frame)} +00:00", nullable=False),
    "SYSUTCDATETIME": of_frame("@utcnow", DATETIME2, _utc, nullable=False),
    "TRIGGER_NESTLEVEL": in_session(trigger_nestlevel, INT),
    "UPDATE": Function(1, 1, _update, takes_word=True),
    "XACT_STATE": of_frame("XACT_STATE", SMALLINT, lambda frame: frame.session.xact_state),
}


def version_text(frame: Frame) -> str:
    """@@VERSION. It says that this is not SQL Server; clients read the number behind "Microsoft ... - "."""
    number, name = product(frame.instance.engine.version)
    return f"Microsoft {name}, imitated by the Embedded Service Broker - {number}"


GLOBALS: dict[str, tuple[SqlType, Getter]] = {
    "ERROR": (INT, lambda frame: frame.session.error_number),
    "FETCH_STATUS": (INT, lambda frame: frame.session.fetch_status),
    "IDENTITY": (IDENTITY, lambda frame: frame.session.identity),
    "LOCK_TIMEOUT": (INT, lambda frame: frame.session.options.lock_timeout_ms),
    "MAX_PRECISION": (SqlType("tinyint"), lambda frame: 38),
    "NESTLEVEL": (INT, lambda frame: frame.depth),
    "OPTIONS": (INT, lambda frame: frame.session.options.bits),
    "PROCID": (INT, lambda frame: frame.module_id),
    "ROWCOUNT": (INT, lambda frame: frame.session.row_count),
    "SERVERNAME": (SYSNAME, lambda frame: frame.instance.engine.name),
    "SPID": (SMALLINT, lambda frame: frame.session.spid),
    "TRANCOUNT": (INT, lambda frame: frame.session.tran_count),
    "VERSION": (SqlType("nvarchar", length=300), version_text),
}


def global_variable(renderer: Renderer, name: str) -> Fragment:
    """Render @@name; 137 if it is unknown."""
    variable = GLOBALS.get(name.upper())
    if variable is None:
        raise SqlServerError(137, "@@" + name)
    type_, getter = variable
    return Fragment(renderer.parameter("@@" + name.upper(), getter), type_, nullable=name.upper() == "IDENTITY")
