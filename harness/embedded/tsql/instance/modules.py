"""Modules: procedures and triggers, each with its text and what was compiled from it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

from harness.embedded.tsql.permissions.rights import DBO


class Module:
    """A text that runs in the database in which it was created. `stored` returns the arguments of the constructor."""

    CATALOG: ClassVar[str]  # in the store: (database_id, object_id) -> the definition

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
        # Kept by `statements.procedures` and `statements.triggers`: the compiled text, and bindings by shape of call.
        self.compiled: Any = None
        self.bound: dict[Any, Any] = {}

    @property
    def key(self) -> tuple[int, str]:
        return self.database_id, f"{self.schema}.{self.name}".lower()

    def stored(self) -> tuple[Any, ...]:
        return (self.schema, self.name, self.text, self.create_time_ns, self.creator)


class Procedure(Module):
    """A stored procedure."""

    CATALOG = "tsql.procedures"


class Trigger(Module):
    """An AFTER trigger of a table."""

    CATALOG = "tsql.triggers"

    def __init__(  # noqa: PLR0917
        self,
        database_id: int,
        object_id: int,
        schema: str,
        name: str,
        text: str,
        create_time_ns: int,
        creator: str,
        table_id: int,
        events: Sequence[str],
        is_disabled: bool,
    ) -> None:
        super().__init__(database_id, object_id, schema, name, text, create_time_ns, creator)
        self.table_id = table_id
        self.events = tuple(events)  # of INSERT, UPDATE and DELETE
        self.is_disabled = is_disabled

    def stored(self) -> tuple[Any, ...]:
        return (*super().stored(), self.table_id, self.events, self.is_disabled)


MODULES: dict[str, type[Module]] = {kind.CATALOG: kind for kind in (Procedure, Trigger)}
