"""Keys, defaults and rules of tables as objects: what sys.objects, sys.indexes and INFORMATION_SCHEMA show of them.

They are not stored as objects. A constraint's id follows from that of its table, and so does the name of one that was
not given a name: unlike SQL Server's, it is the same wherever the table is created.
"""

import re
from typing import NamedTuple

from harness.embedded.tsql.storage.tables import Index, Table

HEAP, CLUSTERED = 0, 1  # index_id of a table's rows: without a primary key they are a heap

_NUMBER = re.compile(r"[+-]?[\d.]+(?:[eE][+-]?\d+)?")


class Constraint(NamedTuple):
    """A primary key, a unique key, a default, a CHECK or a foreign key."""

    table: Table
    object_id: int
    name: str
    type: str
    type_desc: str
    places: tuple[int, ...]  # of its columns, from 0 on; of a CHECK that of its column
    index_id: int = 0  # of a key
    definition: str = ""  # of a default or a CHECK
    is_system_named: bool = True

    @property
    def schema(self) -> str:
        return self.table.schema

    @property
    def is_clustered(self) -> bool:
        return self.index_id == CLUSTERED


def keys(table: Table) -> list[Constraint]:
    """The primary key, if there is one, and the unique keys."""
    key_constraints = []
    if table.primary_key:
        places = tuple(map(table.place, table.primary_key))
        is_named = table.primary_key_name != f"PK_{table.name}"
        key_constraints.append(
            Constraint(
                *(table, table.object_id + 1, table.primary_key_name, "PK", "PRIMARY_KEY_CONSTRAINT", places),
                index_id=CLUSTERED if table.primary_key_is_clustered else CLUSTERED + 1,
                is_system_named=not is_named,
            )
        )
    first = key_constraints[0].index_id if key_constraints else CLUSTERED
    for number, (name, names) in enumerate(table.unique_keys(), start=2):
        places = tuple(map(table.place, names))
        given_name, _ = table.unique[number - 2]
        key_constraints.append(
            Constraint(
                *(table, table.object_id + number, name, "UQ", "UNIQUE_CONSTRAINT", places),
                index_id=number + first - CLUSTERED,
                is_system_named=not given_name,
            )
        )
    return key_constraints


def defaults(table: Table) -> list[Constraint]:
    """One for each column that has a default."""
    first = table.object_id + 2 + len(table.unique_keys())
    default_constraints = []
    for place, definition in enumerate(table.definitions):
        if definition.default is not None:
            default_constraints.append(
                Constraint(
                    *(table, first + place, definition.default_name or f"DF_{table.name}_{definition.name}"),
                    *("D", "DEFAULT_CONSTRAINT", (place,)),
                    definition=_in_parentheses(definition.default),
                    is_system_named=not definition.default_name,
                )
            )
    return default_constraints


def _rules_id(table: Table) -> int:
    """The id of the first CHECK."""
    return table.object_id + 2 + len(table.unique) + len(table.definitions)


def checks(table: Table) -> list[Constraint]:
    return [
        Constraint(
            *(table, number, check.name, "C", "CHECK_CONSTRAINT"),
            (table.place(check.column),) if check.column else (),
            definition=_in_parentheses(check.condition),
            is_system_named=False,
        )
        for number, check in enumerate(table.checks, _rules_id(table))
    ]


def foreign_keys(table: Table) -> list[Constraint]:
    return [
        Constraint(
            *(table, number, reference.name, "F", "FOREIGN_KEY_CONSTRAINT", tuple(map(table.place, reference.columns))),
            is_system_named=False,
        )
        for number, reference in enumerate(table.references, _rules_id(table) + len(table.checks))
    ]


def indexes(table: Table) -> list[tuple[int, Index]]:
    """What CREATE INDEX made, with their index_ids: a clustered one has that of the rows."""
    first = 1 + max((key.index_id for key in keys(table)), default=CLUSTERED)
    return [(CLUSTERED if index.is_clustered else number, index) for number, index in enumerate(table.indexes, first)]


def index_ids(table: Table) -> list[int]:
    """Of its rows, and of its other indexes."""
    index_ids_ = {*(key.index_id for key in keys(table)), *(number for number, _ in indexes(table))}
    return sorted(index_ids_ if CLUSTERED in index_ids_ else {HEAP, *index_ids_})


def constraints(table: Table) -> list[Constraint]:
    return [*keys(table), *defaults(table), *checks(table), *foreign_keys(table)]


def _in_parentheses(text: str) -> str:
    """A default as the catalog shows it: `(getdate())`, but `((1))`."""
    text = text.strip()
    while text.startswith("(") and text.endswith(")") and _closes_at_the_end(text):
        text = text[1:-1].strip()
    return f"(({text}))" if _NUMBER.fullmatch(text) else f"({text})"


def _closes_at_the_end(text: str) -> bool:
    """Whether the first parenthesis of a text is closed by its last character."""
    depth = 0
    for place, character in enumerate(text):
        depth += (character == "(") - (character == ")")
        if depth == 0:
            return place == len(text) - 1
    return False
