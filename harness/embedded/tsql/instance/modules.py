"""Modules: procedures, triggers, views and functions, each with its text and what was compiled from it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

from harness.embedded.sqltypes import SqlType
from harness.embedded.tsql.permissions.rights import DBO, Securable
from harness.embedded.tsql.text.tokens import FindType


@dataclass(eq=False, repr=False)
class Module:
    """A text that runs in the database in which it was created. `stored` returns the arguments of the constructor."""

    CATALOG: ClassVar[str]  # in the store: (database_id, object_id) -> the definition

    database_id: int
    object_id: int
    schema: str
    name: str
    text: str
    create_time_ns: int
    creator: str = DBO  # the user that EXECUTE AS SELF means
    # Kept by the modules of `statements` of the same names: what was compiled, and bindings by shape of call.
    compiled: Any = field(default=None, init=False)
    find_type: FindType | None = field(default=None, init=False)  # for names of types in its text
    signers: tuple[str, ...] = field(default=(), init=False)  # the thumbprints of its signatures' certificates
    bound: dict[Any, Any] = field(default_factory=dict, init=False)

    @property
    def key(self) -> tuple[int, str]:
        return self.database_id, f"{self.schema}.{self.name}".lower()

    @property
    def securable(self) -> Securable:
        return Securable(self.database_id, "OBJECT", self.object_id)

    def stored(self) -> tuple[Any, ...]:
        return (self.schema, self.name, self.text, self.create_time_ns, self.creator)


class Procedure(Module):
    """A stored procedure."""

    CATALOG = "tsql.procedures"


@dataclass(eq=False, repr=False)
class UserView(Module):
    """A view that CREATE VIEW made."""

    CATALOG = "tsql.views"

    query: str = ""
    columns: Sequence[str] = ()  # their names; (): those of the query

    def stored(self) -> tuple[Any, ...]:
        return (*super().stored(), self.query, self.columns)


@dataclass(eq=False, repr=False)
class UserFunction(Module):
    """A function that CREATE FUNCTION made."""

    CATALOG = "tsql.functions"

    type: str = "FN"  # as in sys.objects: FN of one value, IF a query, TF of statements that fill a table

    def stored(self) -> tuple[Any, ...]:
        return (*super().stored(), self.type)


@dataclass(eq=False, repr=False)
class UserType(Module):
    """A type that CREATE TYPE made: another name of `base`, or one of tables, with the text of their columns."""

    CATALOG = "tsql.types"

    base: SqlType | None = None  # None: of tables
    nullable: bool = True

    def __post_init__(self) -> None:
        self.base = SqlType(*self.base) if self.base is not None else None

    @property
    def of_table(self) -> SqlType:
        """The type of a parameter that is such a table."""
        return SqlType(f"{self.schema}.{self.name}".lower())

    def stored(self) -> tuple[Any, ...]:
        return (*super().stored(), self.base, self.nullable)


FIRST, LAST = -1, 1  # of the triggers that an event fires


@dataclass(eq=False, repr=False)
class Trigger(Module):
    """A trigger of a table."""

    CATALOG = "tsql.triggers"

    table_id: int = 0
    events: Sequence[str] = ()  # of INSERT, UPDATE and DELETE
    is_disabled: bool = False
    is_instead: bool = False  # an INSTEAD OF trigger
    order: Mapping[str, int] = field(default_factory=dict)  # event: FIRST or LAST

    def stored(self) -> tuple[Any, ...]:
        return (*super().stored(), self.table_id, self.events, self.is_disabled, self.is_instead, self.order)


MODULES: dict[str, type[Module]] = {
    kind.CATALOG: kind for kind in (Procedure, Trigger, UserFunction, UserType, UserView)
}
