"""CREATE, ALTER and DROP FUNCTION, and the runs of functions: https://learn.microsoft.com/sql/t-sql/statements/create-function-transact-sql

A function runs inside the statement that calls it, so it neither waits nor changes anything but its own variables.
Nobody else goes on meanwhile: what it does counts to the budget of that statement.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from harness.embedded.broker.transactions import Transaction
from harness.embedded.errors import SqlServerError, UnsupportedSyntax
from harness.embedded.runtime.tasks import Waiting
from harness.embedded.sqltypes import Column, ResultSink, SqlType
from harness.embedded.tsql.catalog.column_views import describe_columns_with, describe_parameters_with
from harness.embedded.tsql.instance.modules import UserFunction
from harness.embedded.tsql.permissions import guard as guards
from harness.embedded.tsql.session.session import Frame
from harness.embedded.tsql.session.steps import Scope, Work
from harness.embedded.tsql.statements import definitions, flow, modules, queries, variables
from harness.embedded.tsql.statements.insert import Insert
from harness.embedded.tsql.statements.procedures import ProcedureParameter, parameters
from harness.embedded.tsql.statements.registry import COMPILERS
from harness.embedded.tsql.statements.tables import variable_body
from harness.embedded.tsql.statements.update import Delete, Update
from harness.embedded.tsql.storage.sqlite import quoted
from harness.embedded.tsql.text.ddl_events import DdlStatement
from harness.embedded.tsql.text.parser import ParseFunction, Parser, Query, Statement
from harness.embedded.tsql.translation import user_functions
from harness.embedded.tsql.translation.binding import check as check_query
from harness.embedded.tsql.translation.binding import refuse_order
from harness.embedded.tsql.translation.fragments import ProgramParameter, UserProgram

SCALAR, INLINE, FILLING = "FN", "IF", "TF"


@dataclass(frozen=True, slots=True)
class CreateFunction(modules.ModuleDefinition):
    parameters: list[ProcedureParameter]
    returns: SqlType | None  # of one value
    table: variables.Declaration | None  # the table variable that its statements fill
    query: Query | None  # of RETURNS TABLE

    @property
    def type(self) -> str:
        return SCALAR if self.returns is not None else INLINE if self.query is not None else FILLING


def parse_create_function(verb: str) -> ParseFunction:
    """
    CREATE [ OR ALTER ] FUNCTION name ( [ @p type [ = default ] [ , ... ] ] )
        { RETURNS type [ WITH ... ] [ AS ] BEGIN ... RETURN value END
        | RETURNS TABLE [ WITH ... ] [ AS ] RETURN ( select )
        | RETURNS @t TABLE ( ... ) [ WITH ... ] [ AS ] BEGIN ... RETURN END }
    """

    def parse(parser: Parser) -> Statement:
        tokens, line = parser.tokens, parser.line
        name = modules.begin(tokens, verb, "FUNCTION")
        if not tokens.at("("):
            tokens.expect("(")
        parsed = parameters(parser)
        tokens.expect("RETURNS")
        returns = table = query = None
        is_query = tokens.accept("TABLE")
        if not is_query and tokens.at_variable():
            variable = tokens.written_variable()
            tokens.expect("TABLE")
            table = variables.Declaration(variable, None, variable_body(parser), None)
        elif not is_query:
            returns = tokens.data_type()
        execute_as = modules.options(tokens, "a function", ("SCHEMABINDING",), ("CALLED", "ON", "NULL", "INPUT"))
        tokens.accept("AS")
        body: list[Statement] = []
        if is_query:
            tokens.expect("RETURN")
            query = parser.query()
            refuse_order(query.tree.unnest(), line)
        else:
            tokens.expect("BEGIN")
            body = parser.block()
        tokens.accept(";")
        if not tokens.at_end:
            tokens.fail()
        return CreateFunction(line, name, body, tokens.text, verb, execute_as, parsed, returns, table, query)

    return parse


def compile_create_function(node: CreateFunction, scope: Scope) -> Work:
    program = _compiled(node, None)

    def work(frame: Frame, tx: Transaction) -> Waiting[None]:
        old = _find(frame, node.name)
        if old is not None and old.type != node.type:
            raise SqlServerError(2010, node.name[-1])
        described = modules.definition(frame, tx, node, old)
        function = UserFunction(*described, type=node.type)
        frame.instance.put_module(tx, function)
        if node.query is not None:
            modules.select_all(frame, function, node.line, _nulls(node))  # whether it makes sense
        return modules.bound(program.bind, node, frame)

    return work


def _find(frame: Frame, name: definitions.ObjectName) -> UserFunction | None:
    return frame.instance.function(name, frame.database)


modules.register_kind("FUNCTION", CreateFunction, parse_create_function, compile_create_function, _find)


# -- what a function may do --------------------------------------------------------------------------------------------

_ALLOWED = (
    *(flow.Block, flow.If, flow.While, flow.LeaveRound, flow.Return, variables.Declare, variables.SetVariable),
    *(queries.DeclareCursor, queries.CursorOperation, queries.Fetch),
)


def _check(statements: Sequence[Statement], *, of_one_value: bool) -> None:
    if not isinstance(statements[-1], flow.Return):
        raise SqlServerError(455, line=statements[-1].line)
    for statement in _inside(statements):
        if isinstance(statement, flow.Return) and (statement.value is None) == of_one_value:
            raise SqlServerError(102, "RETURN", line=statement.line) if of_one_value else SqlServerError(178)
        if isinstance(statement, queries.Select) and not queries.assignments(statement.query.tree.copy()):
            raise SqlServerError(444, line=statement.line)
        if isinstance(statement, (*_ALLOWED, queries.Select)):
            continue
        if isinstance(statement, Insert | Update | Delete) and isinstance(statement.target, str):
            continue
        name = (
            f"{statement.verb} {statement.kind}"
            if isinstance(statement, DdlStatement)
            else type(statement).__name__.upper()
        )
        raise SqlServerError(443, name, line=statement.line)


def _inside(statements: Sequence[Statement | None]) -> Iterator[Statement]:
    for statement in statements:
        if statement is None:
            continue
        yield statement
        if isinstance(statement, flow.Block):
            yield from _inside(statement.body)
        elif isinstance(statement, flow.If):
            yield from _inside([statement.then, statement.otherwise])
        elif isinstance(statement, flow.While):
            yield from _inside([statement.body])


# -- compilation and runs ----------------------------------------------------------------------------------------------


def compiled(function: UserFunction) -> UserProgram:
    """The compiled function; its text is compiled at the first call."""
    if function.compiled is None:
        node = modules.parsed(function, CreateFunction)
        function.compiled = _compiled(node, function)
    return function.compiled  # type: ignore[no-any-return]


user_functions.compile_with(compiled)


def _parameters_of(function: UserFunction) -> list[tuple[str, SqlType, bool]]:
    node = modules.parsed(function, CreateFunction)
    return [(parameter.written, parameter.type, False) for parameter in node.parameters]


def _nulls(node: CreateFunction) -> str:
    return f"({', '.join('NULL' for _ in node.parameters)})"


def _columns_of(session: Any, function: UserFunction) -> Sequence[Column]:
    if function.type == "IF":
        return modules.columns(session, function, _nulls(modules.parsed(function, CreateFunction)))
    return compiled(function).columns


describe_parameters_with(UserFunction, _parameters_of)
describe_columns_with(UserFunction, _columns_of)


def _compiled(node: CreateFunction, function: UserFunction | None) -> UserProgram:
    """`function` is None while the definition is checked."""
    scope = Scope(COMPILERS, text=node.text, in_procedure=True, returns=node.returns)
    described = []
    for parameter in node.parameters:
        if parameter.name in scope.types:
            raise SqlServerError(134, parameter.written, line=node.line)
        if parameter.table is not None:
            raise UnsupportedSyntax("a table as a parameter of a function", node.line)
        scope.types[parameter.name] = parameter.type
        default = parameter.default.tree if parameter.default is not None else None
        described.append(ProgramParameter(parameter.name, parameter.type, default))
    name = ".".join(node.name if function is None else (function.schema, function.name))
    key = (0, "") if function is None else function.key
    if node.query is not None:
        check_query(node.query.tree, node.line, scope.declares)
        return UserProgram(name, key, described, None, node.query.tree, (), lambda frame, values: None, scope.bind)
    _check(node.body, of_one_value=node.returns is not None)
    filled = ""
    if node.table is not None:
        filled = node.table.variable
        variables.declare_table(node.table, scope, node.line)
    body = scope.block(node.body)
    program_variables, declared = scope.variables(), scope.declared
    columns = scope.tables[filled] if filled else []
    select = f"SELECT {', '.join(quoted(column.name) for column in columns)} FROM temp.{{}}"

    def run(frame: Frame, values: Sequence[Any]) -> Any:
        assert function is not None
        if frame.depth >= modules.NESTING_MAX:
            raise SqlServerError(217, modules.NESTING_MAX)
        session = frame.session
        database = frame.instance.owner(function)
        inner = _FunctionFrame(session, database, ResultSink(), function.name, frame.depth + 1)
        inner.module_id = function.object_id
        inner.variables = program_variables | dict(zip(scope.types, values, strict=False))
        inner.declared = declared
        state = session.row_count, session.error_number, session.fetch_status, session.guard
        user = modules.runs_as(node.execute_as, function)
        session.guard = guards.of_module(session.instance, session.guard, function, database, user)
        session.try_depth += 1  # an error ends the function
        try:
            for _ in body.run(inner):
                pass
            return inner.sqlite.rows(select.format(inner.table(filled))) if filled else inner.return_value
        finally:
            session.try_depth -= 1
            session.row_count, session.error_number, session.fetch_status, session.guard = state
            inner.release()

    return UserProgram(name, key, described, node.returns, None, columns, run, scope.bind)


class _FunctionFrame(Frame):
    """A run inside a statement of another frame, whose budget is used up."""

    __slots__ = ()

    def fail(self, error: SqlServerError, line: int) -> None:
        """SQL Server names neither the function nor a line of it: the error is that of the calling statement."""
        error.frame = error.frame or self
        error.line = 0
        raise error

    def let_others_go_on(self) -> Waiting[None]:
        yield from ()
