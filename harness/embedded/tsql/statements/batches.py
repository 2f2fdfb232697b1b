"""Batches and texts with parameters: parse, compile, cache by text, run; sp_executesql, and the system procedures that
drivers call for prepared statements; EXECUTE of a procedure or a string."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import pairwise
from typing import Any, NamedTuple

from sqlglot import exp

from harness.embedded.errors import SqlServerError, UnsupportedSyntax
from harness.embedded.runtime.tasks import Waiting
from harness.embedded.sqltypes import INT, Parameter, ResultSink, SqlType
from harness.embedded.tsql.instance import manual
from harness.embedded.tsql.instance.instance import BATCH_CACHED_LENGTH
from harness.embedded.tsql.session.session import DEFAULTS, Frame, Options, Session
from harness.embedded.tsql.session.steps import Scope, Step, sequence
from harness.embedded.tsql.statements.options import SetOption
from harness.embedded.tsql.statements.procedures import (
    DEFAULT,
    CompiledProcedure,
    ProcedureParameter,
    Shape,
    call,
    compiled,
    parse_parameters,
)
from harness.embedded.tsql.statements.registry import (
    COMPILERS,
    GRAMMAR,
    Outputs,
    call_system,
    register,
    register_procedure,
)
from harness.embedded.tsql.storage.conversion import UNICODE, check_assignable, converter, parameter_converter
from harness.embedded.tsql.text.parser import (
    Expression,
    Parser,
    Statement,
    at_statement_end,
    parse_constant,
    parse_expression,
    string_token,
)
from harness.embedded.tsql.text.tokenizer import RESERVED
from harness.embedded.tsql.text.tokens import FindType, name_parts
from harness.embedded.tsql.translation.binding import scalar, static_type
from harness.embedded.tsql.translation.closures import Evaluate
from harness.embedded.tsql.translation.fragments import NVARCHAR_MAX

# A batch that does not compile has no frame. Where EXEC runs it, TRY around that EXEC handles its error.
_NO_FRAME = object()


def parse(text: str, *, quoted_identifier: bool = True, find_type: FindType | None = None) -> list[Statement]:
    """Parse a batch."""
    return Parser(text, GRAMMAR, quoted_identifier=quoted_identifier, find_type=find_type).batch()


def compile_batch(
    text: str, options: Options = DEFAULTS, types: dict[str, SqlType] | None = None, find_type: FindType | None = None
) -> Step:
    """Compile a batch; `types` are those of the parameters that it is called with. Its step waits.

    What follows SET NOEXEC ON is compiled but not run, up to a SET NOEXEC OFF. "The setting of SET NOEXEC is set at
    execute or run time", but SET PARSEONLY "at parse time": what follows its ON is not even compiled.
    """
    parseonly = options.parseonly
    try:
        body = []
        for statement in parse(text, quoted_identifier=options.quoted_identifier, find_type=find_type):
            if isinstance(statement, SetOption) and "PARSEONLY" in statement.options:
                parseonly = statement.value == "ON"
            elif not parseonly:
                body.append(statement)
        scope = Scope(COMPILERS, dict(types or {}), text=text)
        steps = [scope.compile(statement) for statement in body]
    except SqlServerError as blamed:
        raise _of_compilation(blamed, text) from None
    starts = [place for place, statement in enumerate(body) if place == 0 or _ends_noexec(statement)]
    parts = [
        (_ends_noexec(body[start]), sequence(steps[start:end], text)) for start, end in pairwise((*starts, len(body)))
    ]
    variables = scope.variables()
    is_bound = False

    def run(frame: Frame) -> Waiting[None]:
        nonlocal is_bound
        if not is_bound:
            try:
                yield from scope.bind(frame)
            except SqlServerError as blamed:
                raise _of_compilation(blamed, text) from None
            is_bound = True
        frame.variables = variables | frame.variables
        frame.declared = scope.declared
        session = frame.session
        if session.options.parseonly != parseonly:
            session.options = replace(session.options, parseonly=parseonly)
        for ends_noexec, part in parts:
            if ends_noexec or not session.options.noexec:
                signal = yield from part.run(frame)
                if signal is not None and not session.options.noexec:
                    return

    return Step(run)


def _of_compilation(blamed: SqlServerError, text: str) -> SqlServerError:
    error = manual.named(blamed, text, 1)
    error.frame = _NO_FRAME
    return error


def _ends_noexec(statement: Statement) -> bool:
    return isinstance(statement, SetOption) and "NOEXEC" in statement.options and statement.value == "OFF"


def compiled_batch(session: Session, text: str) -> Step:
    """Compile a batch, or take it from the cache."""
    options, instance, database_id = session.options, session.instance, session.database.database_id
    if len(text) > BATCH_CACHED_LENGTH or options.parseonly:
        return compile_batch(text, options, find_type=partial(instance.user_type, database_id))
    key = (database_id, text, options.quoted_identifier)
    step: Step | None = instance.batches.get(key)
    if step is None:
        step = compile_batch(text, options, find_type=partial(instance.user_type, database_id))
        instance.keep_batch(key, step)
    return step


def run_batch(session: Session, step: Step, sink: ResultSink, *, depth: int = 0) -> Waiting[None]:
    """Run a compiled batch in a frame of its own."""
    frame = Frame(session, session.database, sink, "", depth)
    try:
        yield from step.run(frame)
    finally:
        frame.release()
    if depth:
        frame.report_mismatch()


# -- texts with parameters ---------------------------------------------------------------------------------------------


class PreparedCall(NamedTuple):
    """A procedure that a handle stands for."""

    parts: tuple[str, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Prepared:
    """A compiled text with parameters."""

    declarations: str
    text: str
    parameters: list[ProcedureParameter]
    names: list[str]
    types: list[SqlType]
    defaults: dict[str, Evaluate]
    step: Step

    @property
    def length(self) -> int:
        """Characters of the text and the declarations."""
        return len(self.declarations) + len(self.text)


def prepare(session: Session, text: str, declarations: str) -> Prepared:
    """Compile a text with its parameters, or take it from the cache."""
    options = session.options
    # Not the key of any batch, whose text may be just this
    key = (session.database.database_id, f"{declarations}\0{text}", options.quoted_identifier, "with parameters")
    prepared = session.instance.batches.get(key)
    if prepared is None:
        find_type = partial(session.instance.user_type, session.database.database_id)
        parameters = parse_parameters(declarations, find_type) if declarations.strip() else []
        types: dict[str, SqlType] = {}
        for parameter in parameters:
            if parameter.name in types:
                raise SqlServerError(134, parameter.written)
            if parameter.table is not None:
                raise UnsupportedSyntax("a table as a parameter of sp_executesql", 0)
            types[parameter.name] = parameter.type
        defaults = {
            parameter.name: scalar(parameter.default, Scope(COMPILERS), parameter.type)
            for parameter in parameters
            if parameter.default is not None
        }
        step = compile_batch(text, replace(options, parseonly=False), types, find_type)
        prepared = Prepared(declarations, text, parameters, list(types), list(types.values()), defaults, step)
        session.instance.keep_batch(key, prepared)
    return prepared


def _run_prepared(  # noqa: PLR0917
    session: Session, prepared: Prepared, parameters: Sequence[Parameter], first: int, sink: ResultSink, depth: int
) -> Waiting[Outputs]:
    """Run a prepared text; `first` is the index of the first value in the RPC."""
    frame = Frame(session, session.database, sink, "", depth)
    names, types = prepared.names, prepared.types
    arguments = parameters[first:]
    places: dict[str, int] = {}
    unknown: list[Parameter] = []
    for number, parameter in enumerate(arguments):
        name = parameter.name.lower() or (names[number] if number < len(names) else "")
        if name not in names:
            unknown.append(parameter)
            continue
        target = types[names.index(name)]
        convert = parameter_converter(parameter.type, target)
        frame.variables[name] = parameter.value if convert is None else convert(parameter.value)
        places[name] = first + number
    for declared in prepared.parameters:
        if declared.name not in frame.variables:
            default = prepared.defaults.get(declared.name)
            if default is None and not declared.output:
                raise SqlServerError(8178, f"({prepared.declarations}){prepared.text}", declared.written)
            frame.variables[declared.name] = None if default is None else default(frame)
    if unknown:
        raise SqlServerError(8144, "", state=2)
    options, database, context = session.options, session.database, session.guard
    impersonated, session.impersonated = session.impersonated, []
    try:
        yield from prepared.step.run(frame)
    finally:
        session.guard, session.impersonated = context, impersonated
        session.options = options
        session.database = database
        if frame.tables or session.temporary_tables:
            frame.release()
    frame.report_mismatch()
    return {
        place: (types[names.index(name)], frame.variables[name])
        for name, place in places.items()
        if parameters[place].output
    }


def handle_at(parameters: Sequence[Parameter], procedure: str) -> int:
    """The handle that is a system procedure's first parameter; 0 for NULL."""
    if not parameters:
        raise SqlServerError(201, procedure, "@handle")
    parameter = parameters[0]
    handle: int | None = (
        parameter.value if type(parameter.value) is int else converter(parameter.type, INT)(parameter.value)
    )
    return handle or 0


