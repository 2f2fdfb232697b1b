"""Shared by the statements that change the catalog: their node and its step, the rights they need, options, and DROP.

The parse function of such a statement returns a `Definition`: what it does, and the rights that it needs.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

from harness.embedded.broker.transactions import Transaction
from harness.embedded.errors import SqlServerError
from harness.embedded.runtime.tasks import Waiting
from harness.embedded.tsql.instance import securables
from harness.embedded.tsql.permissions.guard import Guard
from harness.embedded.tsql.session.session import Frame
from harness.embedded.tsql.session.steps import Step, Work, writing
from harness.embedded.tsql.statements.registry import register
from harness.embedded.tsql.text.parser import Parser, Statement
from harness.embedded.tsql.text.tokens import Tokens

ObjectName = tuple[str, ...]
Check = Callable[[Frame, Guard], None]  # raises an error if the caller, who is not sysadmin, lacks a right


@dataclass(frozen=True, slots=True)
class Definition(Statement):
    """A statement that changes the catalog."""

    check: Check
    work: Work


def define(words: str) -> Callable[[Callable[[Parser], Definition]], Callable[[Parser], Definition]]:
    """Register a parse function for the definition that begins with `words` (alternatives separated by |)."""

    def registered(parse: Callable[[Parser], Definition]) -> Callable[[Parser], Definition]:
        register(words, parse, Definition)(lambda node, scope: definition_step(node.check, node.work))
        return parse

    return registered


def definition_step(check: Check, work: Work) -> Step:
    """The step of a definition. It invalidates all plans, because names may mean something else afterwards."""

    def change(frame: Frame, tx: Transaction) -> Waiting[None] | None:
        rest = work(frame, tx)
        frame.instance.renew(tx)
        frame.session.row_count = 0
        return rest

    return checked(check, writing(change))


def checked(check: Check, step: Step) -> Step:
    """A step that runs if the caller passes a check."""
    inner = step.run

    def run(frame: Frame) -> Any:
        guard = frame.session.guard
        if guard is not None:
            check(frame, guard)
        return inner(frame)

    return Step(run)


# -- rights ------------------------------------------------------------------------------------------------------------


def on_server(permission: str) -> Check:
    """The check for a permission on the server: error 15247."""

    def check(frame: Frame, guard: Guard) -> None:
        if not guard.allows_on_server(permission):
            raise SqlServerError(15247)

    return check


def in_database(permission: str, number: int, *arguments: object) -> Check:
    """The check for a permission on the database, with the error for the caller who lacks it."""

    def check(frame: Frame, guard: Guard) -> None:
        if not guard.allows(frame.database, "DATABASE", 0, permission):
            raise SqlServerError(number, *arguments)

    return check


def creating(permission: str, owner: str = "", *, in_schema: ObjectName = ()) -> Check:
    """The check for CREATE: the database permission, and for an object of a schema, whose name is given, ALTER on it.
    The name may be that of another database."""

    def check(frame: Frame, guard: Guard) -> None:
        database = frame.database
        if in_schema:
            database, schema, _ = frame.instance.located(in_schema, database, guard)
        if not guard.allows(database, "DATABASE", 0, permission):
            raise SqlServerError(262, permission, database.name)
        if in_schema:
            known = database.catalog.schemas.get(schema.lower())
            if known is None or not guard.allows(database, "SCHEMA", known.schema_id, "ALTER"):
                raise SqlServerError(2760, schema)
        if owner:
            check_owner(frame, guard, owner)

    return check


def written_name(*parts: str) -> str:
    """The name of an object as T-SQL writes it: `[schema].[name]`."""
    return ".".join(f"[{part.replace(']', ']]')}]" for part in parts)


def check_owner(frame: Frame, guard: Guard, owner: str) -> None:
    """Check AUTHORIZATION: the owner is the caller, or a user that the caller may impersonate."""
    if owner.lower() == frame.session.user_name().lower():
        return
    user = securables.find(frame, "USER", (owner,))
    if user is None or not guard.allows(frame.database, *user[1:], "IMPERSONATE"):
        raise SqlServerError(15151, "find", "user", owner)


def on_object(verb: str, kind: str, name: ObjectName, right: str = "ALTER") -> Check:
    """The check for a permission on an object: 15151 without it. A missing object is left to the statement."""
    class_ = "OBJECT" if kind in ("QUEUE", "PROCEDURE", "VIEW", "FUNCTION") else kind

    def check(frame: Frame, guard: Guard) -> None:
        securable = securables.find(frame, class_, name)
        if securable is not None and not securables.is_held(frame, securable, right):
            raise SqlServerError(15151, verb, kind.lower(), ".".join(name))

    return check


def dropping_from_schema(kind: str, name: ObjectName) -> Check:
    """The check for DROP of a queue, table or procedure: "ALTER on the queue is not enough to drop it"."""

    def check(frame: Frame, guard: Guard) -> None:
        securable = securables.find(frame, "OBJECT", name)
        if securable is None:
            return
        database, _, _ = frame.instance.located(name, frame.database, guard)
        may_alter_schema = guard.allows(database, "SCHEMA", guard.schema_of(database, securable.id), "ALTER")
        if not may_alter_schema and not securables.is_held(frame, securable, "CONTROL"):
            full = ".".join(name)
            raise SqlServerError(15151, "drop", kind, full) if kind == "queue" else SqlServerError(3701, kind, full)

    return check


# -- clauses -----------------------------------------------------------------------------------------------------------

# The words of options, each with the name of its argument and what reads its value.
Options = Mapping[str, tuple[str, Callable[[Tokens], Any]]]


def options(tokens: Tokens, valid: Options, *, commas: bool = True) -> dict[str, Any]:
    """Parse `option = value [ , ... ]`; without `commas` these may be left out."""
    values: dict[str, Any] = {}
    while True:
        name, read = valid[tokens.choose(*valid)]
        tokens.expect("=")
        values[name] = read(tokens)
        if not tokens.accept(",") and (commas or tokens.word() not in valid):
            return values


FILEGROUPS = ("PRIMARY", "DEFAULT")


def filegroup(tokens: Tokens, word: str = "ON") -> None:
    """Parse `[ ON filegroup ]`: a database has only PRIMARY here."""
    if not tokens.accept(word):
        return
    line, name = tokens.line, tokens.name()
    if name.upper() not in FILEGROUPS:
        raise SqlServerError(1921, name, line=line)


def authorization(tokens: Tokens) -> str:
    """`[ AUTHORIZATION owner ]`; "" without it."""
    return tokens.name() if tokens.accept("AUTHORIZATION") else ""


def owner_of(frame: Frame, name: str) -> str:
    """The owner of a new object: the one given, or the user that creates it; 15151 if there is no such user."""
    if name:
        securables.principal(frame, name, of_server=False)
    return name or frame.session.user_name()


def queue_name(frame: Frame, parts: ObjectName) -> str:
    """A queue's name with its schema."""
    _, schema, name = frame.instance.located(parts, frame.database)
    return f"{schema}.{name}"


