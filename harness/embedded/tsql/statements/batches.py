"""Batches and texts with parameters: parse, compile, cache by text, run; sp_executesql, and the system procedures that
drivers call for prepared statements."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from harness.embedded.errors import SqlServerError
from harness.embedded.runtime.tasks import Waiting
from harness.embedded.sqltypes import INT, Parameter, ResultSink, SqlType
from harness.embedded.tsql.session.session import Frame, Session
from harness.embedded.tsql.session.steps import Scope, Step, sequence
from harness.embedded.tsql.statements.options import SetOption
from harness.embedded.tsql.statements.procedures import parse_parameters
from harness.embedded.tsql.statements.registry import COMPILERS, GRAMMAR, Outputs, register_procedure
from harness.embedded.tsql.storage.conversion import converter, fits
from harness.embedded.tsql.text.parser import Parser, Statement


def parse(text: str) -> list[Statement]:
    """Parse a batch."""
    return Parser(text, GRAMMAR).batch()


def compile_batch(text: str, types: dict[str, SqlType] | None = None) -> Step:
    """Compile a batch; `types` are those of the parameters that it is called with. Its step waits.

    With SET NOEXEC ON a batch is compiled but not run, up to a SET NOEXEC OFF in it.
    """
    body, scope = parse(text), Scope(COMPILERS, dict(types or {}))
    steps = [scope.compile(statement) for statement in body]
    whole = sequence(steps)
    places = [
        place
        for place, statement in enumerate(body)
        if isinstance(statement, SetOption) and statement.options == ["NOEXEC"] and statement.value == "OFF"
    ]
    woken = sequence(steps[places[0] :]) if places else sequence([])

    def run(frame: Frame) -> Waiting[Any]:
        step = woken if frame.session.options.noexec else whole
        signal = (yield from step.run(frame)) if step.waits else step.run(frame)
        return signal

    return Step(run, True)


def compiled(session: Session, text: str) -> Step:
    """Compile a batch, or take it from the cache."""
    key = (session.database.database_id, text)
    instance = session.instance
    step: Step | None = instance.batches.get(key)
    if step is None:
        step = compile_batch(text)
        instance.keep_batch(key, step)
    return step


def run(session: Session, step: Step, sink: ResultSink, *, depth: int = 0) -> Waiting[None]:
    """Run a compiled batch in a frame of its own."""
    frame = Frame(session, session.database, sink, "", depth)
    try:
        yield from step.run(frame)
    finally:
        frame.release()


# -- texts with parameters ---------------------------------------------------------------------------------------------


class PreparedCall(NamedTuple):
    """A procedure that a handle stands for."""

    parts: tuple[str, ...]


class Prepared(NamedTuple):
    """A compiled text with parameters."""

    names: list[str]
    types: list[SqlType]
    outputs: list[bool]
    step: Step


def prepare(session: Session, text: str, declarations: str) -> Prepared:
    """Compile a text with its parameters, or take it from the cache."""
    key = (session.database.database_id, f"{declarations}\0{text}")
    prepared = session.instance.batches.get(key)
    if prepared is None:
        parameters = parse_parameters(declarations) if declarations.strip() else []
        step = compile_batch(text, {parameter.name: parameter.type for parameter in parameters})
        names = [parameter.name for parameter in parameters]
        prepared = Prepared(names, [p.type for p in parameters], [p.output for p in parameters], step)
        session.instance.keep_batch(key, prepared)
    return prepared


def _run_prepared(  # noqa: PLR0917
    session: Session, prepared: Prepared, parameters: Sequence[Parameter], first: int, sink: ResultSink, depth: int
) -> Waiting[Outputs]:
    """Run a prepared text; `first` is the index of the first value in the RPC."""
    frame = Frame(session, session.database, sink, "", depth)
    names, types = prepared.names, prepared.types
    given = parameters[first:]
    if len(given) > len(names):
        raise SqlServerError(8144, "sp_executesql")
    places: dict[str, int] = {}
    for number, parameter in enumerate(given):
        name = parameter.name.lower() or names[number]
        if name not in names:
            raise SqlServerError(8145, parameter.name, "sp_executesql")
        target = types[names.index(name)]
        value = parameter.value
        frame.variables[name] = value if fits(parameter.type, target) else converter(parameter.type, target)(value)
        places[name] = first + number
    for number, name in enumerate(names):
        if name not in frame.variables:
            if not prepared.outputs[number]:
                raise SqlServerError(8178, name)
            frame.variables[name] = None
    options, database = session.options, session.database
    try:
        yield from prepared.step.run(frame)
    finally:
        session.options = options
        session.database = database
        if frame.tables:
            frame.release()
    return {
        place: (types[names.index(name)], frame.variables[name])
        for name, place in places.items()
        if parameters[place].output
    }


def text_at(parameters: Sequence[Parameter], place: int) -> str:
    value = parameters[place].value if place < len(parameters) else None
    if value is None:
        return ""
    if not isinstance(value, str):
        raise SqlServerError(214, "statement", "ntext/nchar/nvarchar")
    return value


def sp_executesql(session: Session, parameters: Sequence[Parameter], sink: ResultSink, depth: int) -> Waiting[Outputs]:
    """`sp_executesql @stmt [ , @params , value ... ]`"""
    prepared = prepare(session, text_at(parameters, 0), text_at(parameters, 1))
    return (yield from _run_prepared(session, prepared, parameters, 2, sink, depth))


def keep(session: Session, prepared: Prepared | PreparedCall) -> int:
    handle = session.next_handle
    session.next_handle += 1
    session.prepared[handle] = prepared
    return handle


def sp_prepare(session: Session, parameters: Sequence[Parameter], sink: ResultSink, depth: int) -> Waiting[Outputs]:
    """`sp_prepare @handle OUTPUT, @params, @stmt [ , options ]`"""
    prepared = prepare(session, text_at(parameters, 2), text_at(parameters, 1))
    return {0: (INT, keep(session, prepared))}
    yield  # makes this a generator like the others


def sp_prepexec(session: Session, parameters: Sequence[Parameter], sink: ResultSink, depth: int) -> Waiting[Outputs]:
    """`sp_prepexec @handle OUTPUT, @params, @stmt [ , value ... ]`; unprepares a handle that is given."""
    session.prepared.pop(parameters[0].value or 0, None)
    prepared = prepare(session, text_at(parameters, 2), text_at(parameters, 1))
    handle = keep(session, prepared)
    outputs = yield from _run_prepared(session, prepared, parameters, 3, sink, depth)
    return {0: (INT, handle), **outputs}


def sp_execute(session: Session, parameters: Sequence[Parameter], sink: ResultSink, depth: int) -> Waiting[Outputs]:
    """`sp_execute @handle [ , value ... ]`"""
    prepared = session.prepared.get(parameters[0].value if parameters else 0)
    if prepared is None:
        raise SqlServerError(8179, parameters[0].value if parameters else 0)
    return (yield from _run_prepared(session, prepared, parameters, 1, sink, depth))


def sp_unprepare(session: Session, parameters: Sequence[Parameter], sink: ResultSink, depth: int) -> Waiting[Outputs]:
    """`sp_unprepare @handle`"""
    handle = parameters[0].value if parameters else 0
    if session.prepared.pop(handle, None) is None:
        raise SqlServerError(8179, handle)
    return {}
    yield


for _procedure in (sp_execute, sp_executesql, sp_prepare, sp_prepexec, sp_unprepare):
    register_procedure(_procedure.__name__, _procedure)
