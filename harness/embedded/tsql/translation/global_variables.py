"""System functions whose names begin with @@."""

from __future__ import annotations

from harness.embedded.errors import SqlServerError
from harness.embedded.sqltypes import BIGINT, INT, SMALLINT, SYSNAME, SqlType
from harness.embedded.tsql.instance.products import product
from harness.embedded.tsql.session.frame import Frame
from harness.embedded.tsql.translation.fragments import Fragment, Getter
from harness.embedded.tsql.translation.functions.metadata_functions import object_id
from harness.embedded.tsql.translation.renderer import Renderer


def version_text(frame: Frame) -> str:
    """@@VERSION. It says that this is not SQL Server."""
    number, name = product(frame.instance.engine.version)
    return f"Embedded Service Broker, speaking as {name} - {number}"


GLOBALS: dict[str, tuple[SqlType, Getter]] = {
    "ERROR": (INT, lambda frame: frame.session.error_number),
    "FETCH_STATUS": (INT, lambda frame: frame.session.fetch_status),
    "IDENTITY": (BIGINT, lambda frame: frame.session.identity),
    "LOCK_TIMEOUT": (INT, lambda frame: frame.session.options.lock_timeout_ms),
    "MAX_PRECISION": (SqlType("tinyint"), lambda frame: 38),
    "NESTLEVEL": (INT, lambda frame: frame.depth),
    "PROCID": (INT, lambda frame: object_id(frame, frame.procedure, "P") or 0 if frame.procedure else 0),
    "ROWCOUNT": (INT, lambda frame: frame.session.row_count),
    "SERVERNAME": (SYSNAME, lambda frame: frame.instance.engine.name),
    "SPID": (SMALLINT, lambda frame: frame.session.spid),
    "TRANCOUNT": (INT, lambda frame: frame.session.tran_count),
    "VERSION": (SqlType("nvarchar", length=300), version_text),
}


def global_variable(renderer: Renderer, name: str) -> Fragment:
    """Render @@name; 137 if it is unknown."""
    found = GLOBALS.get(name.upper())
    if found is None:
        raise SqlServerError(137, "@@" + name)
    type_, getter = found
    return Fragment(renderer.parameter("@@" + name.upper(), getter), type_, nullable=False)
