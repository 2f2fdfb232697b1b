"""The register of system procedures, which EXECUTE and RPCs call by name."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from harness.embedded.errors import SqlServerError
from harness.embedded.runtime.tasks import Waiting
from harness.embedded.sqltypes import SqlType
from harness.embedded.tsql.session.result_sink import Parameter, ResultSink
from harness.embedded.tsql.session.session import Session

Outputs = dict[int, tuple[SqlType, Any]]  # index of an OUTPUT parameter -> its type and value
SystemProcedure = Callable[[Session, Sequence[Parameter], ResultSink, int], Waiting[Outputs]]

_PROCEDURES: dict[str, SystemProcedure] = {}


def register_procedure(name: str, procedure: SystemProcedure) -> None:
    """Add a system procedure; its name in lower case."""
    _PROCEDURES[name] = procedure


def call_system(
    session: Session, parts: tuple[str, ...], parameters: Sequence[Parameter], sink: ResultSink, depth: int
) -> Waiting[tuple[int, Outputs]]:
    """Run a system procedure; error 2812 if no such procedure exists."""
    system = _PROCEDURES.get(parts[-1].lower())
    if system is None:
        raise SqlServerError(2812, ".".join(parts))
    outputs = yield from system(session, parameters, sink, depth)
    return 0, outputs
