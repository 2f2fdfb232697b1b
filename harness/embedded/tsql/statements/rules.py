"""CHECK and FOREIGN KEY constraints: looked at after a statement has changed rows, before its triggers fire.

A foreign key reads rows as they are committed, with the changes of its own transaction. SQL Server waits for another
transaction that has changed them; here the statement fails, as if that was rolled back.
"""

from collections.abc import Callable, Iterator, Sequence

from sqlglot import exp

from harness.embedded.broker.transactions import Transaction
from harness.embedded.errors import SqlServerError
from harness.embedded.tsql.catalog.constraints import Constraint
from harness.embedded.tsql.session.session import Frame
from harness.embedded.tsql.session.steps import Scope
from harness.embedded.tsql.statements.registry import COMPILERS
from harness.embedded.tsql.storage.sqlite import quoted
from harness.embedded.tsql.storage.tables import LOWEST_ROWID, Check, Reference, Row, Table, committed
from harness.embedded.tsql.text.parser import parse_expression
from harness.embedded.tsql.text.tokens import Tokens
from harness.embedded.tsql.translation.binding import Binding, check
from harness.embedded.tsql.translation.fragments import Names, Source
from harness.embedded.tsql.translation.renderer import Renderer

Rule = Callable[[Frame, Transaction, str, Sequence[Row], Sequence[Row]], None]  # the verb, rows before and after
ALL_ROWS: Sequence[Row] = ((LOWEST_ROWID,), (-LOWEST_ROWID - 1,))  # the lowest and the highest number
_RANGE = "_rowid_ BETWEEN ?1 AND ?2"


def of_table(frame: Frame, table: Table) -> list[Rule]:
    """The rules that changes of a table must keep; an error if one of them makes no sense."""
    return [
        *of_constraints(frame, table, table.checks, table.references),
        *(_of_parent(frame, child, reference) for child, reference in references_to(frame, table)),
    ]


def of_constraints(
    frame: Frame, table: Table, checks: Sequence[Check], references: Sequence[Reference]
) -> Iterator[Rule]:
    """The rules of some constraints of a table."""
    yield from (_of_check(frame, table, check_) for check_ in checks)
    yield from (_of_child(frame, table, reference) for reference in references)


def references_to(frame: Frame, table: Table) -> list[tuple[Table, Reference]]:
    """The foreign keys that refer to a table, with their tables."""
    name = (table.schema.lower(), table.name.lower())
    return [
        (child, reference)
        for child in frame.instance.tables.values()
        if child.database_id == table.database_id
        for reference in child.references
        if (reference.table[0].lower(), reference.table[1].lower()) == name
    ]


def refuse_referenced(frame: Frame, table: Table, error: int) -> None:
    """Raise an error if another table refers to this one."""
    if any(child is not table for child, _ in references_to(frame, table)):
        raise SqlServerError(error, table.name)


def refuse_referenced_key(frame: Frame, table: Table, key: Constraint) -> None:
    """Raise 3725 if a foreign key refers to the columns of this key."""
    for child, reference in references_to(frame, table):
        columns = reference.table_columns or table.primary_key
        if key.type in ("PK", "UQ") and {*map(table.place, columns)} == {*key.places}:
            raise SqlServerError(3725, key.name, child.name, reference.name)


def _conflict(verb: str, kind: str, name: str, table: Table, columns: Sequence[str]) -> SqlServerError:
    column = f", column '{columns[0]}'" if len(columns) == 1 and columns[0] else ""
    return SqlServerError(547, verb, kind, name, table.database_name, table.qualified_name, column)


def _of_check(frame: Frame, table: Table, constraint: Check) -> Rule:
    tokens = Tokens(constraint.condition)
    tree = parse_expression(tokens, tokens.all).tree
    if tree.find(exp.Query) is not None:
        raise SqlServerError(1046)
    check(tree, 0, lambda variable: False)
    renderer = Renderer(Binding(Scope(COMPILERS), frame), 0)
    condition = renderer.condition(tree, Names([Source(table.name, table.sql, table.columns)]))
    getters = renderer.getters(condition)
    first, last = (f"?{len(getters) + n}" for n in (1, 2))
    sql = (
        f"SELECT 1 FROM {table.sql} AS {quoted(table.name)} WHERE _rowid_ BETWEEN {first} AND {last} "
        f"AND NOT ({condition}) LIMIT 1"
    )

    def rule(frame: Frame, tx: Transaction, verb: str, old: Sequence[Row], new: Sequence[Row]) -> None:
        if new and frame.sqlite.rows(sql, [*(getter(frame) for getter in getters), *_bounds(new)]):
            raise _conflict(verb, "CHECK", constraint.name, table, [constraint.column])

    return rule


def _of_child(frame: Frame, table: Table, reference: Reference) -> Rule:
    parent, sql = _orphans(frame, table, reference)
    sql = f"{sql} AND child.{_RANGE} LIMIT 1"

    def rule(frame: Frame, tx: Transaction, verb: str, old: Sequence[Row], new: Sequence[Row]) -> None:
        if new:
            with committed(frame.sqlite, tx, [parent] if parent.is_changed_by_others(tx) else []):
                if frame.sqlite.rows(sql, _bounds(new)):
                    kind = "FOREIGN KEY SAME TABLE" if parent is table else "FOREIGN KEY"
                    raise _conflict(verb, kind, reference.name, parent, reference.table_columns or parent.primary_key)

    return rule


def _of_parent(frame: Frame, child: Table, reference: Reference) -> Rule:
    parent, sql = _orphans(frame, child, reference)

    def rule(frame: Frame, tx: Transaction, verb: str, old: Sequence[Row], new: Sequence[Row]) -> None:
        if old and frame.sqlite.rows(f"{sql} LIMIT 1"):
            kind = "SAME TABLE REFERENCE" if parent is child else "REFERENCE"
            raise _conflict(verb, kind, reference.name, child, reference.columns)

    return rule


def _orphans(frame: Frame, child: Table, reference: Reference) -> tuple[Table, str]:
    """The table that a foreign key refers to, and the query for rows that refer to none of its rows."""
    schema, name = reference.table
    parent = frame.instance.tables.get((child.database_id, f"{schema}.{name}".lower()))
    if parent is None:
        raise SqlServerError(1767, reference.name, f"{schema}.{name}")
    keys = reference.table_columns or parent.primary_key
    unique = [parent.primary_key, *(names for _, names in parent.unique)]
    unique += [index.columns for index in parent.indexes if index.is_unique]
    if {key.lower() for key in keys} not in [{key.lower() for key in names} for names in unique if names]:
        raise SqlServerError(1776, parent.name, reference.name)
    if len(keys) != len(reference.columns):
        raise SqlServerError(8139, child.name)
    for column in reference.columns:
        child.place(column)
    columns = [f"child.{quoted(column)}" for column in reference.columns]
    pairs = " AND ".join(f"parent.{quoted(key)} = {column}" for key, column in zip(keys, columns, strict=True))
    sql = f"SELECT 1 FROM {child.sql} AS child WHERE {' AND '.join(f'{column} IS NOT NULL' for column in columns)}"
    return parent, f"{sql} AND NOT EXISTS (SELECT 1 FROM {parent.sql} AS parent WHERE {pairs})"


def _bounds(rows: Sequence[Row]) -> tuple[int, int]:
    numbers = [row[0] for row in rows]
    return min(numbers), max(numbers)
