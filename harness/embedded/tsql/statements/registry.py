"""The register of statements (how each begins, its parse function, node and compile function), and that of system
procedures, which EXECUTE and RPCs call by name.

A module of this package registers what it defines; the package imports all of its modules. A statement that is not
registered is an error that names it and its line.
"""

from collections.abc import Callable, Sequence
from typing import Any

from harness.embedded.errors import SqlServerError, UnsupportedSyntax
from harness.embedded.runtime.tasks import Waiting
from harness.embedded.sqltypes import Parameter, ResultSink, SqlType
from harness.embedded.tsql.session.session import Session
from harness.embedded.tsql.session.steps import Compiler
from harness.embedded.tsql.text.ddl_events import observed
from harness.embedded.tsql.text.parser import ParseFunction, Statement

GRAMMAR: dict[tuple[str, ...], ParseFunction] = {}
COMPILERS: dict[type[Statement], Compiler] = {}


def register(words: str, parse: ParseFunction, node: type[Statement]) -> Callable[[Compiler], Compiler]:
    """Add a statement that begins with `words` (alternatives separated by |); decorates the compile function of its
    node. A grammar with several nodes registers each of them."""
    for alternative in words.split("|"):
        parse_it = observed(alternative, parse)
        assert GRAMMAR.setdefault(tuple(alternative.split()), parse_it) is parse_it

    def registered(compile_: Compiler) -> Compiler:
        COMPILERS[node] = compile_
        return compile_

    return registered


Outputs = dict[int, tuple[SqlType, Any]]  # index of an OUTPUT parameter -> its type and value
# It returns its outputs, or a status, or both.
SystemProcedure = Callable[
    [Session, Sequence[Parameter], ResultSink, int], Waiting[Outputs | int | tuple[int, Outputs]]
]

_PROCEDURES: dict[str, SystemProcedure] = {}


def register_procedure(names: str) -> Callable[[SystemProcedure], SystemProcedure]:
    """Add the decorated function as a system procedure; its names in lower case, separated by |."""

    def registered(procedure: SystemProcedure) -> SystemProcedure:
        _PROCEDURES.update(dict.fromkeys(names.split("|"), procedure))
        return procedure

    return registered


def arguments(procedure: str, names: str, parameters: Sequence[Parameter], required: int = 0) -> list[Any]:
    """The values of a call in the order of `names`, given by place or by name. One left out is None; 201 for one of the
    first `required`."""
    spelled = names.split()
    values: dict[str, Any] = {name.lower(): None for name in spelled}
    for place, parameter in enumerate(parameters):
        name = parameter.name.lower() or next(iter(list(values)[place:]), f"more than {len(values)} parameters")
        if name not in values:
            raise UnsupportedSyntax(f"{procedure} with {name}", 0)
        values[name] = parameter.value
    for name in spelled[:required]:
        if values[name.lower()] is None:
            raise SqlServerError(201, procedure, name)
    return list(values.values())


def call_system(
    session: Session, parts: tuple[str, ...], parameters: Sequence[Parameter], sink: ResultSink, depth: int
) -> Waiting[tuple[int, Outputs]]:
    """Run a system procedure; error 2812 if no such procedure exists."""
    system = _PROCEDURES.get(parts[-1].lower())
    if system is None:
        raise SqlServerError(2812, ".".join(parts))
    answer = yield from system(session, parameters, sink, depth)
    if isinstance(answer, tuple):
        return answer
    return (answer, {}) if isinstance(answer, int) else (0, answer)
