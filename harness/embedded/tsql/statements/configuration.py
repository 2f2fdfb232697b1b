"""Settings: sp_configure and RECONFIGURE for the instance, sp_addextendedproperty for databases."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from harness.embedded.broker.transactions import Transaction
from harness.embedded.errors import SqlServerError, UnsupportedSyntax
from harness.embedded.runtime.tasks import Waiting
from harness.embedded.sqltypes import INT, Column, SqlType
from harness.embedded.tsql.instance.options import OPTIONS, Setting
from harness.embedded.tsql.permissions.guard import Guard, is_allowed_on_database
from harness.embedded.tsql.session.frame import Frame
from harness.embedded.tsql.session.results import Parameter, ResultSink
from harness.embedded.tsql.session.session import Session
from harness.embedded.tsql.session.steps import Scope, Step, writing
from harness.embedded.tsql.statements.registry import Outputs, register, register_procedure
from harness.embedded.tsql.text.parser import Parser, Statement


@dataclass(frozen=True, slots=True)
class Reconfigure(Statement):
    """`RECONFIGURE [ WITH OVERRIDE ]`"""


def parse_reconfigure(parser: Parser) -> Statement:
    parser.tokens.accept("WITH", "OVERRIDE")
    return Reconfigure(parser.line)


def _check(node: Any, frame: Frame, guard: Guard) -> None:
    if not guard.allows_on_server("ALTER SETTINGS"):
        raise SqlServerError(5812)


def compile_reconfigure(node: Reconfigure, scope: Scope) -> Step:
    def work(frame: Frame, tx: Transaction) -> None:
        if frame.session.tx is not None:
            raise SqlServerError(574, "RECONFIGURE")
        frame.instance.configuration.reconfigure()

    return writing(work)


register("RECONFIGURE", parse_reconfigure, Reconfigure, compile_reconfigure, check=_check)


_COLUMNS = (
    Column("name", SqlType("nvarchar", length=35), nullable=False),
    *(Column(name, INT) for name in ("minimum", "maximum", "config_value", "run_value")),
)


def sp_configure(session: Session, parameters: Sequence[Parameter], sink: ResultSink, depth: int) -> Waiting[Outputs]:
    """`sp_configure [ [ @configname = ] 'name' [ , [ @configvalue = ] value ] ]`"""
    configuration = session.instance.configuration
    if not parameters:
        _show(list(configuration.settings()), sink)
        return {}
    name = str(parameters[0].value)
    option = OPTIONS.get(name.lower())
    if option is None:
        raise SqlServerError(15123, name)
    before = configuration.setting(option)
    if len(parameters) == 1:
        _show([before], sink)
        return {}
    if session.guard is not None and not session.guard.allows_on_server("ALTER SETTINGS"):
        raise SqlServerError(15247)
    value = int(parameters[1].value)
    if not option.minimum <= value <= option.maximum:
        raise SqlServerError(15129, value, name)
    tx = session.new_transaction()
    configuration.change(tx, option, value)
    yield from tx.commit()
    text = f"Configuration option '{option.name}' changed from {before.value} to {value}."
    sink.message(15457, 0, 1, f"{text} Run the RECONFIGURE statement to install.", "sp_configure", 1)
    return {}


def _show(settings: Sequence[Setting], sink: ResultSink) -> None:
    sink.columns(_COLUMNS)
    sink.rows([(one.name, one.minimum, one.maximum, value, in_use) for one, value, in_use in settings])
    sink.done(len(settings), in_procedure=True)


register_procedure("sp_configure", sp_configure)


def sp_addextendedproperty(
    session: Session, parameters: Sequence[Parameter], sink: ResultSink, depth: int
) -> Waiting[Outputs]:
    """`sp_addextendedproperty [ @name = ] N'name' [ , [ @value = ] N'value' ]`"""
    name, value = _arguments(parameters, ("@name", "@value"))

    def work(frame: Frame, tx: Transaction) -> None:
        if not is_allowed_on_database(frame, "ALTER"):
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
