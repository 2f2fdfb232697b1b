"""Internal activation: runs a queue's procedure once, in a session of the system."""

from __future__ import annotations

from typing import TYPE_CHECKING

from harness.embedded.errors import SqlServerError
from harness.embedded.runtime.tasks import Waiting
from harness.embedded.tsql.instance.instance import Instance
from harness.embedded.tsql.permissions import guard
from harness.embedded.tsql.permissions.fixed_principals import DBO
from harness.embedded.tsql.session.result_sink import DiscardedResults
from harness.embedded.tsql.session.session import Session
from harness.embedded.tsql.statements import calls
from harness.embedded.tsql.text.tokens import Tokens

if TYPE_CHECKING:
    from harness.embedded.broker.database import Database
    from harness.embedded.broker.engine import Engine
    from harness.embedded.broker.queues import Queue
    from harness.embedded.tsql.instance.stored_procedures import Procedure
    from harness.embedded.tsql.session.frame import Frame


def install(engine: Engine) -> None:
    """Make the engine run activation procedures. Call it before `engine.recover`, which may find messages waiting."""
    Instance.of(engine)
    engine.monitors.activate = lambda database, queue: activate(engine, database, queue)


class _ErrorLog(DiscardedResults):
    """Discards result sets and return values; PRINT and errors go to the error log as 9724."""

    def __init__(self, engine: Engine, procedure: str, queue: str) -> None:
        self._engine = engine
        self._procedure = procedure
        self._queue = queue

    def message(self, number: int, severity: int, state: int, text: str, procedure: str, line: int) -> None:  # noqa: PLR0917
        if number != 5701:  # a change of database is not output of the procedure
            self._engine.error_log.write(SqlServerError(9724, self._procedure, self._queue, text).text)


def activate(engine: Engine, database: Database, queue: Queue) -> Waiting[None]:
    """Run the queue's procedure; raises the error that ends the activated task."""
    instance = Instance.of(engine)
    name = queue.activation_procedure or ""
    reader = engine.monitors.current_reader()
    session = Session(engine, spid=instance.system_spid(), login="sa", database=database.name, is_user_process=False)
    if reader is not None:
        reader.spid = session.spid
    # Shown without the database, as in SQL Server's log.
    shown = name.partition("].")[2] if name.count("].") > 1 else name
    sink = _ErrorLog(engine, shown, f"{database.name}.{queue.qualified_name}")

    def returned(frame: Frame) -> None:
        if session.tx is not None:
            raise SqlServerError(8415, shown)

    try:
        procedure = instance.procedure(Tokens(name).object_name(), database)
        if procedure is None:
            raise SqlServerError(2812, name)
        session.guard = _context(instance, database, queue, procedure)
        session.is_running, session.task = True, engine.scheduler.current
        yield from calls.execute(session, procedure, ((), ()), (), sink, 1, returned)
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