def text_at(parameters: Sequence[Parameter], place: int, name: str = "statement") -> str:
    """The text of a parameter, "" for NULL; 214 for any other type than nvarchar and its like."""
    value = parameters[place].value if place < len(parameters) else None
    if value is None:
        return ""
    if parameters[place].type.name not in UNICODE:
        raise SqlServerError(214, name, "ntext/nchar/nvarchar")
    return str(value)


def sp_executesql(
    session: Session, parameters: Sequence[Parameter], sink: ResultSink, depth: int
) -> Waiting[tuple[int, Outputs]]:
    """`sp_executesql @stmt [ , @params , value ... ]`; the status is the error of the last statement."""
    prepared = prepare(session, text_at(parameters, 0), text_at(parameters, 1, "params"))
    outputs = yield from _run_prepared(session, prepared, parameters, 2, sink, depth)
    return session.error_number, outputs


def sp_prepare(session: Session, parameters: Sequence[Parameter], sink: ResultSink, depth: int) -> Waiting[Outputs]:
    """`sp_prepare @handle OUTPUT, @params, @stmt [ , options ]`"""
    handle_at(parameters, "sp_prepare")
    prepared = prepare(session, text_at(parameters, 2), text_at(parameters, 1))
    return {0: (INT, session.prepared.keep(prepared, prepared.length))}
    yield  # makes this a generator like the others


