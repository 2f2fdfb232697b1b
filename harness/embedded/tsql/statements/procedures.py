"""CREATE, ALTER and DROP PROCEDURE, and the compilation of procedures at their first call."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

from harness.embedded.broker.ddl import new_object_id
from harness.embedded.broker.transactions import Transaction
from harness.embedded.errors import SqlServerError
from harness.embedded.sqltypes import SqlType
from harness.embedded.tsql.instance.stored_procedures import Procedure
from harness.embedded.tsql.permissions.fixed_principals import DBO
from harness.embedded.tsql.permissions.guard import Guard
from harness.embedded.tsql.session.frame import Frame
from harness.embedded.tsql.session.steps import Scope, Step, writing
from harness.embedded.tsql.statements import checks
from harness.embedded.tsql.statements.batches import parse
from harness.embedded.tsql.statements.registry import COMPILERS, GRAMMAR, register
from harness.embedded.tsql.text.parser import Expression, ParseFunction, Parser, Statement
from harness.embedded.tsql.translation.binding import scalar


@dataclass(frozen=True, slots=True)
class ProcedureParameter:
    name: str
    type: SqlType
    default: Expression | None
    output: bool


@dataclass(frozen=True, slots=True)
class CreateProcedure(Statement):
    name: tuple[str, ...]
    parameters: list[ProcedureParameter]
    body: list[Statement]
    text: str  # of the whole batch: stored, and compiled again after a restart
    verb: str  # CREATE, ALTER or CREATE OR ALTER
    execute_as: str


def parse_create_procedure(verb: str) -> ParseFunction:
    """`CREATE [ OR ALTER ] PROC[EDURE] name [ @p type [ = default ] [ OUT[PUT] ] [, ...] ] [ WITH ... ] AS ...`"""

    def parse(parser: Parser) -> Statement:
        tokens, line = parser.tokens, parser.line
        if any(token.text != ";" for token in tokens.all[: tokens.position - len(verb.split()) - 1]):
            tokens.unsupported(f"{verb} PROCEDURE that is not the first statement of its batch")
        name = tokens.object_name()
        parameters = _parameters(parser)
        execute_as = _procedure_options(parser)
        tokens.expect("AS")
        body: list[Statement] = []
        while tokens.accept(";"):
            pass
        while not tokens.at_end:
            body.append(parser.statement())
        return CreateProcedure(line, name, parameters, body, tokens.text, verb, execute_as)

    return parse


def _parameters(parser: Parser) -> list[ProcedureParameter]:
    tokens = parser.tokens
    bracketed = tokens.accept("(")
    parameters = tokens.comma_separated(lambda: _parameter(parser)) if tokens.at_variable() else []
    if bracketed:
        tokens.expect(")")
    return parameters


def _parameter(parser: Parser) -> ProcedureParameter:
    tokens = parser.tokens
    name = tokens.variable()
    tokens.accept("AS")
    type_ = tokens.data_type()
    default = None
    if tokens.accept("="):
        default = parser.expression(",", "OUTPUT", "OUT", "AS", "WITH", ")")
    output = tokens.accept("OUTPUT") or tokens.accept("OUT")
    return ProcedureParameter(name, type_, default, output)


def parse_parameters(declarations: str) -> list[ProcedureParameter]:
    """Parse the declarations that sp_executesql and sp_prepexec take: `@a int, @b nvarchar(10) OUTPUT`."""
    parser = Parser(declarations, GRAMMAR)
    parameters = _parameters(parser)
    if not parser.tokens.at_end:
        parser.tokens.fail()
    return parameters


def _procedure_options(parser: Parser) -> str:
    """`[ WITH EXECUTE AS { CALLER | SELF | OWNER | 'user' } ]`"""
    tokens = parser.tokens
    if not tokens.accept("WITH"):
        return ""
    if not (tokens.accept("EXECUTE", "AS") or tokens.accept("EXEC", "AS")):
        tokens.unsupported(f"a procedure WITH {tokens.word()}")
    return tokens.string() if tokens.at_string() else tokens.choose("CALLER", "SELF", "OWNER")


def _check_create(node: CreateProcedure, frame: Frame, guard: Guard) -> None:
    if frame.instance.procedure(node.name, frame.database) is not None:
        checks.on_object(15151, "alter", "procedure")(node, frame, guard)
    else:
        checks.create("CREATE PROCEDURE", in_schema=True)(node, frame, guard)
    if node.execute_as not in ("", "CALLER", "SELF"):
        checks.give(frame, guard, "dbo" if node.execute_as == "OWNER" else node.execute_as)


def compile_create_procedure(node: CreateProcedure, scope: Scope) -> Step:
    """Compile the body to report its errors; the first call compiles it again from its text."""
    _compile_definition(node, Scope(scope.compilers, in_procedure=True))

    def work(frame: Frame, tx: Transaction) -> None:
        if len(node.name) > 2:
            raise SqlServerError(166, node.verb + " PROCEDURE")
        instance, database = frame.instance, frame.database
        _, schema, name = instance.located(node.name, database)
        old = instance.procedure(node.name, database)
        if old is None and node.verb == "ALTER":
            raise SqlServerError(208, ".".join(node.name))
        taken = instance.table(node.name, database) is not None or f"{schema}.{name}".lower() in database.catalog.queues
        if taken or (old is not None and node.verb == "CREATE"):
            raise SqlServerError(2714, name)
        now_ns = instance.engine.clock.utc_ns()
        object_id = old.object_id if old is not None else new_object_id(tx, database.catalog)
        created_ns = old.create_time_ns if old is not None else now_ns
        creator = frame.session.user_name(database)
        procedure = Procedure(database.database_id, object_id, schema, name, node.text, created_ns, creator)
        instance.put_procedure(tx, procedure)

    return writing(work)


for _verb in ("CREATE", "ALTER", "CREATE OR ALTER"):
    register(
        f"{_verb} PROC|{_verb} PROCEDURE",
        parse_create_procedure(_verb),
        CreateProcedure,
        compile_create_procedure,
        check=_check_create,
    )


class CompiledProcedure(NamedTuple):
    names: list[str]
    types: list[SqlType]
    defaults: list[Callable[[Frame], Any] | None]
    outputs: frozenset[str]
    body: Step
    runs_as: str = ""  # a user; "" for the caller


def compiled(procedure: Procedure) -> CompiledProcedure:
    """The compiled procedure; its text is compiled at the first call."""
    if procedure.compiled is None:
        [node] = parse(procedure.text)
        assert isinstance(node, CreateProcedure)
        found = _compile_definition(node, Scope(COMPILERS, in_procedure=True))
        # dbo owns every procedure.
        users = {"OWNER": DBO, "SELF": procedure.creator, "CALLER": ""}
        procedure.compiled = found._replace(runs_as=users.get(node.execute_as, node.execute_as))
    return procedure.compiled  # type: ignore[no-any-return]


def _compile_definition(node: CreateProcedure, scope: Scope) -> CompiledProcedure:
    """Compile a procedure's parameters and body in a scope of their own."""
    for parameter in node.parameters:
        if parameter.name in scope.types:
            raise SqlServerError(134, parameter.name, line=node.line)
        scope.types[parameter.name] = parameter.type
    defaults = [
        scalar(parameter.default, scope, parameter.type) if parameter.default is not None else None
        for parameter in node.parameters
    ]
    return CompiledProcedure(
        [parameter.name for parameter in node.parameters],
        [parameter.type for parameter in node.parameters],
        defaults,
        frozenset(parameter.name for parameter in node.parameters if parameter.output),
        scope.block(node.body),
    )


@dataclass(frozen=True, slots=True)
class DropProcedure(Statement):
    names: list[tuple[str, ...]]
    if_exists: bool


def parse_drop_procedure(parser: Parser) -> Statement:
    """`DROP PROC[EDURE] [ IF EXISTS ] name [, ...]`"""
    if_exists = parser.tokens.accept("IF", "EXISTS")
    return DropProcedure(parser.line, parser.tokens.comma_separated(parser.tokens.object_name), if_exists)


def compile_drop_procedure(node: DropProcedure, scope: Scope) -> Step:
    def work(frame: Frame, tx: Transaction) -> None:
        for name in node.names:
            procedure = frame.instance.procedure(name, frame.database)
            if procedure is not None:
                frame.instance.drop_procedure(tx, procedure)
            elif not node.if_exists:
                raise SqlServerError(3701, "procedure", ".".join(name))

    return writing(work)


register(
    "DROP PROC|DROP PROCEDURE",
    parse_drop_procedure,
    DropProcedure,
    compile_drop_procedure,
    check=checks.drop_objects("procedure"),
)
