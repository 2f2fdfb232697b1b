"""sp_getapplock: a lock that an application defines."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from harness.embedded.errors import SqlServerError, UnsupportedSyntax
from harness.embedded.runtime.tasks import MILLISECOND, Waiting
from harness.embedded.sqltypes import Parameter, ResultSink
from harness.embedded.tsql.session.session import Session
from harness.embedded.tsql.statements.registry import register_procedure

_NAMES = ("@resource", "@lockmode", "@lockowner", "@locktimeout")


def sp_getapplock(session: Session, parameters: Sequence[Parameter], sink: ResultSink, depth: int) -> Waiting[int]:
    """`sp_getapplock [ @Resource = ] 'name' , [ @LockMode = ] 'Exclusive' , [ @LockOwner = ] 'Session'
    [ , [ @LockTimeout = ] ms ]`

    The status is 0, 1 (after another session released it) or -1 (timeout). The lock ends with the session. Other modes
    and locks of transactions are refused.
    https://learn.microsoft.com/sql/relational-databases/system-stored-procedures/sp-getapplock-transact-sql
    """
    arguments: dict[str, Any] = dict.fromkeys(_NAMES)
    for place, parameter in enumerate(parameters):
        name = parameter.name.lower() or (_NAMES[place] if place < len(_NAMES) else "@dbprincipal")
        if name not in arguments:
            raise UnsupportedSyntax(f"sp_getapplock with {name}", 0)
        arguments[name] = parameter.value
    resource, mode, owner, timeout = arguments.values()
    if resource is None:
        raise SqlServerError(201, "sp_getapplock", "@Resource")
    if (str(mode).lower(), str(owner).lower()) != ("exclusive", "session"):
        raise UnsupportedSyntax("sp_getapplock with another mode than Exclusive or another owner than Session", 0)
    timeout_ms = session.options.lock_timeout_ms if timeout is None else int(timeout)
    timeout_ns = None if timeout_ms < 0 else timeout_ms * MILLISECOND
    locked = (session.database.database_id, str(resource))
    return (yield from session.instance.application_locks.take(locked, session.spid, timeout_ns))


register_procedure("sp_getapplock", sp_getapplock)