def sp_prepexec(session: Session, parameters: Sequence[Parameter], sink: ResultSink, depth: int) -> Waiting[Outputs]:
    """`sp_prepexec @handle OUTPUT, @params, @stmt [ , value ... ]`; unprepares a handle that is given."""
    session.prepared.drop(handle_at(parameters, "sp_prepexec"))
    prepared = prepare(session, text_at(parameters, 2), text_at(parameters, 1))
    handle = session.prepared.keep(prepared, prepared.length)
    outputs = yield from _run_prepared(session, prepared, parameters, 3, sink, depth)
    return {0: (INT, handle), **outputs}


def sp_execute(session: Session, parameters: Sequence[Parameter], sink: ResultSink, depth: int) -> Waiting[Outputs]:
    """`sp_execute @handle [ , value ... ]`"""
    handle = handle_at(parameters, "sp_execute")
    prepared = session.prepared.get(handle)
    if prepared is None:
        raise SqlServerError(8179, handle)
    if isinstance(prepared, PreparedCall):
        raise UnsupportedSyntax("EXECUTE sp_execute of a handle that sp_prepexecrpc made", 0)
    return (yield from _run_prepared(session, prepared, parameters, 1, sink, depth))


def sp_unprepare(session: Session, parameters: Sequence[Parameter], sink: ResultSink, depth: int) -> Waiting[Outputs]:
    """`sp_unprepare @handle`"""
    handle = handle_at(parameters, "sp_unprepare")
    if not session.prepared.drop(handle):
        raise SqlServerError(8179, handle)
    return {}
    yield


