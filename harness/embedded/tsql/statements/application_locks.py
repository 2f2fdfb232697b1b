"""sp_getapplock and sp_releaseapplock: locks that an application defines.

https://learn.microsoft.com/sql/relational-databases/system-stored-procedures/sp-getapplock-transact-sql
"""

from collections.abc import Sequence
from functools import partial
from typing import Any

from harness.embedded.errors import SqlServerError
from harness.embedded.runtime.tasks import MILLISECOND, Waiting
from harness.embedded.sqltypes import INT, Parameter, ResultSink
from harness.embedded.tsql.instance.application_locks import COMPATIBLE, Resource
from harness.embedded.tsql.session.session import Session
from harness.embedded.tsql.statements.registry import arguments, register_procedure
from harness.embedded.tsql.storage.conversion import convert

CALL_ERROR = -999
NAME_LENGTH_MAX = 255


@register_procedure("sp_getapplock")
def sp_getapplock(session: Session, parameters: Sequence[Parameter], sink: ResultSink, depth: int) -> Waiting[int]:
    """`sp_getapplock [ @Resource = ] 'name' , [ @LockMode = ] 'mode' [ , [ @LockOwner = ] 'Transaction' | 'Session' ]
    [ , [ @LockTimeout = ] ms ]`

    The status is 0, 1 (after another session released it), -1 (timeout), or -999 for a lock of a transaction outside
    one. The lock ends with its owner.
    """
    names = "@Resource @LockMode @LockOwner @LockTimeout"
    resource, mode, owner, timeout = arguments("sp_getapplock", names, parameters, required=1)
    if str(mode).lower() not in COMPATIBLE:
        raise SqlServerError(1225, "sp_getapplock")
    owner_key = _owner(session, "sp_getapplock", owner)
    if owner_key is None:
        return CALL_ERROR
    timeout_ms = session.options.lock_timeout_ms if timeout is None else convert(timeout, None, INT)
    timeout_ns = None if timeout_ms < 0 else timeout_ms * MILLISECOND
    locks = session.instance.application_locks
    status = yield from locks.take(_resource(session, resource), session.spid, owner_key, str(mode).lower(), timeout_ns)
    if status >= 0 and session.tx is not None and owner_key is session.tx:
        session.tx.on_end(partial(locks.release_all, session.tx))
    return status


@register_procedure("sp_releaseapplock")
def sp_releaseapplock(session: Session, parameters: Sequence[Parameter], sink: ResultSink, depth: int) -> Waiting[int]:
    """`sp_releaseapplock [ @Resource = ] 'name' [ , [ @LockOwner = ] 'Transaction' | 'Session' ]`"""
    resource, owner = arguments("sp_releaseapplock", "@Resource @LockOwner", parameters, required=1)
    owner_key = _owner(session, "sp_releaseapplock", owner)
    if owner_key is None or not session.instance.application_locks.release(_resource(session, resource), owner_key):
        raise SqlServerError(1223, "public", resource)
    return 0
    yield  # a system procedure may wait


def _resource(session: Session, name: Any) -> Resource:
    return session.database.database_id, str(name)[:NAME_LENGTH_MAX]


def _owner(session: Session, procedure: str, owner: Any) -> object | None:
    """What a lock ends with: the session's id, or its transaction, None if there is none."""
    match str(owner or "Transaction").lower():
        case "session":
            return session.spid
        case "transaction":
            return session.tx
    raise SqlServerError(1226, procedure)
