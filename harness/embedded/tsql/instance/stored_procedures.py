"""Stored procedures."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from harness.embedded.tsql.permissions.fixed_principals import DBO

CATALOG = "tsql.procedures"  # in the store: (database_id, object_id) -> the definition


class Procedure:
    """A stored procedure: its text, and what was compiled from it."""

    def __init__(  # noqa: PLR0917
        self,
        database_id: int,
        object_id: int,
        schema: str,
        name: str,
        text: str,
        create_time_ns: int,
        creator: str = DBO,
    ) -> None:
        self.database_id = database_id
        self.object_id = object_id
        self.schema = schema
        self.name = name
        self.text = text
        self.create_time_ns = create_time_ns
        self.creator = creator  # the user that EXECUTE AS SELF means
        # Kept by `statements.procedures` and `statements.calls`: the compiled text, and its bindings by shape of call.
        self.compiled: Any = None
        self.bound: dict[Any, Any] = {}

    @property
    def key(self) -> tuple[int, str]:
        return self.database_id, f"{self.schema}.{self.name}".lower()

    def stored(self) -> tuple[Any, ...]:
        return (self.schema, self.name, self.text, self.create_time_ns, self.creator)

    @staticmethod
    def from_stored(key: tuple[int, int], row: Sequence[Any]) -> Procedure:
        return Procedure(key[0], key[1], *row)
