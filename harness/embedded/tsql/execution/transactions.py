"""BEGIN, COMMIT, ROLLBACK, SAVE; and the transaction that a single statement runs in."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, TypeVar

from harness.embedded.errors import SqlServerError
from harness.embedded.runtime.tasks import Waiting
from harness.embedded.tsql.session.frame import Frame
from harness.embedded.tsql.session.steps import Scope, Step, plain, waiting
from harness.embedded.tsql.storage.tables import RowConflict
from harness.embedded.tsql.syntax import flow as nodes

if TYPE_CHECKING:
    from harness.embedded.broker.transactions import Transaction

Result = TypeVar("Result")
Work = Callable[[Frame, "Transaction"], None]


def _name(frame: Frame, name: str) -> str:
    """A transaction's name, or that in a variable."""
    return str(frame.variables[name] or "") if name.startswith("@") else name


def begin(node: nodes.BeginTransaction, scope: Scope) -> Step:
    name = node.name
    if name.startswith("@"):
        scope.type_of(name, node.line)
        return plain(lambda frame: frame.session.begin(_name(frame, name)))
    return plain(lambda frame: frame.session.begin(name))


def commit(node: nodes.CommitTransaction, scope: Scope) -> Step:
    def run(frame: Frame) -> Waiting[None] | None:
        session = frame.session
        session.row_count = 0
        tx = session.tx
        if tx is None:
            raise SqlServerError(3902)
        if session.doomed:
            raise SqlServerError(3930)
        if session.tran_count > 1:
            session.tran_count -= 1
            return None
        session.tx, session.tran_count = None, 0
        session.savepoints.clear()
        return tx.commit()

    return waiting(run)


def rollback(node: nodes.RollbackTransaction, scope: Scope) -> Step:
    def run(frame: Frame) -> None:
        session = frame.session
        session.row_count = 0
        if session.tx is None:
            raise SqlServerError(3903)
        name = _name(frame, node.name)
        if name and name.lower() in session.savepoints:
            if session.doomed:
                raise SqlServerError(3931)
            mark = session.savepoints[name.lower()]
            session.tx.rollback_to(mark)
            session.savepoints = {each: at for each, at in session.savepoints.items() if at <= mark}
        elif name and name.lower() != session.transaction_name.lower():
            raise SqlServerError(6401, name)
        else:
            session.rollback()

    return plain(run)


def save(node: nodes.SaveTransaction, scope: Scope) -> Step:
    def run(frame: Frame) -> None:
        session = frame.session
        if session.tx is None:
            raise SqlServerError(628)
        if session.doomed:
            raise SqlServerError(3931)
        session.savepoints[_name(frame, node.name).lower()] = session.tx.mark()

    return plain(run)


def writing(work: Work) -> Step:
    """A step that changes something: in the open transaction, or in one of its own. If it fails it changed nothing."""

    def run(frame: Frame) -> Waiting[None]:
        session = frame.session
        tx = session.writable()
        is_own = tx is None
        if tx is None:
            tx = session.new_transaction()
        mark = tx.mark()
        try:
            while True:
                try:
                    work(frame, tx)
                    break
                except RowConflict as conflict:  # another transaction has changed the rows; nothing is done
                    lock = conflict.lock
                yield from lock.acquire(tx, frame.instance.engine.waits)
        except BaseException as error:
            if is_own:
                tx.rollback()
            elif isinstance(error, SqlServerError):
                tx.rollback_to(mark)
            raise
        if is_own:
            yield from tx.commit()

    return waiting(run)


def waiting_work(
    work: Callable[[Frame, Transaction], Waiting[Result]], take: Callable[[Frame, Result], object] | None = None
) -> Step:
    """As `writing`, for work that can wait: what `work` returns is waited for here, and `take` has its result."""

    def run(frame: Frame) -> Waiting[None]:
        session = frame.session
        tx = session.writable()
        is_own = tx is None
        if tx is None:
            tx = session.new_transaction()
        mark = tx.mark()
        try:
            result = yield from work(frame, tx)
            if take is not None:
                take(frame, result)
        except BaseException as error:
            if is_own and tx.active:
                tx.rollback()
            elif isinstance(error, SqlServerError) and tx.active:
                tx.rollback_to(mark)
            raise
        if is_own:
            yield from tx.commit()

    return waiting(run)
