"""Shared by the definitions of broker objects and principals: AUTHORIZATION, the step of a definition, and DROP."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

from harness.embedded.broker.transactions import Transaction
from harness.embedded.tsql.permissions.guard import Guard
from harness.embedded.tsql.session.frame import Frame
from harness.embedded.tsql.session.steps import Scope, Step, writing
from harness.embedded.tsql.statements import checks
from harness.embedded.tsql.statements.registry import Check, register
from harness.embedded.tsql.text.parser import ParseFunction, Parser, Statement

ObjectName = tuple[str, ...]


def authorization(parser: Parser) -> str:
    """`[ AUTHORIZATION owner ]`; "" without it."""
    return parser.tokens.name() if parser.tokens.accept("AUTHORIZATION") else ""


def owner_of(frame: Frame, given: str) -> str:
    """The owner of a new object: the one given, or the user that creates it."""
    return given or frame.session.user_name()


def queue_name(frame: Frame, parts: ObjectName) -> str:
    """A queue's name with its schema."""
    _, schema, name = frame.instance.located(parts, frame.database)
    return f"{schema}.{name}"


def ddl(work: Callable[[Frame, Transaction], None]) -> Step:
    """The step of a definition. It invalidates all plans, because names may mean something else afterwards."""

    def change(frame: Frame, tx: Transaction) -> None:
        work(frame, tx)
        frame.instance.version += 1
        frame.session.row_count = 0

    return writing(change)


# -- DROP --------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Drop(Statement):
    kind: str  # MESSAGE TYPE, QUEUE, LOGIN, ...
    name: ObjectName
    if_exists: bool


class _Droppable(NamedTuple):
    drop: Callable[[Frame, Transaction, ObjectName], None]
    check: Check
    exists: Callable[[Frame, str], bool] | None


_DROPPABLE: dict[str, _Droppable] = {}


def register_drop(
    kind: str,
    drop: Callable[[Frame, Transaction, ObjectName], None],
    *,
    check: Check | None = None,
    exists: Callable[[Frame, str], bool] | None = None,
) -> None:
    """Register `DROP kind [ IF EXISTS ] name`; IF EXISTS needs `exists`."""
    _DROPPABLE[kind] = _Droppable(drop, check or checks.on_broker_object("drop", kind), exists)
    register(f"DROP {kind}", _parse_drop(kind), Drop, _compile_drop, check=_check_drop)


def _parse_drop(kind: str) -> ParseFunction:
    """`DROP kind [ IF EXISTS ] name`"""

    def parse(parser: Parser) -> Statement:
        tokens = parser.tokens
        if_exists = _DROPPABLE[kind].exists is not None and tokens.accept("IF", "EXISTS")
        name = tokens.object_name() if kind == "QUEUE" else (tokens.name(),)
        return Drop(parser.line, kind, name, if_exists)

    return parse


def _check_drop(node: Drop, frame: Frame, guard: Guard) -> None:
    _DROPPABLE[node.kind].check(node, frame, guard)


def _compile_drop(node: Drop, scope: Scope) -> Step:
    drop, _, exists = _DROPPABLE[node.kind]

    def work(frame: Frame, tx: Transaction) -> None:
        if exists is None or not node.if_exists or exists(frame, node.name[0]):
            drop(frame, tx, node.name)

    return ddl(work)
