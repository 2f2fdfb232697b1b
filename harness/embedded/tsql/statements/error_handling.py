"""Errors and messages: TRY ... CATCH, THROW, RAISERROR, PRINT."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from harness.embedded.errors import RaisedError, SqlServerError
from harness.embedded.runtime.tasks import Waiting
from harness.embedded.tsql.session.frame import Frame
from harness.embedded.tsql.session.steps import Scope, Signal, Step, plain, waiting
from harness.embedded.tsql.statements.registry import register
from harness.embedded.tsql.text.parser import Expression, Parser, Statement, at_statement_end
from harness.embedded.tsql.translation.binding import scalar
from harness.embedded.tsql.translation.fragments import NVARCHAR

PRINT_MAX = 4000


@dataclass(frozen=True, slots=True)
class TryCatch(Statement):
    body: list[Statement]
    handler: list[Statement]


def parse_try(parser: Parser) -> Statement:
    """`BEGIN TRY { statement } END TRY BEGIN CATCH [ { statement } ] END CATCH`"""
    line = parser.line
    body = parser.block("TRY")
    parser.tokens.accept(";")
    parser.tokens.expect("BEGIN", "CATCH")
    while parser.tokens.accept(";"):
        pass
    if parser.tokens.accept("END", "CATCH"):
        return TryCatch(line, body, [])
    return TryCatch(line, body, parser.block("CATCH"))


def compile_try(node: TryCatch, scope: Scope) -> Step:
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


register("BEGIN TRY", parse_try, TryCatch, compile_try)


@dataclass(frozen=True, slots=True)
class Throw(Statement):
    """`arguments`: number, text, state; empty to throw the caught error again."""

    arguments: list[Expression]


def parse_throw(parser: Parser) -> Statement:
    """`THROW [ number, message, state ]`"""
    if at_statement_end(parser):
        return Throw(parser.line, [])
    arguments = parser.tokens.comma_separated(lambda: parser.expression(","))
    if len(arguments) != 3:
        parser.tokens.fail()
    return Throw(parser.line, arguments)


def compile_throw(node: Throw, scope: Scope) -> Step:
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


register("THROW", parse_throw, Throw, compile_throw)


@dataclass(frozen=True, slots=True)
class RaiseError(Statement):
    arguments: list[Expression]


def parse_raiserror(parser: Parser) -> Statement:
    """`RAISERROR ( message | number, severity, state [, argument ]... ) [ WITH { LOG | NOWAIT } ]`"""
    tokens = parser.tokens
    tokens.expect("(")
    arguments = tokens.comma_separated(lambda: parser.expression(","))
    tokens.expect(")")
    if len(arguments) < 3:
        tokens.fail()
    if tokens.accept("WITH"):
        tokens.comma_separated(lambda: tokens.choose("LOG", "NOWAIT"))
    return RaiseError(parser.line, arguments)


def compile_raiserror(node: RaiseError, scope: Scope) -> Step:
    message, severity, state, *arguments = (scalar(argument, scope) for argument in node.arguments)

    def run(frame: Frame) -> None:
        given = message(frame)
        level, number = int(severity(frame)), 50000
        if isinstance(given, int):
            raise SqlServerError(18054, given, level, int(state(frame)))
        text = _formatted(str(given), [argument(frame) for argument in arguments])[:2047]
        if level <= 10:
            frame.sink.message(0 if level == 0 else number, level, int(state(frame)), text, frame.procedure, node.line)
            return
        raise RaisedError(number, level, text, max(1, int(state(frame))), ends_batch=False)

    return plain(run)


def _formatted(text: str, arguments: list[Any]) -> str:
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


register("RAISERROR", parse_raiserror, RaiseError, compile_raiserror)


@dataclass(frozen=True, slots=True)
class Print(Statement):
    text: Expression


def parse_print(parser: Parser) -> Statement:
    """`PRINT expression`"""
    return Print(parser.line, parser.expression())


def compile_print(node: Print, scope: Scope) -> Step:
    text = scalar(node.text, scope, NVARCHAR)

    def run(frame: Frame) -> None:
        value = text(frame)
        frame.session.row_count = 0
        frame.sink.message(0, 0, 1, (value or " ")[:PRINT_MAX], frame.procedure, node.line)

    return plain(run)


register("PRINT", parse_print, Print, compile_print)
