"""The register of statements (how each begins, its parse function, node, permission check and compile function), and
that of system procedures, which EXECUTE and RPCs call by name.

A module of this package registers what it defines; the package imports all of its modules. A statement that is not
registered is an error that names it and its line.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from harness.embedded.errors import SqlServerError
from harness.embedded.runtime.tasks import Waiting
from harness.embedded.sqltypes import SqlType
from harness.embedded.tsql.permissions.guard import Guard
from harness.embedded.tsql.session.frame import Frame
from harness.embedded.tsql.session.results import Parameter, ResultSink
from harness.embedded.tsql.session.session import Session
from harness.embedded.tsql.session.steps import Compiler, Scope, Step
from harness.embedded.tsql.text.parser import ParseFunction, Statement

Check = Callable[[Any, Frame, Guard], None]  # raises an error if the caller, who is not sysadmin, lacks a right

GRAMMAR: dict[tuple[str, ...], ParseFunction] = {}
COMPILERS: dict[type[Statement], Compiler] = {}


def register(
    words: str, parse: ParseFunction, node: type[Statement], compile_: Compiler, *, check: Check | None = None
) -> None:
    """Add a statement that begins with `words` (alternatives separated by |). A grammar with several nodes registers
    each of them."""
    for alternative in words.split("|"):
        assert GRAMMAR.setdefault(tuple(alternative.split()), parse) is parse
    COMPILERS[node] = compile_ if check is None else _checked(check, compile_)


def _checked(check: Check, compile_: Compiler) -> Compiler:
    def compiled(node: Statement, scope: Scope) -> Step:
        step = compile_(node, scope)
        inner = step.run

        def run(frame: Frame) -> Any:
            guard = frame.session.guard
            if guard is not None:
                check(node, frame, guard)
            return inner(frame)

        return Step(run, step.waits, step.line)

    return compiled


Outputs = dict[int, tuple[SqlType, Any]]  # index of an OUTPUT parameter -> its type and value
SystemProcedure = Callable[[Session, Sequence[Parameter], ResultSink, int], Waiting[Outputs]]

_PROCEDURES: dict[str, SystemProcedure] = {}


def register_procedure(name: str, procedure: SystemProcedure) -> None:
    """Add a system procedure; its name in lower case."""
    _PROCEDURES[name] = procedure


def call_system(
    session: Session, parts: tuple[str, ...], parameters: Sequence[Parameter], sink: ResultSink, depth: int
) -> Waiting[tuple[int, Outputs]]:
    """Run a system procedure; error 2812 if no such procedure exists."""
    system = _PROCEDURES.get(parts[-1].lower())
    if system is None:
        raise SqlServerError(2812, ".".join(parts))
    outputs = yield from system(session, parameters, sink, depth)
    return 0, outputs
