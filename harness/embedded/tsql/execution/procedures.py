"""Stored procedures: compiled at their first call, called with values already converted to their parameters' types."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from harness.embedded.errors import SqlServerError
from harness.embedded.runtime.tasks import Waiting
from harness.embedded.sqltypes import SqlType
from harness.embedded.tsql.instance.procedures import Procedure
from harness.embedded.tsql.permissions import guard
from harness.embedded.tsql.permissions.fixed_principals import DBO
from harness.embedded.tsql.session.frame import Frame
from harness.embedded.tsql.session.steps import Scope, Step
from harness.embedded.tsql.storage.conversion import converter, fits
from harness.embedded.tsql.syntax.procedures import CreateProcedure
from harness.embedded.tsql.translation.binding import scalar

if TYPE_CHECKING:
    from harness.embedded.tsql.session.results import ResultSink
    from harness.embedded.tsql.session.session import Session

NESTING_MAX = 32  # "Maximum stored procedure, function, trigger, or view nesting level exceeded (limit 32)."
BOUND_KEPT = 8192  # of a procedure: a driver may declare a varbinary(n) of every length up to 8000

DEFAULT = SqlType("DEFAULT")  # as an argument's type: the word in its place, which leaves the parameter its default

# The names ("" by position) and types of a call's arguments: it is prepared once for all calls that are alike in them.
Shape = tuple[tuple[str, ...], tuple[SqlType | None, ...]]
# Takes the frame of a procedure that has run: its status, and its variables for OUTPUT parameters.
Returned = Callable[[Frame], None]


class CompiledProcedure(NamedTuple):
    names: list[str]
    types: list[SqlType]
    defaults: list[Callable[[Frame], Any] | None]
    outputs: frozenset[str]
    body: Step
    runs_as: str = ""  # a user, "" for whoever calls; as EXECUTE AS has it until the procedure knows its creator


class Bound(NamedTuple):
    """A procedure for all calls of one shape."""

    arguments: list[tuple[str, int, Callable[[Any], Any] | None]]  # parameter, place of its value, conversion
    defaults: list[tuple[str, Callable[[Frame], Any]]]  # of the other parameters
    compiled: CompiledProcedure


def compiled(procedure: Procedure) -> CompiledProcedure:
    """The compiled procedure; its text is compiled at the first call."""
    if procedure.compiled is None:
        from harness.embedded.tsql import statements  # noqa: PLC0415

        made = statements.compile_procedure(procedure.text)
        # dbo owns every procedure.
        users = {"OWNER": DBO, "SELF": procedure.creator, "CALLER": ""}
        procedure.compiled = made._replace(runs_as=users.get(made.runs_as, made.runs_as))
    found: CompiledProcedure = procedure.compiled
    return found


def _bind(procedure: Procedure, shape: Shape) -> Bound:
    """Decides which parameter takes which argument, and which parameters keep their defaults."""
    callee = compiled(procedure)
    arguments: list[tuple[str, int, Callable[[Any], Any] | None]] = []
    for place, (name, type_) in enumerate(zip(*shape, strict=True)):
        if name:
            if name.lower() not in callee.names:
                raise SqlServerError(8145, name, procedure.name)
            number = callee.names.index(name.lower())
        elif place >= len(callee.names):
            raise SqlServerError(8144, procedure.name)
        else:
            number = place
        target = callee.types[number]
        if type_ is not DEFAULT:
            exact = fits(type_, target)
            arguments.append((callee.names[number], place, None if exact else converter(type_, target)))
    given = {name for name, _, _ in arguments}
    defaults = []
    for name, default in zip(callee.names, callee.defaults, strict=True):
        if name not in given:
            if default is None:
                raise SqlServerError(201, procedure.name, name)
            defaults.append((name, default))
    return Bound(arguments, defaults, callee)


def compile_definition(node: CreateProcedure, scope: Scope) -> CompiledProcedure:
    """Compiles a procedure's parameters and body in a scope of their own."""
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
        node.execute_as,
    )


def execute(  # noqa: PLR0917
    session: Session,
    procedure: Procedure,
    shape: Shape,
    values: Sequence[Any],
    sink: ResultSink,
    depth: int,
    returned: Returned,
) -> Waiting[None]:
    """Runs a procedure; `returned` is called when it has."""
    if depth > NESTING_MAX:
        raise SqlServerError(217, NESTING_MAX)
    bound = procedure.bound.get(shape)
    if bound is None:
        bound = _bind(procedure, shape)
        if len(procedure.bound) >= BOUND_KEPT:
            del procedure.bound[next(iter(procedure.bound))]
        procedure.bound[shape] = bound
    arguments, defaults, callee = bound
    database = session.database
    if database.database_id != procedure.database_id:
        database = session.instance.owner(procedure)
    frame = Frame(session, database, sink, procedure.name, depth)
    variables = frame.variables
    for name, place, convert in arguments:
        variables[name] = values[place] if convert is None else convert(values[place])
    for name, default in defaults:
        variables[name] = default(frame)
    options, tran_count, context = session.options, session.tran_count, session.guard
    if callee.runs_as:
        session.guard = guard.of_user(session.instance, database, callee.runs_as)
    body = callee.body
    try:
        if body.waits:
            yield from body.run(frame)
        else:
            body.run(frame)
    finally:
        session.options = options
        session.guard = context
        if frame.tables:
            frame.release()
    if session.tran_count != tran_count and not options.implicit_transactions:
        session.mismatch(tran_count, frame)
    returned(frame)
