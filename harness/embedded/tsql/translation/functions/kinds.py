"""A function as the renderer sees it, and the usual ways to make one."""

from collections.abc import Callable
from inspect import signature
from typing import Any, NamedTuple

from harness.embedded.sqltypes import INT, SqlType
from harness.embedded.tsql.storage.sqlite import WorkNs
from harness.embedded.tsql.translation.fragments import Fragment, Getter
from harness.embedded.tsql.translation.renderer import Renderer

Arguments = list[Fragment]
Render = Callable[[Renderer, Arguments], Fragment]
RenderOver = Callable[[Renderer, Arguments, str], Fragment]  # the last is SQLite's OVER clause, or empty
ResultType = SqlType | Callable[[Arguments], SqlType | None]


class Function(NamedTuple):
    least: int  # arguments
    most: int
    render: Render
    takes_word: bool = False  # the first argument is a date part, not an expression
    takes_condition: bool = False  # the first argument is a condition
    only_windowed: bool = False
    render_over: RenderOver | None = None


def aggregate(least: int, most: int, render: RenderOver, *, only_windowed: bool = False) -> Function:
    """A function that may have an OVER clause."""

    def without_over(renderer: Renderer, arguments: Arguments) -> Fragment:
        return render(renderer, arguments, "")

    return Function(least, most, without_over, only_windowed=only_windowed, render_over=render)


Functions = dict[str, Function]


def in_sqlite(name: str, type_: ResultType) -> Render:
    """A function of SQLite."""

    def render(renderer: Renderer, arguments: Arguments) -> Fragment:
        result = type_(arguments) if callable(type_) else type_
        return Fragment(f"{name}({', '.join(argument.sql for argument in arguments)})", result)

    return render


def _arity(function: Callable[..., Any]) -> tuple[int, int]:
    """The least and the greatest number of arguments."""
    parameters = signature(function).parameters.values()
    return sum(parameter.default is parameter.empty for parameter in parameters), len(parameters)


def in_python(name: str, function: Callable[..., Any], type_: ResultType, work_ns: WorkNs | None = None) -> Function:
    """A function of Python; NULL as an argument gives NULL."""

    def guarded(*values: Any) -> Any:
        return None if None in values else function(*values)

    def render(renderer: Renderer, arguments: Arguments) -> Fragment:
        function_name = f"tsql_{name}_{len(arguments)}"
        renderer.function(function_name, len(arguments), guarded, work_ns=work_ns)
        return in_sqlite(function_name, type_)(renderer, arguments)

    return Function(*_arity(function), render)


def of_frame(name: str, type_: SqlType, getter: Getter, *, nullable: bool = True) -> Function:
    """A function without arguments that depends on the frame. It is rendered as a parameter."""

    def render(renderer: Renderer, arguments: Arguments) -> Fragment:
        return Fragment(renderer.parameter(name, getter), type_, nullable=nullable)

    return Function(0, 0, render)


def in_session(function: Callable[..., Any], type_: SqlType) -> Function:
    """A function that depends on the session: `function(frame, ...)`. With constants it is rendered as a parameter. A
    parameter that is an `int | None` gets its argument converted."""
    name = function.__name__
    is_number = [parameter.annotation == int | None for parameter in signature(function).parameters.values()][1:]

    def render(renderer: Renderer, arguments: Arguments) -> Fragment:
        arguments = [
            renderer.cast(argument, INT) if is_int else argument
            for argument, is_int in zip(arguments, is_number, strict=False)
        ]
        if all(isinstance(argument.constant, str | int | bytes) for argument in arguments):
            values = [argument.constant for argument in arguments]
            return Fragment(renderer.parameter(f"{name}{values!r}", lambda frame: function(frame, *values)), type_)
        function_name = f"session_{name}_{len(arguments)}"
        renderer.function(function_name, len(arguments), function, constant=False)
        return Fragment(f"{function_name}({', '.join(argument.sql for argument in arguments)})", type_)

    least, most = _arity(function)
    return Function(least - 1, most - 1, render)  # the frame is no argument


def without_or_with_arguments(without_arguments: Function, with_: Function) -> Function:
    """A function that means one thing without arguments and another with them."""

    def render(renderer: Renderer, arguments: Arguments) -> Fragment:
        return (with_ if arguments else without_arguments).render(renderer, arguments)

    return Function(0, with_.most, render)
