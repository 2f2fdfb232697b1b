"""Procedures: CREATE, ALTER and DROP PROCEDURE, their compilation at the first call, and calls.

A call is bound once for all calls that are alike, then runs with converted values.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, NamedTuple

from harness.embedded.broker.transactions import Transaction
from harness.embedded.errors import SqlServerError
from harness.embedded.runtime.tasks import Waiting
from harness.embedded.sqltypes import ResultSink, SqlType
from harness.embedded.tsql.catalog.column_views import describe_parameters_with
from harness.embedded.tsql.catalog.data_types import TYPES
from harness.embedded.tsql.instance.modules import Procedure
from harness.embedded.tsql.permissions import guard as guards
from harness.embedded.tsql.session.session import Frame, Session
from harness.embedded.tsql.session.steps import Scope, Step, Work
from harness.embedded.tsql.statements import definitions, modules, variables
from harness.embedded.tsql.statements.modules import NESTING_MAX, ModuleDefinition
from harness.embedded.tsql.statements.registry import COMPILERS, GRAMMAR
from harness.embedded.tsql.storage.conversion import parameter_converter
from harness.embedded.tsql.storage.tables import TableBody
from harness.embedded.tsql.storage.variants import VARIANT
from harness.embedded.tsql.text.parser import Expression, ParseFunction, Parser, Statement
from harness.embedded.tsql.text.tokens import FindType
from harness.embedded.tsql.translation.binding import scalar


@dataclass(frozen=True, slots=True)
class ProcedureParameter:
    name: str
    written: str  # the name in the case of its declaration
    type: SqlType
    default: Expression | None
    output: bool
    table: TableBody | None = None  # of a type of tables


@dataclass(frozen=True, slots=True)
class CreateProcedure(ModuleDefinition):
    parameters: list[ProcedureParameter]


def parse_create_procedure(verb: str) -> ParseFunction:
    """`CREATE [ OR ALTER ] PROC[EDURE] name [ @p type [ = default ] [ OUT[PUT] ] [, ...] ] [ WITH ... ] AS ...`"""

    def parse(parser: Parser) -> Statement:
        tokens, line = parser.tokens, parser.line
        name = modules.begin(tokens, verb, "PROCEDURE")
        parsed = parameters(parser)
        execute_as = modules.options(tokens, "a procedure", ("RECOMPILE",))
        body = modules.body(parser)
        return CreateProcedure(line, name, body, tokens.text, verb, execute_as, parsed)

    return parse


def parameters(parser: Parser) -> list[ProcedureParameter]:
    """`[ ( ] [ @p type [ = default ] [ OUT[PUT] ] [, ...] ] [ ) ]`"""
    tokens = parser.tokens
    bracketed = tokens.accept("(")
    parsed = tokens.comma_separated(lambda: _parameter(parser)) if tokens.at_variable() else []
    if bracketed:
        tokens.expect(")")
    return parsed


def _parameter(parser: Parser) -> ProcedureParameter:
    tokens = parser.tokens
    name = tokens.variable()
    written = "@" + tokens.all[tokens.position - 1].text
    tokens.accept("AS")
    if (named_table := variables.table_of_type(tokens)) is not None:
        if not tokens.accept("READONLY"):
            raise SqlServerError(352, written, line=tokens.line)
        return ProcedureParameter(name, written, named_table.type, None, False, named_table.body)
    type_ = tokens.data_type()
    default = None
    if tokens.accept("="):
        default = parser.expression(",", "OUTPUT", "OUT", "AS", "WITH", ")")
    output = tokens.accept("OUTPUT") or tokens.accept("OUT")
    if output and type_ == VARIANT:
        tokens.unsupported("OUTPUT parameters of type sql_variant")
    return ProcedureParameter(name, written, type_, default, output)


def parse_parameters(declarations: str, find_type: FindType | None = None) -> list[ProcedureParameter]:
    """Parse the declarations that sp_executesql and sp_prepexec take: `@a int, @b nvarchar(10) OUTPUT`."""
    parser = Parser(declarations, GRAMMAR, find_type=find_type)
    parsed = parameters(parser)
    if not parser.tokens.at_end:
        parser.tokens.fail()
    return parsed


def compile_create_procedure(node: CreateProcedure, scope: Scope) -> Work:
    """Compile the body to report its errors; the first call compiles it again from its text."""
    program = _compile_definition(node, Scope(scope.compilers, text=node.text, in_procedure=True))

    def work(frame: Frame, tx: Transaction) -> Waiting[None]:
        old = _find(frame, node.name)
        frame.instance.put_module(tx, Procedure(*modules.definition(frame, tx, node, old)))
        return modules.bound(program.bind, node, frame)

    return work


def _find(frame: Frame, name: definitions.ObjectName) -> Procedure | None:
    return frame.instance.procedure(name, frame.database)


modules.register_kind("PROC|PROCEDURE", CreateProcedure, parse_create_procedure, compile_create_procedure, _find)


class CompiledProcedure(NamedTuple):
    names: list[str]
    written: list[str]  # the same names in the case of their declarations
    types: list[SqlType]
    defaults: list[Callable[[Frame], Any] | None]
    outputs: frozenset[str]
    body: Step
    bind: Callable[[Frame], Waiting[None]]
    variables: dict[str, None]  # all of them, also the parameters
    tables: Mapping[str, str]  # `Frame.declared`
    readonly: frozenset[str]  # the parameters that are tables
    runs_as: str = ""  # a user; "" for the caller


def compiled(procedure: Procedure) -> CompiledProcedure:
    """The compiled procedure; its text is compiled at the first call."""
    if procedure.compiled is None:
        node = modules.parsed(procedure, CreateProcedure)
        definition = _compile_definition(node, Scope(COMPILERS, text=node.text, in_procedure=True))
        procedure.compiled = definition._replace(runs_as=modules.runs_as(node.execute_as, procedure))
    return procedure.compiled  # type: ignore[no-any-return]


def _parameters_of(procedure: Procedure) -> list[tuple[str, SqlType, bool]]:
    program = compiled(procedure)
    return [
        (written, type_, name in program.outputs)
        for name, written, type_ in zip(program.names, program.written, program.types, strict=True)
        if name not in program.readonly
    ]


describe_parameters_with(Procedure, _parameters_of)


def _compile_definition(node: CreateProcedure, scope: Scope) -> CompiledProcedure:
    """Compile a procedure's parameters and body in a scope of their own."""
    for parameter in node.parameters:
        if parameter.name in scope.types or parameter.name in scope.tables:
            raise SqlServerError(134, parameter.written, line=node.line)
        if parameter.table is None:
            scope.types[parameter.name] = parameter.type
            continue
        table = variables.Declaration(parameter.written, None, parameter.table, None, table_type=parameter.type)
        variables.declare_table(table, scope, node.line)
        scope.readonly.add(parameter.name)
    defaults = [
        scalar(parameter.default, scope, parameter.type) if parameter.default is not None else None
        for parameter in node.parameters
    ]
    return CompiledProcedure(
        [parameter.name for parameter in node.parameters],
        [parameter.written for parameter in node.parameters],
        [parameter.type for parameter in node.parameters],
        defaults,
        frozenset(parameter.name for parameter in node.parameters if parameter.output),
        scope.block(node.body),
        scope.bind,
        scope.variables(),
        scope.declared,
        frozenset(scope.readonly),
    )