def outside_transactions(frame: Frame, statement: str, number: int = 226) -> None:
    """Raise an error inside a transaction of the user's."""
    if frame.session.tx is not None:
        raise SqlServerError(number, statement)


# -- DROP --------------------------------------------------------------------------------------------------------------


def register_drop(
    kind: str,
    drop: Callable[[Frame, Transaction, ObjectName], None],
    check: Callable[[ObjectName], Check] | None = None,
    *,
    exists: Callable[[Frame, ObjectName], object] | None = None,
    in_schema: bool = False,
    several: bool = False,
) -> None:
    """Register `DROP kind [ IF EXISTS ] name [ , ... ]`; IF EXISTS needs `exists`, more than one name `several`."""
    needed = check or (lambda name: on_object("drop", kind, name))
    class_ = "OBJECT" if in_schema else kind

    def parse(parser: Parser) -> Definition:
        tokens = parser.tokens
        if_exists = exists is not None and tokens.accept("IF", "EXISTS")

        def one() -> ObjectName:
            return tokens.object_name() if in_schema else (tokens.name(),)

        names = tokens.comma_separated(one) if several else [one()]

        def check_all(frame: Frame, guard: Guard) -> None:
            for name in names:
                needed(name)(frame, guard)

        def work(frame: Frame, tx: Transaction) -> None:
            for name in names:
                if exists is None or not if_exists or exists(frame, name):
                    securable = securables.find(frame, class_, name) if class_ in securables.FINDERS else None
                    drop(frame, tx, name)
                    if securable is not None:
                        frame.instance.grants.forget_securable(tx, securable)

        return Definition(parser.line, check_all, work)

    define("|".join(f"DROP {word}" for word in kind.split("|")))(parse)


_FINDERS: dict[str, Callable[[Frame, ObjectName], Any]] = {}  # of tables, procedures ..., by kind


def register_drop_of_found(
    words: str, kind: str, find: Callable[[Frame, ObjectName], Any], drop: Callable[[Frame, Transaction, Any], None]
) -> None:
    """Register the DROP of tables or procedures: IF EXISTS, several at once; 3701 for one that is missing, 3705 for
    something else of that name."""
    _FINDERS[kind] = find

    def work(frame: Frame, tx: Transaction, name: ObjectName) -> None:
        item = find(frame, name)
        if item is None:
            written = ".".join(name)
            for other, find_other in _FINDERS.items():
                if find_other(frame, name) is not None:
                    raise SqlServerError(3705, kind.upper(), written, written, other, other.upper())
            raise SqlServerError(3701, kind, written)
        drop(frame, tx, item)

    check = partial(dropping_from_schema, kind)
    register_drop(words, work, check, exists=find, in_schema=True, several=True)
