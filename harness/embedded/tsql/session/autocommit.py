"""The transaction of a single statement: the open one, or one of its own that is committed at the end."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, TypeVar

from harness.embedded.errors import SqlServerError
from harness.embedded.runtime.tasks import Waiting
from harness.embedded.tsql.session.frame import Frame
from harness.embedded.tsql.session.steps import Step, waiting
from harness.embedded.tsql.storage.tables import RowConflict

if TYPE_CHECKING:
    from harness.embedded.broker.transactions import Transaction

Result = TypeVar("Result")
Work = Callable[[Frame, "Transaction"], None]


def writing(work: Work) -> Step:
    """A step that changes data in the open transaction or in its own. If it fails, all its changes are undone."""

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
                except RowConflict as conflict:  # another transaction has changed the rows; nothing is done yet
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
    """Like `writing`, for work that can wait; `take` gets its result."""

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
