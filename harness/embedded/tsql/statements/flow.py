"""Control of flow: BEGIN ... END, IF, WHILE, BREAK, CONTINUE, RETURN, WAITFOR DELAY."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from harness.embedded.errors import SqlServerError
from harness.embedded.runtime.tasks import MILLISECOND, Delay, Waiting
from harness.embedded.sqltypes import INT, SqlType
from harness.embedded.tsql.session.frame import Frame
from harness.embedded.tsql.session.steps import Scope, Signal, Step, plain, waiting
from harness.embedded.tsql.statements.registry import register
from harness.embedded.tsql.storage.conversion import TICKS_A_DAY, ticks
from harness.embedded.tsql.storage.conversion import convert as convert_value
from harness.embedded.tsql.text.parser import Expression, Parser, Statement, at_statement_end
from harness.embedded.tsql.translation.binding import condition, scalar, static_type

LOOP_SLICE = 1000  # rounds after which a loop that never waits yields to other tasks


@dataclass(frozen=True, slots=True)
class Block(Statement):
    body: list[Statement]


def parse_block(parser: Parser) -> Statement:
    """`BEGIN { statement } END`"""
    return Block(parser.line, parser.block())


def compile_block(node: Block, scope: Scope) -> Step:
    return scope.block(node.body)


register("BEGIN", parse_block, Block, compile_block)


@dataclass(frozen=True, slots=True)
class If(Statement):
    condition: Expression
    then: Statement
    otherwise: Statement | None


def parse_if(parser: Parser) -> Statement:
    """`IF condition statement [ ELSE statement ]`"""
    line = parser.line
    condition = parser.expression()
    then = parser.statement()
    otherwise = parser.statement() if parser.tokens.accept("ELSE") else None
    return If(line, condition, then, otherwise)


def compile_if(node: If, scope: Scope) -> Step:
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


register("IF", parse_if, If, compile_if)


@dataclass(frozen=True, slots=True)
class While(Statement):
    condition: Expression
    body: Statement


def parse_while(parser: Parser) -> Statement:
    """`WHILE condition statement`"""
    line = parser.line
    condition = parser.expression()
    return While(line, condition, parser.statement())


def compile_while(node: While, scope: Scope) -> Step:
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


register("WHILE", parse_while, While, compile_while)


@dataclass(frozen=True, slots=True)
class Break(Statement):
    pass


def parse_break(parser: Parser) -> Statement:
    """`BREAK`"""
    return Break(parser.line)


def compile_break(node: Break, scope: Scope) -> Step:
    if not scope.loops:
        raise SqlServerError(135, line=node.line)
    return plain(lambda frame: Signal.BREAK)


register("BREAK", parse_break, Break, compile_break)


@dataclass(frozen=True, slots=True)
class Continue(Statement):
    pass


def parse_continue(parser: Parser) -> Statement:
    """`CONTINUE`"""
    return Continue(parser.line)


def compile_continue(node: Continue, scope: Scope) -> Step:
    if not scope.loops:
        raise SqlServerError(136, line=node.line)
    return plain(lambda frame: Signal.CONTINUE)


register("CONTINUE", parse_continue, Continue, compile_continue)


@dataclass(frozen=True, slots=True)
class Return(Statement):
    value: Expression | None


def parse_return(parser: Parser) -> Statement:
    """`RETURN [ integer_expression ]`"""
    return Return(parser.line, None if at_statement_end(parser) else parser.expression())


def compile_return(node: Return, scope: Scope) -> Step:
    if node.value is None:
        return plain(lambda frame: Signal.RETURN)
    if not scope.in_procedure:
        raise SqlServerError(178, line=node.line)
    value = scalar(node.value, scope, INT)

    def run(frame: Frame) -> Signal:
        frame.return_value = value(frame) or 0
        return Signal.RETURN

    return plain(run)


register("RETURN", parse_return, Return, compile_return)


@dataclass(frozen=True, slots=True)
class WaitForDelay(Statement):
    delay: Expression


def parse_waitfor_delay(parser: Parser) -> Statement:
    """`WAITFOR DELAY 'hh:mm:ss[.mmm]' | @v`"""
    return WaitForDelay(parser.line, parser.expression())


def compile_wait_for_delay(node: WaitForDelay, scope: Scope) -> Step:
    moment = SqlType("time", scale=7)
    delay = scalar(node.delay, scope)

    def run(frame: Frame) -> Waiting[None]:
        given = delay(frame)
        text = convert_value(given, static_type(node.delay, scope, frame), moment)
        duration_ms = ticks(f"1900-01-01 {text}") % TICKS_A_DAY // 10_000
        engine = frame.instance.engine
        task = engine.scheduler.current
        engine.waits.begin(task, "WAITFOR", engine.clock.now_ns)
        try:
            yield Delay(duration_ms * MILLISECOND)
        finally:
            engine.waits.end(task, engine.clock.now_ns)

    return waiting(run)


register("WAITFOR DELAY", parse_waitfor_delay, WaitForDelay, compile_wait_for_delay)
