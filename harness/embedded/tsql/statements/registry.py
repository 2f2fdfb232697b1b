"""The register of statements: how each begins, its parse function, node, permission check and compile function.

A module of this package that defines a statement calls `register` for it; the package imports all of its modules. A
statement that is not registered is an error that names it and its line.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from harness.embedded.tsql.permissions.guard import Guard
from harness.embedded.tsql.session.frame import Frame
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
