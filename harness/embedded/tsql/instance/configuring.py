"""sp_configure writes down what is wanted, RECONFIGURE lets it hold. A new start lets everything hold."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from harness.embedded.errors import SqlServerError
from harness.embedded.runtime.tasks import Waiting
from harness.embedded.sqltypes import INT, Column, SqlType
from harness.embedded.tsql.instance.configuration import OPTIONS, Configured, Option

if TYPE_CHECKING:
    from harness.embedded.broker.transactions import Transaction
    from harness.embedded.tsql.instance.instance import Instance
    from harness.embedded.tsql.session.results import Parameter, ResultSink
    from harness.embedded.tsql.session.session import Session

CATALOG = "tsql.configuration"  # object in the store: name -> (value,)
_COLUMNS = (
    Column("name", SqlType("nvarchar", length=35), nullable=False),
    *(Column(name, INT) for name in ("minimum", "maximum", "config_value", "run_value")),
)


def sp_configure(session: Session, parameters: Sequence[Parameter], sink: ResultSink, depth: int) -> Waiting[Any]:
    """`sp_configure [ [ @configname = ] 'name' [ , [ @configvalue = ] value ] ]`"""
    instance = session.instance
    if not parameters:
        _tell(instance, list(OPTIONS.values()), sink)
        return {}
    name = str(parameters[0].value)
    option = OPTIONS.get(name.lower())
    if option is None:
        raise SqlServerError(15123, name)
    if len(parameters) == 1:
        _tell(instance, [option], sink)
        return {}
    if session.guard is not None and not session.guard.allows_on_server("ALTER SETTINGS"):
        raise SqlServerError(15247)
    value = int(parameters[1].value)
    if not option.minimum <= value <= option.maximum:
        raise SqlServerError(15129, value, name)
    before, in_use = instance.configuration.get(option.name, option.default)
    tx = session.new_transaction()
    _set(instance, tx, option, (value, in_use))
    yield from tx.commit()
    text = f"Configuration option '{option.name}' changed from {before} to {value}."
    sink.message(15457, 0, 1, f"{text} Run the RECONFIGURE statement to install.", "sp_configure", 1)
    return {}


def reconfigure(instance: Instance) -> None:
    """RECONFIGURE: what was written down holds from now on."""
    for name, (value, _) in list(instance.configuration.items()):
        instance.configuration[name] = (value, value)


def recover(instance: Instance, name: str, value: Any) -> None:
    """An option as the store has it."""
    instance.configuration[name] = (int(value[0]), int(value[0]))


def _set(instance: Instance, tx: Transaction, option: Option, configured: Configured) -> None:
    before = instance.configuration.get(option.name, option.default)
    instance.configuration[option.name] = configured
    tx.write(CATALOG, option.name, (configured[0],))

    def undo() -> None:
        instance.configuration[option.name] = before

    tx.on_rollback(undo)


def _tell(instance: Instance, options: Sequence[Option], sink: ResultSink) -> None:
    sink.columns(_COLUMNS)
    rows = [(one, instance.configuration.get(one.name, one.default)) for one in options]
    sink.rows([(one.name, one.minimum, one.maximum, *configured) for one, configured in rows])
    sink.done(len(options), in_procedure=True)
