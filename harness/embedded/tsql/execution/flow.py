"""Control of flow, variables, options, errors: compiled."""

from __future__ import annotations

from typing import Any

from harness.embedded.errors import SqlServerError, UnsupportedSyntax
from harness.embedded.runtime.tasks import MILLISECOND, Delay, Waiting
from harness.embedded.sqltypes import INT, Column, SqlType
from harness.embedded.tsql.session.frame import Frame
from harness.embedded.tsql.session.raised import RaisedError
from harness.embedded.tsql.session.session_options import DEFAULTS, SETTERS
from harness.embedded.tsql.session.steps import Scope, Signal, Step, plain, waiting
from harness.embedded.tsql.storage import moments
from harness.embedded.tsql.storage.conversion import convert as convert_value
from harness.embedded.tsql.storage.sqlite import declarations
from harness.embedded.tsql.syntax import flow as nodes
from harness.embedded.tsql.translation.binding import condition, scalar, static_type
from harness.embedded.tsql.translation.fragments import NVARCHAR

LOOP_SLICE = 1000  # plain loops give way to other tasks after so many rounds
PRINT_MAX = 4000


def block(node: nodes.Block, scope: Scope) -> Step:
    return scope.block(node.body)


def if_(node: nodes.If, scope: Scope) -> Step:
    test = condition(node.condition, scope)
    then = scope.body(node.then)
    otherwise = scope.body(node.otherwise) if node.otherwise is not None else None
    then_run = then.run
    else_run = otherwise.run if otherwise is not None else None

    def run(frame: Frame) -> Any:
        holds = test(frame)
        frame.session.row_count = 0
        if holds:
            return then_run(frame)
        return None if else_run is None else else_run(frame)

    return Step(run, then.waits or (otherwise is not None and otherwise.waits))


def while_(node: nodes.While, scope: Scope) -> Step:
    test = condition(node.condition, scope)
    scope.loops += 1
    body = scope.body(node.body)
    scope.loops -= 1
    body_run, body_waits = body.run, body.waits

    def run(frame: Frame) -> Waiting[Signal | None]:
        rounds = 0
        while test(frame):
            signal: Signal | None = (yield from body_run(frame)) if body_waits else body_run(frame)
            if signal is Signal.BREAK:
                break
            if signal is Signal.RETURN:
                return signal
            rounds += 1
            if rounds % LOOP_SLICE == 0:
                yield Delay(0)
        return None

    return waiting(run)


def break_(node: nodes.Break, scope: Scope) -> Step:
    if not scope.loops:
        raise SqlServerError(135, line=node.line)
    return plain(lambda frame: Signal.BREAK)


def continue_(node: nodes.Continue, scope: Scope) -> Step:
    if not scope.loops:
        raise SqlServerError(136, line=node.line)
    return plain(lambda frame: Signal.CONTINUE)


def return_(node: nodes.Return, scope: Scope) -> Step:
    if node.value is None:
        return plain(lambda frame: Signal.RETURN)
    if not scope.in_procedure:
        raise SqlServerError(178, line=node.line)
    value = scalar(node.value, scope, INT)

    def run(frame: Frame) -> Signal:
        frame.return_value = value(frame) or 0
        return Signal.RETURN

    return plain(run)


# -- errors ------------------------------------------------------------------------------------------------------------


def try_catch(node: nodes.TryCatch, scope: Scope) -> Step:
    body = scope.block(node.body)
    scope.catches += 1
    handler = scope.block(node.handler)
    scope.catches -= 1
    body_run, body_waits, handler_run, handler_waits = body.run, body.waits, handler.run, handler.waits

    def run(frame: Frame) -> Waiting[Signal | None]:
        session = frame.session
        session.try_depth += 1
        try:
            signal: Signal | None = (yield from body_run(frame)) if body_waits else body_run(frame)
            return signal
        except SqlServerError as error:
            if error.severity >= 20:
                raise
            caught = error
        finally:
            session.try_depth -= 1
        session.caught.append(caught)
        session.error_number = caught.number
        try:
            signal = (yield from handler_run(frame)) if handler_waits else handler_run(frame)
            return signal
        finally:
            session.caught.pop()

    return waiting(run)


def throw(node: nodes.Throw, scope: Scope) -> Step:
    if not node.arguments:
        if not scope.catches:
            raise SqlServerError(10704, line=node.line)

        def again(frame: Frame) -> None:
            raise RaisedError.again(frame.session.caught[-1])

        return plain(again)
    number, text, state = (scalar(argument, scope) for argument in node.arguments)

    def run(frame: Frame) -> None:
        code = int(number(frame))
        if not 50000 <= code <= 2147483647:
            raise SqlServerError(35100, code)
        raise RaisedError(code, 16, str(text(frame)), int(state(frame)), ends_batch=True)

    return plain(run)


def raise_error(node: nodes.RaiseError, scope: Scope) -> Step:
    message, severity, state, *arguments = (scalar(argument, scope) for argument in node.arguments)

    def run(frame: Frame) -> None:
        given = message(frame)
        level, number = int(severity(frame)), 50000
        if isinstance(given, int):
            raise SqlServerError(18054, given, level, int(state(frame)))
        text = formatted(str(given), [argument(frame) for argument in arguments])[:2047]
        if level <= 10:
            frame.sink.message(0 if level == 0 else number, level, int(state(frame)), text, frame.procedure, node.line)
            return
        raise RaisedError(number, level, text, max(1, int(state(frame))), ends_batch=False)

    return plain(run)


