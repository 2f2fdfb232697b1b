"""sp_getapplock and sp_releaseapplock: locks that an application defines.

https://learn.microsoft.com/sql/relational-databases/system-stored-procedures/sp-getapplock-transact-sql
"""

from collections.abc import Sequence
from functools import partial
from typing import Any

from harness.embedded.errors import CATALOGUE, SqlServerError
from harness.embedded.runtime.tasks import MILLISECOND, Waiting
from harness.embedded.sqltypes import INT, Parameter, ResultSink
from harness.embedded.tsql.instance.application_locks import COMPATIBLE, Resource
from harness.embedded.tsql.session.session import Session
from harness.embedded.tsql.statements.registry import arguments, register_procedure
from harness.embedded.tsql.storage.conversion import convert

CALL_ERROR = -999
_EXTENDED = "xp_userlock"
NAME_LENGTH_MAX = 255


@register_procedure("sp_getapplock")
def sp_getapplock(session: Session, parameters: Sequence[Parameter], sink: ResultSink, depth: int) -> Waiting[int]:
    """`sp_getapplock [ @Resource = ] 'name' , [ @LockMode = ] 'mode' [ , [ @LockOwner = ] 'Transaction' | 'Session' ]
    [ , [ @LockTimeout = ] ms ]`

    The status is 0, 1 (after another session released it), -1 (timeout), or -999 for a call that is wrong. The lock
    ends with its owner.
    """
    names = "@Resource @LockMode @LockOwner @LockTimeout"
    resource, mode, owner, timeout = arguments("sp_getapplock", names, parameters)
    if str(mode).lower() not in COMPATIBLE:
        return _tell(sink, "sp_getapplock", 15625, mode, "@LockMode")
    if not _is_owner(owner):
        return _tell(sink, "sp_getapplock", 15625, owner, "@LockOwner")
    owner_key = _owner(session, owner)
    if owner_key is None:
        return _tell(sink, "sp_getapplock", 15626)
    timeout_ms = session.options.lock_timeout_ms if timeout is None else convert(timeout, None, INT)
    if timeout_ms < -1:
        return _refuse(session, sink, SqlServerError(1227, _EXTENDED))
    if resource is None:
        return _refuse(session, sink, SqlServerError(1224, _EXTENDED))
    timeout_ns = None if timeout_ms < 0 else timeout_ms * MILLISECOND
    locks = session.instance.application_locks
    status = yield from locks.take(_resource(session, resource), session.spid, owner_key, str(mode).lower(), timeout_ns)
    if status >= 0 and session.tx is not None and owner_key is session.tx:
        session.tx.on_end(partial(locks.release_all, session.tx))
    return status


@register_procedure("sp_releaseapplock")
def sp_releaseapplock(session: Session, parameters: Sequence[Parameter], sink: ResultSink, depth: int) -> Waiting[int]:
    """`sp_releaseapplock [ @Resource = ] 'name' [ , [ @LockOwner = ] 'Transaction' | 'Session' ]`"""
    resource, owner = arguments("sp_releaseapplock", "@Resource @LockOwner", parameters)
    if not _is_owner(owner):
        return _tell(sink, "sp_releaseapplock", 15625, owner, "@LockOwner")
    owner_key = _owner(session, owner)
    if owner_key is None:
        return _refuse(session, sink, SqlServerError(3918))
    if resource is None:
        return _refuse(session, sink, SqlServerError(1224, _EXTENDED))
    if not session.instance.application_locks.release(_resource(session, resource), owner_key):
        return _refuse(session, sink, SqlServerError(1223, "public", resource))
    return 0
    yield  # a system procedure may wait


def _tell(sink: ResultSink, procedure: str, number: int, *arguments: object) -> int:
    """Send a message of the procedure itself, which ends with it."""
    sink.message(number, 0, 1, CATALOGUE[number].text % arguments, procedure, 1)
    return CALL_ERROR


def _refuse(session: Session, sink: ResultSink, error: SqlServerError) -> int:
    """Report an error of the extended procedure that the procedures call: outside TRY and without XACT_ABORT the batch
    goes on and gets the status. As others have measured: https://github.com/mirek/msduck, docs/gaps-applock.md."""
    error.procedure = _EXTENDED
    if session.try_depth or session.options.xact_abort:
        raise error
    session.report(error, sink)
    return CALL_ERROR


def _resource(session: Session, name: Any) -> Resource:
    return session.database.database_id, str(name)[:NAME_LENGTH_MAX]


def _is_owner(owner: Any) -> bool:
    return str(owner or "Transaction").lower() in ("session", "transaction")


def _owner(session: Session, owner: Any) -> object | None:
    """What a lock ends with: the session's id, or its transaction, None if there is none."""
    return session.spid if str(owner).lower() == "session" else session.tx