# The batch in such a text knows of SET FMTONLY ON itself.
_OF_TEXTS = {call.__name__: call for call in (sp_execute, sp_executesql, sp_prepare, sp_prepexec, sp_unprepare)}
for _name, _procedure in _OF_TEXTS.items():
    register_procedure(_name)(_procedure)


# -- EXECUTE ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Argument:
    name: str  # "" by position
    value: Expression | None  # None: DEFAULT
    output: bool


@dataclass(frozen=True, slots=True)
class Execute(Statement):
    describes = True
    procedure: tuple[str, ...] | str  # a name, or a variable that holds it
    arguments: list[Argument]
    status: str  # the variable that takes the return status


def parse_execute(parser: Parser) -> Statement:
    """`EXEC[UTE] [ @status = ] name [ [ @parameter = ] { value [ OUTPUT ] | DEFAULT } [, ...] ] [ WITH RECOMPILE ]`"""
    tokens, line = parser.tokens, parser.line
    status = ""
    if tokens.at_variable() and tokens.word(2) == "=":
        status = tokens.variable()
        tokens.expect("=")
    procedure: tuple[str, ...] | str = tokens.variable() if tokens.at_variable() else tokens.object_name()
    is_over = tokens.accept(";")
    if is_over and not tokens.at_end and tokens.word().isdigit():
        tokens.unsupported("numbered procedures")
    arguments: list[Argument] = []
    if not (is_over or at_statement_end(parser)):
        arguments = tokens.comma_separated(lambda: _argument(parser))
    tokens.accept("WITH", "RECOMPILE")
    return Execute(line, procedure, arguments, status)


def _argument(parser: Parser) -> Argument:
    tokens = parser.tokens
    name = ""
    if tokens.at_variable() and tokens.word(2) == "=":
        name = tokens.written_variable()
        tokens.expect("=")
    if tokens.accept("DEFAULT"):
        return Argument(name, None, False)
    value = _argument_value(parser)
    output = tokens.accept("OUTPUT") or tokens.accept("OUT")
    return Argument(name, value, output)


def _argument_value(parser: Parser) -> Expression:
    """A constant, a variable, or, as `EXEC p name` and `EXEC p [name]` allow, a bare name, which is a string."""
    tokens = parser.tokens
    token = tokens.peek()
    is_word = tokens.word().isidentifier() and tokens.word() not in RESERVED
    if token is not None and (is_word or tokens.at_quoted_name()):
        tokens.advance()
        return parse_expression(tokens, [string_token(token)])
    return parse_constant(parser, ",", "OUTPUT", "OUT", "WITH")


@register("EXEC|EXECUTE", parse_execute, Execute)
def compile_execute(node: Execute, scope: Scope) -> Step:
    arguments = [_argument_of(argument, scope, node.line) for argument in node.arguments]
    names = tuple(argument.name for argument in node.arguments)
    for variable in (node.status, node.procedure):
        if variable and isinstance(variable, str):
            scope.type_of(variable, node.line)
    shapes: list[Shape] = []  # set by the first call, when the types are known

    def shape(frame: Frame) -> Shape:
        if not shapes:
            shapes.append((names, tuple([type_of(frame) for type_of, _ in arguments])))
        return shapes[0]

    def run(frame: Frame) -> Waiting[None]:
        session = frame.session
        parts = node.procedure
        if isinstance(parts, str):
            text = str(frame.variables[parts] or "").replace("\ufeff", "")  # of xml in a message
            parts = name_parts(text) or (text,)
        values = [value(frame) for _, value in arguments]
        procedure = frame.instance.called(parts, frame.database, frame.session.guard)
        if procedure is None:
            return system(frame, parts, values)
        guard = session.guard
        if guard is not None:
            database = frame.instance.owner(procedure)
            if not guard.is_chained(frame, database, procedure.object_id):
                guard.execute(procedure, database)
        program = compiled(procedure)

        def returned(called: Frame) -> None:
            _take_variables(frame, node, scope, program, called.variables)
            if node.status:
                frame.variables[node.status] = called.status

        return call(session, procedure, parts, shape(frame), values, frame.sink, frame.depth + 1, returned)

    def count_arguments(parts: tuple[str, ...], frame: Frame) -> None:
        """Raise 8144 before the batch runs, if the procedure exists."""
        procedure = frame.instance.called(parts, frame.database, frame.session.guard)
        if procedure is not None and len(names) > len(compiled(procedure).names) > 0:
            raise SqlServerError(8144, procedure.name, state=2)

    def system(frame: Frame, parts: tuple[str, ...], values: list[Any]) -> Waiting[None]:
        if frame.session.options.fmtonly and parts[-1].lower() not in _OF_TEXTS:
            return
        parameters = [
            Parameter(argument.name, NVARCHAR_MAX if type_ in (None, DEFAULT) else type_, value, argument.output)
            for type_, value, argument in zip(shape(frame)[1], values, node.arguments, strict=True)
        ]
        try:
            status, outputs = yield from call_system(frame.session, parts, parameters, frame.sink, frame.depth + 1)
        except SqlServerError as error:
            if node.status and parts[-1].lower() == "sp_executesql":
                frame.variables[node.status] = error.number
            raise
        _take_outputs(frame, node, scope, outputs)
        if parts[-1].lower() not in _OF_TEXTS:
            frame.session.error_number = 0
        if node.status:
            frame.variables[node.status] = status

    if not isinstance(node.procedure, str):
        scope.plans_before(node.line, partial(count_arguments, node.procedure), lambda frame: False)
    return Step(run, keeps_error=True)


