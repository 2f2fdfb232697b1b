"""Remote procedure calls: how drivers call procedures, and the system procedures they call for prepared statements."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple

from harness.embedded.errors import SqlServerError
from harness.embedded.runtime.tasks import Waiting
from harness.embedded.sqltypes import INT, SqlType
from harness.embedded.tsql import statements
from harness.embedded.tsql.execution import procedures
from harness.embedded.tsql.instance.procedures import Procedure
from harness.embedded.tsql.requests import configuration_procedures
from harness.embedded.tsql.session.frame import Frame
from harness.embedded.tsql.session.results import Parameter, ResultSink
from harness.embedded.tsql.session.steps import Step
from harness.embedded.tsql.storage.conversion import converter, fits
from harness.embedded.tsql.text.tokens import Tokens

if TYPE_CHECKING:
    from harness.embedded.tsql.session.session import Session

Outputs = dict[int, tuple[SqlType, Any]]  # place of an OUTPUT parameter -> its type and value
System = Callable[["Session", Sequence[Parameter], ResultSink, int], Waiting[Outputs]]


def call(session: Session, name: str, parameters: Sequence[Parameter], sink: ResultSink) -> Waiting[None]:
    """An RPC: a procedure of the database, or a system procedure."""
    parts, system = _called(name)
    if system == "sp_prepexecrpc":
        return _prepare_and_call(session, parameters, sink)
    if system == "sp_execute" and parameters:
        prepared = session.prepared.get(parameters[0].value)
        if isinstance(prepared, PreparedCall):
            return _call_prepared(session, prepared, parameters, 1, sink, {})
    procedure = session.instance.procedure(parts, session.database)
    if procedure is None:
        return _call_system(session, parts, parameters, sink)
    return _call_procedure(session, procedure, parameters, 0, sink, {})


def _call_system(
    session: Session, parts: tuple[str, ...], parameters: Sequence[Parameter], sink: ResultSink
) -> Waiting[None]:
    status, outputs = yield from call_system(session, parts, parameters, sink, 1)
    sink.return_status(status)
    for place, (type_, value) in outputs.items():
        sink.return_value(place, parameters[place].name, type_, value)


def _call_procedure(  # noqa: PLR0917
    session: Session,
    procedure: Procedure,
    parameters: Sequence[Parameter],
    first: int,
    sink: ResultSink,
    before: Outputs,
) -> Waiting[None]:
    """Executes a procedure with the values from place `first` on; `before` are OUTPUT parameters of other places."""
    if session.guard is not None:
        database = session.database
        if database.database_id != procedure.database_id:
            database = session.instance.owner(procedure)
        session.guard.execute(procedure, database)
    given = parameters[first:]
    names, types, values, outputs = zip(*given, strict=True) if given else ((),) * 4
    returned = _returning(procedure, parameters, first, before) if before or any(outputs) else _return_status
    return procedures.execute(session, procedure, (names, types), values, sink, 1, returned)


def _return_status(frame: Frame) -> None:
    frame.sink.return_status(frame.return_value)


def _returning(
    procedure: Procedure, parameters: Sequence[Parameter], first: int, before: Outputs
) -> procedures.Returned:
    """What gives the client the status and then the OUTPUT parameters."""

    def returned(frame: Frame) -> None:
        _return_status(frame)
        for place, (type_, value) in before.items():
            frame.sink.return_value(place, parameters[place].name, type_, value)
        compiled = procedures.compiled(procedure)
        for place, parameter in enumerate(parameters[first:]):
            if parameter.output:
                name = parameter.name.lower() or compiled.names[place]
                type_ = compiled.types[compiled.names.index(name)]
                frame.sink.return_value(first + place, name, type_, frame.variables[name])

    return returned


class PreparedCall(NamedTuple):
    """A procedure by its name, behind a handle."""

    parts: tuple[str, ...]


def _call_prepared(  # noqa: PLR0917
    session: Session,
    call: PreparedCall,
    parameters: Sequence[Parameter],
    first: int,
    sink: ResultSink,
    before: Outputs,
) -> Waiting[None]:
    procedure = session.instance.procedure(call.parts, session.database)
    if procedure is None:
        raise SqlServerError(2812, ".".join(call.parts))
    return _call_procedure(session, procedure, parameters, first, sink, before)


def _prepare_and_call(session: Session, parameters: Sequence[Parameter], sink: ResultSink) -> Waiting[None]:
    """`sp_prepexecrpc @handle OUTPUT, @RPCCall [ , value ... ]`: what Microsoft's driver makes of a `{CALL p (?)}` with
    parameters, each time that they are bound anew; a handle given is unprepared first."""
    session.prepared.pop(parameters[0].value or 0, None)
    call = PreparedCall(_called(_text(parameters, 1))[0])
    handle = _keep(session, call)
    return _call_prepared(session, call, parameters, 2, sink, {0: (INT, handle)})


@lru_cache(maxsize=1000)
def _called(name: str) -> tuple[tuple[str, ...], str]:
    """The parts of a procedure's name as drivers send it (`dbo.p`, `[dbo].[p]`, `db..p;1`), and the last in small."""
    tokens = Tokens(name)
    parts = tokens.object_name()
    if tokens.accept(";"):
        tokens.integer()
    if not tokens.at_end:
        tokens.fail()
    return parts, parts[-1].lower()


