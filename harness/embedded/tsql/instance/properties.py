"""Extended properties of databases: notes that others leave on a database, which nothing here reads."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple

from harness.embedded.broker.transactions import Transaction
from harness.embedded.errors import SqlServerError, UnsupportedSyntax
from harness.embedded.runtime.tasks import Waiting
from harness.embedded.tsql.execution.transactions import writing
from harness.embedded.tsql.permissions.guard import is_allowed_to
from harness.embedded.tsql.session.frame import Frame
from harness.embedded.tsql.session.results import Parameter, ResultSink

if TYPE_CHECKING:
    from harness.embedded.tsql.requests.rpc import Outputs
    from harness.embedded.tsql.session.session import Session

CATALOG = "tsql.properties"  # object in the store: (database_id, name) -> the value
_ON_DATABASE = "object specified"  # how SQL Server's errors name a database


class Property(NamedTuple):
    database_id: int
    name: str
    value: str | None


class Properties:
    """By database and name; names are compared as the collation does, without case."""

    def __init__(self) -> None:
        self._properties: dict[tuple[int, str], Property] = {}

    def recover(self, database_id: int, name: str, value: str | None) -> None:
        self._properties[database_id, name.lower()] = Property(database_id, name, value)

    def of(self, database_id: int) -> Iterator[Property]:
        return (each for each in self._properties.values() if each.database_id == database_id)

    def add(self, tx: Transaction, database_id: int, name: str, value: str | None) -> None:
        key = database_id, name.lower()
        if key in self._properties:
            raise SqlServerError(15233, name, _ON_DATABASE)
        self._properties[key] = Property(database_id, name, value)
        tx.on_rollback(lambda: self._forget(key))
        tx.write(CATALOG, (database_id, name), (value,))

    def drop(self, tx: Transaction, database_id: int, name: str) -> None:
        key = database_id, name.lower()
        found = self._properties.pop(key, None)
        if found is None:
            raise SqlServerError(15217, name, _ON_DATABASE)
        tx.on_rollback(lambda: self._properties.__setitem__(key, found))
        tx.write(CATALOG, (database_id, found.name), None)

    def drop_all(self, tx: Transaction, database_id: int) -> None:
        """DROP DATABASE"""
        for each in list(self.of(database_id)):
            self.drop(tx, database_id, each.name)

    def _forget(self, key: tuple[int, str]) -> None:
        del self._properties[key]


# -- system procedures -------------------------------------------------------------------------------------------------


def sp_addextendedproperty(
    session: Session, parameters: Sequence[Parameter], sink: ResultSink, depth: int
) -> Waiting[Outputs]:
    """`sp_addextendedproperty [ @name = ] N'name' [ , [ @value = ] N'value' ]`: a property of the database itself."""
    name, value = _arguments(parameters, ("@name", "@value"))

    def work(frame: Frame, tx: Transaction) -> None:
        if not is_allowed_to(frame, "DATABASE", 0, "ALTER"):
            raise SqlServerError(15247)
        frame.instance.properties.add(tx, frame.database.database_id, name or "", value)

    yield from writing(work).run(Frame(session, session.database, sink, "sp_addextendedproperty", depth))
    return {}


def sp_dropextendedproperty(
    session: Session, parameters: Sequence[Parameter], sink: ResultSink, depth: int
) -> Waiting[Outputs]:
    """`sp_dropextendedproperty [ @name = ] N'name'`: a property of the database itself."""
    [name] = _arguments(parameters, ("@name",))

    def work(frame: Frame, tx: Transaction) -> None:
        if not is_allowed_to(frame, "DATABASE", 0, "ALTER"):
            raise SqlServerError(15247)
        frame.instance.properties.drop(tx, frame.database.database_id, name or "")

    yield from writing(work).run(Frame(session, session.database, sink, "sp_dropextendedproperty", depth))
    return {}


def _arguments(parameters: Sequence[Parameter], names: Sequence[str]) -> list[str | None]:
    """The values of the parameters by place or name; properties of parts of a database are outside the dialect."""
    values: dict[str, str | None] = dict.fromkeys(names)
    for place, parameter in enumerate(parameters):
        name = parameter.name.lower() or (names[place] if place < len(names) else "@level0type")
        if name not in values:
            raise UnsupportedSyntax(f"an extended property of something inside a database ({name})", 0)
        values[name] = None if parameter.value is None else str(parameter.value)
    return [values[name] for name in names]
