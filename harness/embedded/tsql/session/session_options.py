"""The options of a session. A procedure's changes end with it, so options are immutable and replaced as a whole."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace


@dataclass(frozen=True, slots=True)
class Options:
    nocount: bool = False
    xact_abort: bool = False
    implicit_transactions: bool = False
    noexec: bool = False
    fmtonly: bool = False
    lock_timeout_ms: int = -1
    isolation_level: int = 2  # of sys.dm_exec_sessions: 1 READ UNCOMMITTED, 2 READ COMMITTED, ...


DEFAULTS = Options()  # shared by all sessions, so that the result of a SET is made once

Setter = Callable[[Options, str], Options]


def _switch(name: str) -> Setter:
    return lambda options, value: replace(options, **{name: value == "ON"})


def _lock_timeout(options: Options, value: str) -> Options:
    return replace(options, lock_timeout_ms=int(value))


ISOLATION_LEVELS = {"UNCOMMITTED": 1, "READ": 2, "REPEATABLE": 3, "SERIALIZABLE": 4, "SNAPSHOT": 5}

# Other options are accepted without effect: this server has only one of the behaviours they choose from.
SETTERS: dict[str, Setter] = {
    "NOCOUNT": _switch("nocount"),
    "XACT_ABORT": _switch("xact_abort"),
    "IMPLICIT_TRANSACTIONS": _switch("implicit_transactions"),
    "NOEXEC": _switch("noexec"),
    "FMTONLY": _switch("fmtonly"),
    "LOCK_TIMEOUT": _lock_timeout,
    "TRANSACTION ISOLATION LEVEL": lambda options, value: replace(
        options, isolation_level=ISOLATION_LEVELS.get(value, 2)
    ),
}