def _argument_of(argument: Argument, scope: Scope, line: int) -> Any:
    """The functions for an argument's type, known at the first call, and for its value."""
    if argument.value is None:
        return (lambda frame: DEFAULT), (lambda frame: None)
    expression = argument.value
    name = f"@{expression.tree.name.lower()}" if isinstance(expression.tree, exp.Parameter) else ""
    if name in scope.table_types:
        return (lambda frame: scope.table_types[name]), (lambda frame: frame.table(name))
    if argument.output and not isinstance(expression.tree, exp.Parameter):
        raise SqlServerError(179, line=line)
    value = scalar(expression, scope)
    return (lambda frame: static_type(expression, scope, frame)), value


def _take_variables(
    frame: Frame, node: Execute, scope: Scope, program: CompiledProcedure, variables: dict[str, Any]
) -> None:
    outputs: dict[int, tuple[SqlType, Any]] = {}
    for place, argument in enumerate(node.arguments):
        if argument.output:
            name = argument.name.lower() or program.names[place]
            if name not in program.outputs:
                raise SqlServerError(8162, program.written[program.names.index(name)])
            outputs[place] = program.types[program.names.index(name)], variables[name]
    _take_outputs(frame, node, scope, outputs)


def _take_outputs(frame: Frame, node: Execute, scope: Scope, outputs: dict[int, tuple[SqlType, Any]]) -> None:
    for place, (type_, value) in outputs.items():
        expression = node.arguments[place].value
        if expression is None or not node.arguments[place].output:
            continue
        target = "@" + expression.tree.name.lower()
        check_assignable(type_, scope.types[target])
        frame.variables[target] = converter(type_, scope.types[target])(value)


@dataclass(frozen=True, slots=True)
class ExecuteString(Statement):
    describes = True
    text: Expression


def parse_execute_string(parser: Parser) -> Statement:
    """`EXEC[UTE] ( string )`"""
    tokens, line = parser.tokens, parser.line
    text = parser.expression(")")
    tokens.expect(")")
    return ExecuteString(line, text)


@register("EXEC (|EXECUTE (", parse_execute_string, ExecuteString)
def compile_execute_string(node: ExecuteString, scope: Scope) -> Step:
    text = scalar(node.text, scope, NVARCHAR_MAX)

    def run(frame: Frame) -> Waiting[None]:
        session = frame.session
        batch_text = text(frame)
        if batch_text is None:
            return
        options, database, context = session.options, session.database, session.guard
        impersonated, session.impersonated = session.impersonated, []
        try:
            yield from run_batch(session, compiled_batch(session, batch_text), frame.sink, depth=frame.depth + 1)
        finally:
            session.options, session.database = options, database
            session.guard, session.impersonated = context, impersonated

    return Step(run, keeps_error=True)
