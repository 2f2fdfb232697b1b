"""Requests: batches and remote procedure calls (RPC) of clients, and the activated procedures of queues."""

from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache
from typing import Any

from harness.embedded.broker.database import ConversationEndpoint, Database, Local
from harness.embedded.broker.engine import Engine
from harness.embedded.broker.queues import Queue
from harness.embedded.errors import SqlServerError, let_go
from harness.embedded.runtime.tasks import Waiting
from harness.embedded.sqltypes import INT, Column, Parameter, ResultSink
from harness.embedded.tsql.instance.instance import Instance
from harness.embedded.tsql.instance.modules import Procedure
from harness.embedded.tsql.permissions import guard, sending
from harness.embedded.tsql.permissions.rights import DBO
from harness.embedded.tsql.session.session import Frame, Session
from harness.embedded.tsql.statements import batches, bulk_load
from harness.embedded.tsql.statements.batches import PreparedCall, handle_at, text_at
from harness.embedded.tsql.statements.procedures import Returned, call, compiled
from harness.embedded.tsql.statements.registry import Outputs, call_system
from harness.embedded.tsql.storage.conversion import parameter_converter
from harness.embedded.tsql.text.tokens import Tokens


class ClientSession(Session):
    """A session that takes requests. They never raise SqlServerError: errors go to the sink."""

    def batch(self, text: str, sink: ResultSink) -> Waiting[None]:
        """Run a batch of statements."""
        return self._request(lambda: batches.run_batch(self, batches.compiled_batch(self, text), sink), text, sink)

    def rpc(self, name: str, parameters: Sequence[Parameter], sink: ResultSink) -> Waiting[None]:
        """Call a procedure of the database or a system procedure."""
        return self._request(lambda: _call(self, name, parameters, sink), name, sink)

    def bulk_load(self, columns: Sequence[Column], rows: Iterator[Sequence[Any]], sink: ResultSink) -> Waiting[None]:
        """Insert the rows that follow INSERT BULK."""
        return self._request(lambda: bulk_load.load(self, columns, rows, sink), "INSERT BULK", sink)

    def _request(self, start: Callable[[], Waiting[None]], text: str, sink: ResultSink) -> Waiting[None]:
        self.is_running, self.task = True, self.engine.scheduler.current
        try:
            yield from start()
        except Exception as raised:
            error = self.instance.defects.error(raised, text)
            self.report(error, sink)
            self.after_abort(error)
            let_go(raised)
        finally:
            self.is_running = False
            if self.doomed:
                self.end_doomed(sink)
            self.instance.sqlite.forget(self)


# -- procedure calls ---------------------------------------------------------------------------------------------------


def _call(session: Session, name: str, parameters: Sequence[Parameter], sink: ResultSink) -> Waiting[None]:
    parts, system = _called(name)
    if system == "sp_prepexecrpc":
        return _prepare_and_call(session, parameters, sink)
    if system == "sp_execute" and parameters:
        prepared = session.prepared.get(parameters[0].value)
        if isinstance(prepared, PreparedCall):
            return _call_prepared(session, prepared, parameters, 1, sink, {})
    if system == "sp_reset_connection":
        return _reset(session, sink)
    procedure = session.instance.called(parts, session.database, session.guard)
    if procedure is None:
        return _call_system(session, parts, parameters, sink)
    return _call_procedure(session, procedure, parts, parameters, 0, sink, {})


def _reset(session: Session, sink: ResultSink) -> Waiting[None]:
    """`sp_reset_connection`: pools call it before they give a connection out again. Only an RPC can."""
    session.reset()
    sink.return_status(0)
    yield from ()


def _call_system(
    session: Session, parts: tuple[str, ...], parameters: Sequence[Parameter], sink: ResultSink
) -> Waiting[None]:
    status, outputs = yield from call_system(session, parts, parameters, sink, 1)
    sink.return_status(status)
    _return_values(sink, parameters, outputs)


def _return_values(sink: ResultSink, parameters: Sequence[Parameter], outputs: Outputs) -> None:
    """Send the values of OUTPUT parameters, each with the name and in the type that the client has given it."""
    for place, (type_, value) in outputs.items():
        name, target = parameters[place].name, parameters[place].type
        convert = parameter_converter(type_, target)
        sink.return_value(place, name, target, value if convert is None else convert(value))


def _call_procedure(  # noqa: PLR0917
    session: Session,
    procedure: Procedure,
    parts: tuple[str, ...],
    parameters: Sequence[Parameter],
    first: int,
    sink: ResultSink,
    before: Outputs,
) -> Waiting[None]:
    """Run a procedure with the values from index `first` on; `before` holds OUTPUT parameters at lower indexes."""
    if session.guard is not None:
        database = session.database
        if database.database_id != procedure.database_id:
            database = session.instance.owner(procedure)
        session.guard.execute(procedure, database)
    arguments = parameters[first:]
    names, types, values, outputs = zip(*arguments, strict=True) if arguments else ((),) * 4
    returned = _returning(procedure, parameters, first, before) if before or any(outputs) else _return_status
    return call(session, procedure, parts, (names, types), values, sink, 1, returned)


