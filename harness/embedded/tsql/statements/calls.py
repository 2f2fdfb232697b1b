"""Calls of stored procedures: bound once for all calls that are alike, then run with converted values."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from harness.embedded.errors import SqlServerError
from harness.embedded.runtime.tasks import Waiting
from harness.embedded.sqltypes import SqlType
from harness.embedded.tsql.instance.stored_procedures import Procedure
from harness.embedded.tsql.permissions import guard
from harness.embedded.tsql.session.frame import Frame
from harness.embedded.tsql.session.results import ResultSink
from harness.embedded.tsql.session.session import Session
from harness.embedded.tsql.statements.procedures import CompiledProcedure, compiled
from harness.embedded.tsql.storage.conversion import converter, fits

NESTING_MAX = 32  # "Maximum stored procedure, function, trigger, or view nesting level exceeded (limit 32)."
BOUND_KEPT = 8192  # of a procedure: a driver may declare a varbinary(n) of every length up to 8000

DEFAULT = SqlType("DEFAULT")  # the type of an argument written DEFAULT, which selects the parameter's default

# The names ("" by position) and types of a call's arguments. All calls that agree in them share one binding.
Shape = tuple[tuple[str, ...], tuple[SqlType | None, ...]]
# Takes the frame of a procedure that has run: its status, and its variables for OUTPUT parameters.
Returned = Callable[[Frame], None]


class Bound(NamedTuple):
    """A procedure for all calls of one shape."""

    arguments: list[tuple[str, int, Callable[[Any], Any] | None]]  # parameter, index of its value, conversion
    defaults: list[tuple[str, Callable[[Frame], Any]]]  # of the other parameters
    compiled: CompiledProcedure


def execute(  # noqa: PLR0917
    session: Session,
    procedure: Procedure,
    shape: Shape,
    values: Sequence[Any],
    sink: ResultSink,
    depth: int,
    returned: Returned,
) -> Waiting[None]:
    """Run a procedure, then call `returned`."""
    if depth > NESTING_MAX:
        raise SqlServerError(217, NESTING_MAX)
    bound = procedure.bound.get(shape)
    if bound is None:
        bound = _bind(procedure, shape)
    arguments, defaults, program = bound
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
    if program.runs_as:
        session.guard = guard.of_user(session.instance, database, program.runs_as)
    body = program.body
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
    if session.tran_count != tran_count and not options.implicit_transactions and session.try_depth == 0:
        session.report(SqlServerError(266, tran_count, session.tran_count, procedure=procedure.name, line=1), sink)
    returned(frame)


def _bind(procedure: Procedure, shape: Shape) -> Bound:
    """Bind parameters to arguments or defaults for a shape of call; the procedure keeps the result."""
    program = compiled(procedure)
    arguments: list[tuple[str, int, Callable[[Any], Any] | None]] = []
    for place, (name, type_) in enumerate(zip(*shape, strict=True)):
        if name:
            if name.lower() not in program.names:
                raise SqlServerError(8145, name, procedure.name)
            number = program.names.index(name.lower())
        elif place >= len(program.names):
            raise SqlServerError(8144, procedure.name)
        else:
            number = place
        target = program.types[number]
        if type_ is not DEFAULT:
            exact = fits(type_, target)
            arguments.append((program.names[number], place, None if exact else converter(type_, target)))
    given = {name for name, _, _ in arguments}
    defaults = []
    for name, default in zip(program.names, program.defaults, strict=True):
        if name not in given:
            if default is None:
                raise SqlServerError(201, procedure.name, name)
            defaults.append((name, default))
    if len(procedure.bound) >= BOUND_KEPT:
        del procedure.bound[next(iter(procedure.bound))]
    bound = procedure.bound[shape] = Bound(arguments, defaults, program)
    return bound