# -- calls -------------------------------------------------------------------------------------------------------------

SCHEMA_SINCE = 2017  # the version whose errors name a procedure with its schema
BOUND_KEPT = 8192  # of a procedure: a driver may declare a varbinary(n) of every length up to 8000

DEFAULT = SqlType("DEFAULT")  # the type of an argument written DEFAULT, which selects the parameter's default

# The names ("" by position) and types of a call's arguments. All calls that agree in them share one binding.
Shape = tuple[tuple[str, ...], tuple[SqlType | None, ...]]
# Takes the frame of a procedure that has run: its status, and its variables for OUTPUT parameters.
Returned = Callable[[Frame], None]


class Bound(NamedTuple):
    """A procedure for all calls of one shape."""

    arguments: list[tuple[str, int, Callable[[Any], Any] | None]]  # parameter, index of its value, conversion
    tables: list[tuple[str, int]]  # parameters that are tables, and indexes of these
    defaults: list[tuple[str, Callable[[Frame], Any]]]  # of the other parameters
    compiled: CompiledProcedure


def call(  # noqa: PLR0917
    session: Session,
    procedure: Procedure,
    parts: tuple[str, ...],
    shape: Shape,
    values: Sequence[Any],
    sink: ResultSink,
    depth: int,
    returned: Returned,
) -> Waiting[None]:
    """Run a procedure, which the call names by `parts`, then call `returned`."""
    if depth > NESTING_MAX:
        raise SqlServerError(217, NESTING_MAX)
    bound = procedure.bound.get(shape)
    is_new = bound is None
    # "SQL Server 2017 and later versions return schema_name.stored_procedure_name", if the call names the schema.
    name = ".".join(parts) if int(session.engine.version) >= SCHEMA_SINCE else parts[-1]
    try:
        arguments, tables, defaults, program = bound or _bind(procedure, shape)
        given = {
            parameter: values[place] if convert is None else convert(values[place])
            for parameter, place, convert in arguments
        }
    except SqlServerError as error:
        error.procedure = name
        raise
    database = session.database
    if database.database_id != procedure.database_id:
        database = session.instance.owner(procedure)
    frame = Frame(session, database, sink, name, depth)
    frame.module_id = procedure.object_id
    scalars: dict[str, Any] = program.variables | given
    frame.variables, frame.declared = scalars, program.tables
    for name, default in defaults:
        scalars[name] = default(frame)
    for name, place in tables:
        frame.tables[name] = values[place]
    options, context = session.options, session.guard
    impersonated, session.impersonated = session.impersonated, []
    session.guard = guards.of_module(session.instance, context, procedure, database, program.runs_as)
    body = program.body
    try:
        if is_new:
            yield from program.bind(frame)
        yield from body.run(frame)
    finally:
        session.options = options
        session.guard, session.impersonated = context, impersonated
        for name, _ in tables:
            del frame.tables[name]  # the caller's
        if frame.tables or session.temporary_tables:
            frame.release()
    frame.report_mismatch()
    returned(frame)