def _return_status(frame: Frame) -> None:
    frame.sink.return_status(frame.status)


def _returning(procedure: Procedure, parameters: Sequence[Parameter], first: int, before: Outputs) -> Returned:
    """The function that sends the status and then the OUTPUT parameters."""

    def returned(frame: Frame) -> None:
        _return_status(frame)
        outputs, program = dict(before), compiled(procedure)
        for place, parameter in enumerate(parameters[first:]):
            if parameter.output:
                number = program.names.index(parameter.name.lower()) if parameter.name else place
                outputs[first + place] = program.types[number], frame.variables[program.names[number]]
        _return_values(frame.sink, parameters, outputs)

    return returned


def _call_prepared(  # noqa: PLR0917
    session: Session,
    prepared: PreparedCall,
    parameters: Sequence[Parameter],
    first: int,
    sink: ResultSink,
    before: Outputs,
) -> Waiting[None]:
    procedure = session.instance.called(prepared.parts, session.database, session.guard)
    if procedure is None:
        raise SqlServerError(2812, ".".join(prepared.parts))
    return _call_procedure(session, procedure, prepared.parts, parameters, first, sink, before)


def _prepare_and_call(session: Session, parameters: Sequence[Parameter], sink: ResultSink) -> Waiting[None]:
    """`sp_prepexecrpc @handle OUTPUT, @RPCCall [ , value ... ]`: Microsoft's driver sends it for `{CALL p (?)}`
    each time the parameters are bound anew. A handle that is given is unprepared."""
    session.prepared.drop(handle_at(parameters, "sp_prepexecrpc"))
    prepared = _prepared(text_at(parameters, 1))
    handle = session.prepared.keep(prepared, 0)
    return _call_prepared(session, prepared, parameters, 2, sink, {0: (INT, handle)})


@lru_cache(maxsize=1000)
def _called(name: str) -> tuple[tuple[str, ...], str]:
    """The parts of a procedure's name as drivers send it (`[dbo].[p]`, `db..p;1`), and the last part in lower case."""
    tokens = Tokens(name)
    parts = tokens.object_name()
    if tokens.accept(";"):
        tokens.integer()
    if not tokens.at_end:
        tokens.fail()
    return parts, parts[-1].lower()


@lru_cache(maxsize=1000)
def _prepared(name: str) -> PreparedCall:
    return PreparedCall(_called(name)[0])


# -- activation --------------------------------------------------------------------------------------------------------


def sending_problem(engine: Engine, endpoint: ConversationEndpoint, destination: Local) -> str:
    """Why a dialog may not reach a service of the instance; empty if it may."""
    return sending.problem(Instance.of(engine), endpoint, destination)


class _ErrorLog(ResultSink):
    """Discards result sets and return values; PRINT and errors go to the error log as 9724."""

    def __init__(self, engine: Engine, spid: int, procedure: str, queue: str) -> None:
        self._engine = engine
        self._process_info = f"spid{spid}s"
        self._procedure = procedure
        self._queue = queue

    def message(self, number: int, severity: int, state: int, text: str, procedure: str, line: int) -> None:  # noqa: PLR0917
        if number != 5701:  # a change of database is not output of the procedure
            text = SqlServerError(9724, self._procedure, self._queue, text).text
            self._engine.error_log.write(text, self._process_info)


def activate(engine: Engine, database: Database, queue: Queue) -> Waiting[None]:
    """Run the queue's procedure; raises the error that ends the activated task."""
    instance = Instance.of(engine)
    name = queue.activation_procedure or ""
    reader = engine.monitors.current_reader()
    session = Session(engine, spid=instance.system_spid(), login="sa", database=database.name, is_user_process=False)
    if reader is not None:
        reader.spid = session.spid
    # Shown without the database, as in SQL Server's log.
    short_name = name.partition("].")[2] if name.count("].") > 1 else name
    sink = _ErrorLog(engine, session.spid, short_name, f"{database.name}.{queue.qualified_name}")

    def returned(frame: Frame) -> None:
        if session.tx is not None:
            raise SqlServerError(8415, short_name)

    try:
        procedure = instance.procedure(Tokens(name).object_name(), database)
        if procedure is None:
            raise SqlServerError(2812, name)
        session.guard = _context(instance, database, queue, procedure)
        session.is_running, session.task = True, engine.scheduler.current
        parts = (procedure.schema, procedure.name)
        yield from call(session, procedure, parts, ((), ()), (), sink, 1, returned)
    except Exception as error:  # a defect too: the rollback counts towards poison detection
        raise instance.defects.error(error, name) from error
    finally:
        session.close()


def _context(instance: Instance, database: Database, queue: Queue, procedure: Procedure) -> guard.Guard:
    """ "SQL Server impersonates this user before starting the stored procedure." """
    user = DBO if queue.execute_as in (None, "OWNER") else str(queue.execute_as)
    if user.lower() != DBO and user.lower() not in database.catalog.principals.users:
        raise SqlServerError(15517, user)
    context = guard.of_user(instance, database, user)
    context.execute(procedure, database)
    return context