def call_system(
    session: Session, parts: tuple[str, ...], parameters: Sequence[Parameter], sink: ResultSink, depth: int
) -> Waiting[tuple[int, Outputs]]:
    """A system procedure; 2812 if there is none of that name."""
    system = SYSTEM_PROCEDURES.get(parts[-1].lower())
    if system is None:
        raise SqlServerError(2812, ".".join(parts))
    outputs = yield from system(session, parameters, sink, depth)
    return 0, outputs


# -- prepared statements -----------------------------------------------------------------------------------------------


class Prepared(NamedTuple):
    """A text with parameters, compiled."""

    names: list[str]
    types: list[SqlType]
    outputs: list[bool]
    step: Step


def prepare(session: Session, text: str, declarations: str) -> Prepared:
    """Compiles a text with its parameters; the same ones again come from the cache."""
    key = (session.database.database_id, f"{declarations}\0{text}")
    prepared = session.instance.batches.get(key)
    if prepared is None:
        parameters = statements.parse_parameters(declarations) if declarations.strip() else []
        step = statements.compile_batch(text, {parameter.name: parameter.type for parameter in parameters})
        names = [parameter.name for parameter in parameters]
        prepared = Prepared(names, [p.type for p in parameters], [p.output for p in parameters], step)
        session.instance.keep_batch(key, prepared)
    return prepared


def _run(  # noqa: PLR0917
    session: Session, prepared: Prepared, parameters: Sequence[Parameter], first: int, sink: ResultSink, depth: int
) -> Waiting[Outputs]:
    """Runs a prepared text with values; `first` is the place of the first value in the RPC."""
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
        if prepared.step.waits:
            yield from prepared.step.run(frame)
        else:
            prepared.step.run(frame)
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


def _text(parameters: Sequence[Parameter], place: int) -> str:
    value = parameters[place].value if place < len(parameters) else None
    if value is None:
        return ""
    if not isinstance(value, str):
        raise SqlServerError(214, "statement", "ntext/nchar/nvarchar")
    return value


def sp_executesql(session: Session, parameters: Sequence[Parameter], sink: ResultSink, depth: int) -> Waiting[Outputs]:
    """`sp_executesql @stmt [ , @params , value ... ]`"""
    prepared = prepare(session, _text(parameters, 0), _text(parameters, 1))
    return (yield from _run(session, prepared, parameters, 2, sink, depth))


def _keep(session: Session, prepared: Prepared | PreparedCall) -> int:
    handle = session.next_handle
    session.next_handle += 1
    session.prepared[handle] = prepared
    return handle


def sp_prepare(session: Session, parameters: Sequence[Parameter], sink: ResultSink, depth: int) -> Waiting[Outputs]:
    """`sp_prepare @handle OUTPUT, @params, @stmt [ , options ]`"""
    prepared = prepare(session, _text(parameters, 2), _text(parameters, 1))
    return {0: (INT, _keep(session, prepared))}
    yield  # a generator like the others


def sp_prepexec(session: Session, parameters: Sequence[Parameter], sink: ResultSink, depth: int) -> Waiting[Outputs]:
    """`sp_prepexec @handle OUTPUT, @params, @stmt [ , value ... ]`; a handle given is unprepared first."""
    session.prepared.pop(parameters[0].value or 0, None)
    prepared = prepare(session, _text(parameters, 2), _text(parameters, 1))
    handle = _keep(session, prepared)
    outputs = yield from _run(session, prepared, parameters, 3, sink, depth)
    return {0: (INT, handle), **outputs}


def sp_execute(session: Session, parameters: Sequence[Parameter], sink: ResultSink, depth: int) -> Waiting[Outputs]:
    """`sp_execute @handle [ , value ... ]`"""
    prepared = session.prepared.get(parameters[0].value if parameters else 0)
    if prepared is None:
        raise SqlServerError(8179, parameters[0].value if parameters else 0)
    return (yield from _run(session, prepared, parameters, 1, sink, depth))


def sp_unprepare(session: Session, parameters: Sequence[Parameter], sink: ResultSink, depth: int) -> Waiting[Outputs]:
    """`sp_unprepare @handle`"""
    handle = parameters[0].value if parameters else 0
    if session.prepared.pop(handle, None) is None:
        raise SqlServerError(8179, handle)
    return {}
    yield


SYSTEM_PROCEDURES: dict[str, System] = {
    "sp_addextendedproperty": configuration_procedures.sp_addextendedproperty,
    "sp_dropextendedproperty": configuration_procedures.sp_dropextendedproperty,
    "sp_configure": configuration_procedures.sp_configure,
    "sp_execute": sp_execute,
    "sp_executesql": sp_executesql,
    "sp_prepare": sp_prepare,
    "sp_prepexec": sp_prepexec,
    "sp_unprepare": sp_unprepare,
}