def formatted(text: str, arguments: list[Any]) -> str:
    """RAISERROR's %d, %s, %i, %u, %x, %o, with flags and widths as in C."""
    parts, place, rest = [], 0, iter(arguments)
    while place < len(text):
        if text[place] != "%":
            parts.append(text[place])
            place += 1
            continue
        end = place + 1
        while end < len(text) and text[end] in "+-0 #123456789.*lhI":
            end += 1
        kind = text[end] if end < len(text) else ""
        flags = text[place + 1 : end].rstrip("lhI64") if kind else ""
        place = end + 1
        if kind == "%":
            parts.append("%")
        elif kind in ("d", "i", "u", "x", "X", "o", "s"):
            value = next(rest, None)
            if value is None:
                parts.append("(null)")
            elif (kind == "s") != isinstance(value, str):
                raise SqlServerError(2786, len(parts))
            else:
                parts.append(f"%{flags}{'d' if kind in 'iu' else kind}" % value)
        else:
            raise SqlServerError(2787, "%" + kind)
    return "".join(parts)


def print_(node: nodes.Print, scope: Scope) -> Step:
    text = scalar(node.text, scope, NVARCHAR)

    def run(frame: Frame) -> None:
        value = text(frame)
        frame.session.row_count = 0
        frame.sink.message(0, 0, 1, (value or " ")[:PRINT_MAX], frame.procedure, node.line)

    return plain(run)


# -- variables and options ---------------------------------------------------------------------------------------------


def declare(node: nodes.Declare, scope: Scope) -> Step:
    actions = [_declaration(declaration, scope, node.line) for declaration in node.declarations]

    def run(frame: Frame) -> None:
        for action in actions:
            action(frame)

    return plain(run)


def _declaration(declaration: nodes.Declaration, scope: Scope, line: int) -> Any:
    name = declaration.variable
    if name in scope.types or name in scope.tables:
        raise SqlServerError(134, name, line=line)
    if declaration.columns is not None:
        return _table(declaration, scope)
    assert declaration.type is not None
    scope.types[name] = declaration.type
    if declaration.value is None:
        # Without a value it is NULL when the batch begins and keeps its value in the next round of a loop.
        return lambda frame: frame.variables.setdefault(name, None)
    value = scalar(declaration.value, scope, declaration.type)

    def run(frame: Frame) -> None:
        frame.variables[name] = value(frame)

    return run


def _table(declaration: nodes.Declaration, scope: Scope) -> Any:
    name = declaration.variable
    assert declaration.columns is not None
    columns = [Column(column.name, column.type, column.nullable) for column in declaration.columns]
    scope.tables[name] = columns
    scope.defaults[name] = [column.default for column in declaration.columns]
    identity = [column.name for column in declaration.columns if column.identity]
    if identity:
        raise UnsupportedSyntax("IDENTITY in a table variable", 0)
    keys = tuple(f'UNIQUE ("{column.name}")' for column in declaration.columns if column.unique)
    declared = declarations(columns, keys)
    return lambda frame: frame.declare_table(name, declared)


def set_variable(node: nodes.SetVariable, scope: Scope) -> Step:
    name = node.variable
    if name in scope.tables:
        raise SqlServerError(137, name, line=node.line)
    value = scalar(node.value, scope, scope.type_of(name, node.line))

    def run(frame: Frame) -> None:
        frame.variables[name] = value(frame)
        frame.session.row_count = 1

    return plain(run)


def set_option(node: nodes.SetOption, scope: Scope) -> Step:
    setters = [setter for option in node.options if (setter := SETTERS.get(option)) is not None]
    before = after = DEFAULTS
    for setter in setters:
        after = setter(after, node.value)
    ends = node.options == ["NOEXEC"] and node.value == "ON"

    def run(frame: Frame) -> Signal | None:
        nonlocal before, after
        session = frame.session
        if session.options is not before:  # procedures set the same options from the same ones, thousands of times
            before = after = session.options
            for setter in setters:
                after = setter(after, node.value)
        session.options = after
        return Signal.RETURN if ends else None

    return plain(run)


def use(node: nodes.Use, scope: Scope) -> Step:
    def run(frame: Frame) -> None:
        if frame.depth and frame.procedure:
            raise SqlServerError(154, "USE database")
        frame.session.use(node.database, frame.sink)
        frame.database = frame.session.database

    return plain(run)


def wait_for_delay(node: nodes.WaitForDelay, scope: Scope) -> Step:
    moment = SqlType("time", scale=7)
    delay = scalar(node.delay, scope)

    def run(frame: Frame) -> Waiting[None]:
        given = delay(frame)
        text = convert_value(given, static_type(node.delay, scope, frame), moment)
        duration_ms = moments.ticks(f"1900-01-01 {text}") % moments.TICKS_A_DAY // 10_000
        engine = frame.instance.engine
        task = engine.scheduler.current
        engine.waits.begin(task, "WAITFOR", engine.clock.now_ns)
        try:
            yield Delay(duration_ms * MILLISECOND)
        finally:
            engine.waits.end(task, engine.clock.now_ns)

    return waiting(run)
