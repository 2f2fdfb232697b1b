"""sp_addextendedproperty, for databases only, not for objects in them."""

from __future__ import annotations

from collections.abc import Sequence

from harness.embedded.broker.transactions import Transaction
from harness.embedded.errors import SqlServerError, UnsupportedSyntax
from harness.embedded.runtime.tasks import Waiting
from harness.embedded.tsql.permissions.guard import is_allowed_to
from harness.embedded.tsql.session.autocommit import writing
from harness.embedded.tsql.session.frame import Frame
from harness.embedded.tsql.session.result_sink import Parameter, ResultSink
from harness.embedded.tsql.session.session import Session
from harness.embedded.tsql.statements.system_procedures import Outputs, register_procedure


def sp_addextendedproperty(
    session: Session, parameters: Sequence[Parameter], sink: ResultSink, depth: int
) -> Waiting[Outputs]:
    """`sp_addextendedproperty [ @name = ] N'name' [ , [ @value = ] N'value' ]`"""
    name, value = _arguments(parameters, ("@name", "@value"))

    def work(frame: Frame, tx: Transaction) -> None:
        if not is_allowed_to(frame, "DATABASE", 0, "ALTER"):
            raise SqlServerError(15247)
        frame.instance.extended_properties.add(tx, frame.database.database_id, name or "", value)

    yield from writing(work).run(Frame(session, session.database, sink, "sp_addextendedproperty", depth))
    return {}


def _arguments(parameters: Sequence[Parameter], names: Sequence[str]) -> list[str | None]:
    """The values of the parameters by position or name; only a database itself can have properties."""
    values: dict[str, str | None] = dict.fromkeys(names)
    for place, parameter in enumerate(parameters):
        name = parameter.name.lower() or (names[place] if place < len(names) else "@level0type")
        if name not in values:
            raise UnsupportedSyntax(f"an extended property of something inside a database ({name})", 0)
        values[name] = None if parameter.value is None else str(parameter.value)
    return [values[name] for name in names]


register_procedure("sp_addextendedproperty", sp_addextendedproperty)