def _bind(procedure: Procedure, shape: Shape) -> Bound:
    """Bind parameters to arguments or defaults for a shape of call; the procedure keeps the result."""
    program = compiled(procedure)
    arguments: list[tuple[str, int, Callable[[Any], Any] | None]] = []
    tables: list[tuple[str, int]] = []
    supplied: set[int] = set()
    _check_arguments(procedure, program, shape[0])
    for place, (name, type_) in enumerate(zip(*shape, strict=True)):
        if name:
            if name.lower() not in program.names:
                raise SqlServerError(8145, name, procedure.name)
            number = program.names.index(name.lower())
        elif place >= len(program.names):
            raise SqlServerError(8144, procedure.name, state=2)
        else:
            number = place
        if number in supplied:
            raise SqlServerError(8143, program.written[number])
        supplied.add(number)
        target = program.types[number]
        if type_ is not DEFAULT and _is_table(type_, target):
            tables.append((program.names[number], place))
        elif type_ is not DEFAULT:
            arguments.append((program.names[number], place, parameter_converter(type_, target)))
    argument_names = {name for name, _, _ in arguments}
    defaults = []
    for name, written, default in zip(program.names, program.written, program.defaults, strict=True):
        if name not in argument_names and name not in program.readonly:  # a table that is not given is empty
            if default is None:
                raise SqlServerError(201, procedure.name, written, state=4)
            defaults.append((name, default))
    if len(procedure.bound) >= BOUND_KEPT:
        del procedure.bound[next(iter(procedure.bound))]
    bound = procedure.bound[shape] = Bound(arguments, tables, defaults, program)
    return bound


def _check_arguments(procedure: Procedure, program: CompiledProcedure, names: tuple[str, ...]) -> None:
    """Raise 8146 for arguments of a procedure without parameters, 119 for one by position behind one by name."""
    if names and not program.names:
        raise SqlServerError(8146, procedure.name, state=2)
    for number, (before, name) in enumerate(pairwise(names), start=2):
        if before and not name:
            raise SqlServerError(119, number)


def _is_table(type_: SqlType | None, target: SqlType) -> bool:
    """Whether an argument and its parameter are tables of one type; 206 if but one is, or they are of two."""
    is_named = [side is not None and side.name not in TYPES for side in (type_, target)]
    if any(is_named) and type_ != target:
        raise SqlServerError(206, type_.name if type_ is not None else "NULL", target.name)
    return all(is_named)
