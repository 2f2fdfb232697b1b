"""Shared by procedures, triggers and functions: their grammar, the user as whom they run, what is stored of them."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from harness.embedded.broker.ddl import new_object_id
from harness.embedded.broker.transactions import Transaction
from harness.embedded.errors import SqlServerError
from harness.embedded.runtime.tasks import Waiting
from harness.embedded.sqltypes import Column, ResultSink
from harness.embedded.tsql.instance.modules import Module
from harness.embedded.tsql.permissions.guard import Guard
from harness.embedded.tsql.permissions.rights import DBO
from harness.embedded.tsql.session.session import Frame
from harness.embedded.tsql.session.steps import Scope, Step, Work
from harness.embedded.tsql.statements.definitions import (
    ObjectName,
    check_owner,
    creating,
    definition_step,
    on_object,
    register_drop_of_found,
    written_name,
)
from harness.embedded.tsql.statements.registry import COMPILERS, GRAMMAR, register
from harness.embedded.tsql.text.ddl_events import DdlStatement
from harness.embedded.tsql.text.parser import ParseFunction, Parser, Statement, parse_whole_query
from harness.embedded.tsql.text.tokens import Tokens
from harness.embedded.tsql.translation.binding import Plan, select_plan

NESTING_MAX = 32  # "Maximum stored procedure, function, trigger, or view nesting level exceeded (limit 32)."


@dataclass(frozen=True, slots=True)
class ModuleDefinition(Statement):
    """CREATE or ALTER of a module."""

    name: tuple[str, ...]
    body: list[Statement]
    text: str  # of the whole batch: stored, and compiled again after a restart
    verb: str  # CREATE, ALTER or CREATE OR ALTER
    execute_as: str


Node = TypeVar("Node", bound=ModuleDefinition)


def begin(tokens: Tokens, verb: str, kind: str) -> tuple[str, ...]:
    """Take the name. Refuse a definition that does not begin its batch, or whose stored text would mean something
    else."""
    tokens.require_first(f"{verb} {kind}")
    if tokens.has_double_quoted_string:
        tokens.unsupported(f"{verb} {kind} with QUOTED_IDENTIFIER OFF and a string in double quotes")
    tokens.is_procedure = True
    name = tokens.object_name()
    if len(name) > 2:
        raise SqlServerError(166, f"CREATE/ALTER {kind}", line=tokens.line)
    return name


def options(tokens: Tokens, owner: str, *without_effect: tuple[str, ...]) -> str:
    """`[ WITH { EXECUTE AS { CALLER | SELF | OWNER | 'user' } | option without effect } [ , ... ] ]`; give the user."""
    user = ""
    if tokens.accept("WITH"):
        while True:
            if tokens.accept("EXECUTE", "AS") or tokens.accept("EXEC", "AS"):
                user = tokens.string() if tokens.at_string() else tokens.choose("CALLER", "SELF", "OWNER")
            elif not any(tokens.accept(*words) for words in without_effect):
                tokens.unsupported(f"{owner} WITH {tokens.word()}")
            if not tokens.accept(","):
                break
    return user


def body(parser: Parser) -> list[Statement]:
    """`AS statement [ ... ]`, up to the end of the batch."""
    tokens = parser.tokens
    tokens.expect("AS")
    statements: list[Statement] = []
    while tokens.accept(";"):
        pass
    while not tokens.at_end:
        statements.append(parser.statement())
    return statements


def parsed(module: Module, definition: type[Node]) -> Node:
    """The definition of a module, from its stored text."""
    [node] = Parser(module.text, GRAMMAR, find_type=module.find_type).batch()
    assert isinstance(node, DdlStatement)
    assert isinstance(node.statement, definition)
    return node.statement


def check_execute_as(frame: Frame, guard: Guard, user: str) -> None:
    """Raise an error if the creator may not impersonate the user of EXECUTE AS."""
    if user not in ("", "CALLER", "SELF"):
        check_owner(frame, guard, DBO if user == "OWNER" else user)


def runs_as(user: str, module: Module) -> str:
    """The user that EXECUTE AS means; "" for the caller. dbo owns every module."""
    return {"OWNER": DBO, "SELF": module.creator, "CALLER": ""}.get(user, user)


def definition(
    frame: Frame, tx: Transaction, node: ModuleDefinition, old: Module | None
) -> tuple[int, int, str, str, str, int, str]:
    """The arguments of `Module` for a new module, or for one that replaces another."""
    instance, database = frame.instance, frame.database
    if old is None and node.verb != "CREATE" and instance.is_taken(node.name, database):
        raise SqlServerError(2010, ".".join(node.name))
    if old is None and node.verb == "ALTER":
        raise SqlServerError(208, ".".join(node.name))
    if old is None or node.verb == "CREATE":
        _, schema, name = instance.named(node.name, database)
    else:
        schema, name = old.schema, node.name[-1]
    object_id = old.object_id if old is not None else new_object_id(tx, database.catalog)
    created_ns = old.create_time_ns if old is not None else instance.engine.clock.utc_ns()
    creator = frame.session.user_name(database)
    return database.database_id, object_id, schema, name, node.text, created_ns, creator


def register_kind(
    words: str,
    node_type: type[Node],
    parse: Callable[[str], ParseFunction],
    compile_: Callable[[Node, Scope], Work],
    find: Callable[[Frame, ObjectName], Module | None],
) -> None:
    """Register CREATE, ALTER and DROP of a kind of modules; of its words, separated by |, the last is its name.

    CREATE and ALTER check for ALTER on a module that exists, else for what its creation needs.
    """
    *_, kind = alternatives = words.split("|")

    def compiled(node: Node, scope: Scope) -> Step:
        def check(frame: Frame, guard: Guard) -> None:
            exists = find(frame, node.name) is not None
            needed = on_object("alter", kind, node.name) if exists else creating(f"CREATE {kind}", in_schema=node.name)
            needed(frame, guard)
            check_execute_as(frame, guard, node.execute_as)

        return definition_step(check, compile_(node, scope))

    for verb in ("CREATE", "ALTER", "CREATE OR ALTER"):
        register("|".join(f"{verb} {word}" for word in alternatives), parse(verb), node_type)(compiled)
    register_drop_of_found(words, kind.lower(), find, lambda frame, tx, module: frame.instance.drop_module(tx, module))


def bound(bind: Callable[[Frame], Waiting[None]], node: ModuleDefinition, frame: Frame) -> Waiting[None]:
    """Look up the names of a new module's body."""
    try:
        yield from bind(frame)
    except SqlServerError as error:
        error.procedure = node.name[-1]
        raise


def select_all(frame: Frame, module: Module, line: int, arguments: str = "") -> Plan:
    """The plan of `SELECT * FROM` a view, or a function with its arguments."""
    text = f"SELECT * FROM {written_name(module.schema, module.name)}{arguments}"
    return select_plan(parse_whole_query(text).tree, line, Scope(COMPILERS))(frame)


def columns(session: Any, module: Module, arguments: str = "") -> Sequence[Column]:
    """The columns that `select_all` gives; none where what the module reads has changed too much."""
    frame = Frame(session, session.instance.owner(module), ResultSink(), "", 1)
    try:
        return select_all(frame, module, 0, arguments).columns
    except SqlServerError:
        return ()
