"""Control of flow: BEGIN ... END, IF, WHILE, BREAK, CONTINUE, RETURN, WAITFOR DELAY; TRY ... CATCH, THROW, RAISERROR,
PRINT."""

import re
from dataclasses import dataclass
from typing import Any

from harness.embedded.errors import CATALOGUE, FATAL, ErrorText, RaisedError, SqlServerError, UnsupportedSyntax, let_go
from harness.embedded.runtime.tasks import MILLISECOND, Delay, Waiting
from harness.embedded.sqltypes import INT, MAX, SqlType
from harness.embedded.tsql.session.session import SCOPE_ERRORS, Frame
from harness.embedded.tsql.session.steps import Scope, Signal, Step, plain, waiting
from harness.embedded.tsql.statements.registry import register
from harness.embedded.tsql.storage.conversion import ANSI, INTEGER_RANGES, UNICODE
from harness.embedded.tsql.text.parser import (
    Expression,
    Parser,
    Statement,
    at_statement_end,
    parse_constant,
    parse_literal,
)
from harness.embedded.tsql.translation.binding import condition, scalar, static_type
from harness.embedded.tsql.translation.fragments import NVARCHAR, VARCHAR

INT_MIN, INT_MAX = INTEGER_RANGES["int"]
LOOP_SLICE = 1000  # rounds after which a loop that never waits lets others go on
MESSAGE_MAX = 2047  # characters of an error's text
OWN_SEVERITY = -1  # the one of the message in sys.messages
RAISED = 50000  # the number of an error that RAISERROR makes of a text
NUMBER_MIN = 13000  # of a message that RAISERROR finds by its number
# Names that are not found when a statement is compiled
NAME_ERRORS = SCOPE_ERRORS - {916}
SEVERITY_MAX = 25
ARGUMENTS_MAX = 20
NULL_STATUS = 282  # RETURN NULL


@dataclass(frozen=True, slots=True)
class Block(Statement):
    describes = True
    body: list[Statement]


def parse_block(parser: Parser) -> Statement:
    """`BEGIN { statement } END`"""
    return Block(parser.line, parser.block())


@register("BEGIN", parse_block, Block)
def compile_block(node: Block, scope: Scope) -> Step:
    return scope.block(node.body)


@dataclass(frozen=True, slots=True)
class If(Statement):
    describes = True
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


@register("IF", parse_if, If)
def compile_if(node: If, scope: Scope) -> Step:
    test = condition(node.condition, scope)
    then = scope.body(node.then)
    otherwise = scope.body(node.otherwise) if node.otherwise is not None else None
    then_run = then.run
    else_run = otherwise.run if otherwise is not None else None

    def run(frame: Frame) -> Any:
        if frame.session.options.fmtonly:
            return describe(frame)
        holds = test(frame)
        session = frame.session
        session.row_count = session.error_number = 0  # "conditional statements, such as IF, reset @@ERROR"
        if holds:
            return then_run(frame)
        return None if else_run is None else else_run(frame)

    def describe(frame: Frame) -> Waiting[None]:
        yield from then_run(frame)
        if else_run is not None:
            yield from else_run(frame)

    return Step(run, keeps_error=True)


@dataclass(frozen=True, slots=True)
class While(Statement):
    describes = True
    condition: Expression
    body: Statement


def parse_while(parser: Parser) -> Statement:
    """`WHILE condition statement`"""
    line = parser.line
    condition = parser.expression()
    return While(line, condition, parser.statement())


@register("WHILE", parse_while, While)
def compile_while(node: While, scope: Scope) -> Step:
    test = condition(node.condition, scope)
    scope.loops += 1
    body = scope.body(node.body)
    scope.loops -= 1
    body_run = body.run

    def run(frame: Frame) -> Waiting[Signal | None]:
        rounds = 0
        session = frame.session
        while session.options.fmtonly or test(frame):
            session.row_count = session.error_number = 0
            signal: Signal | None = yield from body_run(frame)
            if signal is Signal.BREAK or session.options.fmtonly:
                break
            if signal is Signal.RETURN:
                return signal
            rounds += 1
            if rounds % LOOP_SLICE == 0:
                yield Delay(0)
        session.row_count = session.error_number = 0
        return None

    return waiting(run)


@dataclass(frozen=True, slots=True)
class LeaveRound(Statement):
    """`BREAK`, `CONTINUE`"""

    signal: Signal


def parse_leave(parser: Parser) -> Statement:
    return LeaveRound(parser.line, Signal.BREAK if parser.tokens.word(-1) == "BREAK" else Signal.CONTINUE)


@register("BREAK|CONTINUE", parse_leave, LeaveRound)
def compile_leave(node: LeaveRound, scope: Scope) -> Step:
    if not scope.loops:
        raise SqlServerError(135 if node.signal is Signal.BREAK else 136, line=node.line)
    return plain(lambda frame: node.signal)


@dataclass(frozen=True, slots=True)
class Return(Statement):
    value: Expression | None


def parse_return(parser: Parser) -> Statement:
    """`RETURN [ integer_expression ]`"""
    return Return(parser.line, None if at_statement_end(parser) else parser.expression())


@register("RETURN", parse_return, Return)
def compile_return(node: Return, scope: Scope) -> Step:
    if node.value is None:

        def leave(frame: Frame) -> Signal:
            frame.session.row_count = 0
            return Signal.RETURN

        return plain(leave)
    if scope.returns is not None:
        returned = scalar(node.value, scope, scope.returns)

        def end(frame: Frame) -> Signal:
            frame.return_value = returned(frame)
            return Signal.RETURN

        return plain(end)
    if not scope.in_procedure:
        raise SqlServerError(178, line=node.line)
    value = scalar(node.value, scope, INT)

    def run(frame: Frame) -> Signal:
        status = value(frame)
        if status is None:
            name = frame.procedure.rpartition(".")[2]
            frame.sink.message(NULL_STATUS, 0, 1, CATALOGUE[NULL_STATUS].text % name, frame.procedure, node.line)
        frame.return_value = status or 0
        return Signal.RETURN

    return plain(run)


_DELAY = re.compile(
    r"\s*(?:(?P<h>\d\d?):(?P<m>\d\d?)(?::(?P<s>\d\d?)(?:\.(?P<fraction>\d{1,3})|:(?P<ms>\d{1,3}))?)?(?P<half>\s+[AP]M)?)?\s*",
    re.IGNORECASE,
)
FOR_EVER_S = 10**9


def _delay_ms(text: str) -> int | None:
    """The milliseconds of `hh:mm[:ss[.mmm]]`, 0 of an empty text; None if it is no such text."""
    if (match := _DELAY.fullmatch(text)) is None:
        return None
    hours, minutes, seconds = (int(match[part] or 0) for part in "hms")
    if (half := (match["half"] or "").strip().upper()) and 1 <= hours <= 12:
        hours = hours % 12 + 12 * (half == "PM")
    if hours > 23 or minutes > 59 or seconds > 59:
        return None
    return ((hours * 60 + minutes) * 60 + seconds) * 1000 + int(match["ms"] or (match["fraction"] or "").ljust(3, "0"))


@dataclass(frozen=True, slots=True)
class WaitForDelay(Statement):
    delay_ms: int
    variable: str  # "" for a constant


def parse_waitfor_delay(parser: Parser) -> Statement:
    """`WAITFOR DELAY 'hh:mm[:ss[.mmm]]' | @v`"""
    tokens, line = parser.tokens, parser.line
    if tokens.at_variable():
        return WaitForDelay(line, 0, tokens.variable())
    text = tokens.string()
    if (delay_ms := _delay_ms(text)) is None:
        raise SqlServerError(148, text, line=line)
    return WaitForDelay(line, delay_ms, "")


def _variable_ms(value: Any, type_: SqlType) -> int:
    """The delay that a variable says: a text, the time of a datetime, or a number of seconds; the error is that which
    others have measured on SQL Server 2022."""
    if type_.name in ("int", "smallint"):
        return (FOR_EVER_S if value < 0 else value) * 1000
    if type_.name not in {"datetime"} | UNICODE | ANSI:
        raise SqlServerError(9815, type_.name, state=0)
    delay_ms = None if type_.length == MAX else _delay_ms(value[11:] if type_.name == "datetime" else value)
    if delay_ms is None:
        raise SqlServerError(241)
    return delay_ms


@register("WAITFOR DELAY", parse_waitfor_delay, WaitForDelay)
def compile_wait_for_delay(node: WaitForDelay, scope: Scope) -> Step:
    type_ = scope.type_of(node.variable, node.line) if node.variable else None

    def run(frame: Frame) -> Waiting[None]:
        value = frame.variables[node.variable] if type_ is not None else None
        delay_ms = node.delay_ms if type_ is None or value is None else _variable_ms(value, type_)
        engine = frame.instance.engine
        task = engine.scheduler.current
        engine.waits.begin(task, "WAITFOR", engine.clock.now_ns)
        try:
            yield Delay(delay_ms * MILLISECOND)
        finally:
            engine.waits.end(task, engine.clock.now_ns)

    return waiting(run)


# -- errors and messages -----------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class TryCatch(Statement):
    describes = True
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


@register("BEGIN TRY", parse_try, TryCatch)
def compile_try(node: TryCatch, scope: Scope) -> Step:
    body = scope.block(node.body)
    scope.catches += 1
    handler = scope.block(node.handler)
    scope.catches -= 1
    body_run, handler_run = body.run, handler.run

    def run(frame: Frame) -> Waiting[Signal | None]:
        session = frame.session
        session.try_depth += 1
        try:
            signal: Signal | None = yield from body_run(frame)
            return signal
        except SqlServerError as error:
            # "Errors that occur during statement-level recompilation, such as object name resolution errors", are not
            # handled at the level where they occur.
            is_name_error = error.number in NAME_ERRORS and not isinstance(error, RaisedError)
            if error.severity >= FATAL or (is_name_error and error.frame is frame):
                raise
            let_go(error)
            caught = error
        finally:
            session.try_depth -= 1
        session.caught.append(caught)
        try:
            signal = yield from handler_run(frame)
            return signal
        finally:
            session.caught.pop()

    return Step(run, keeps_error=True)


@dataclass(frozen=True, slots=True)
class Throw(Statement):
    """`arguments`: number, text, state; empty to throw the caught error again."""

    arguments: list[Expression]


def parse_throw(parser: Parser) -> Statement:
    """`THROW [ number, message, state ]`"""
    if at_statement_end(parser):
        return Throw(parser.line, [])
    number = parse_literal(parser)
    parser.tokens.expect(",")
    text = parse_literal(parser, is_text=True)
    parser.tokens.expect(",")
    return Throw(parser.line, [number, text, parse_literal(parser)])


@register("THROW", parse_throw, Throw)
def compile_throw(node: Throw, scope: Scope) -> Step:
    if not node.arguments:
        if not scope.catches:
            raise SqlServerError(10704, line=node.line)

        def again(frame: Frame) -> None:
            raise RaisedError.again(frame.session.caught[-1])

        return plain(again)
    types = (INT, NVARCHAR, INT)
    number, text, state = (
        scalar(argument, scope, type_) for argument, type_ in zip(node.arguments, types, strict=True)
    )

    def run(frame: Frame) -> None:
        code = number(frame) or 0
        if code < 50000:
            raise SqlServerError(35100, code, state=10)
        at = state(frame) or 0
        if at < 0:
            raise SqlServerError(2756, at)
        raise RaisedError(code, 16, _shortened(text(frame) or ""), at % 256, ends_batch=True)

    return plain(run)


@dataclass(frozen=True, slots=True)
class RaiseError(Statement):
    arguments: list[Expression]
    with_log: bool
    sets_error: bool


def parse_raiserror(parser: Parser) -> Statement:
    """`RAISERROR ( message | number, severity, state [, argument ]... ) [ WITH { LOG | NOWAIT | SETERROR } [,...] ]`"""
    tokens = parser.tokens
    tokens.expect("(")
    arguments = tokens.comma_separated(lambda: parse_constant(parser, ",", ")"))
    tokens.expect(")")
    if len(arguments) < 3:
        tokens.fail()
    options = []
    if tokens.accept("WITH"):
        options = tokens.comma_separated(lambda: tokens.choose("LOG", "NOWAIT", "SETERROR"))
    return RaiseError(parser.line, arguments, "LOG" in options, "SETERROR" in options)


@register("RAISERROR", parse_raiserror, RaiseError)
def compile_raiserror(node: RaiseError, scope: Scope) -> Step:
    """ "Severity levels less than 0 are interpreted as 0. Severity levels greater than 25 are interpreted as 25." "If a
    fatal severity level is encountered, the client connection is terminated after receiving the message." """
    message = scalar(node.arguments[0], scope)
    severity, state = (scalar(argument, scope, INT) for argument in node.arguments[1:3])
    arguments = [scalar(argument, scope) for argument in node.arguments[3:]]
    if len(arguments) > ARGUMENTS_MAX:
        raise SqlServerError(2747, ARGUMENTS_MAX, line=node.line)

    def run(frame: Frame) -> None:
        message_text, number = message(frame), RAISED
        severity_value = severity(frame) or 0
        level = min(max(severity_value, 0), SEVERITY_MAX)
        state_value = state(frame) or 0
        at = 1 if state_value < 0 else state_value % 256
        values = [argument(frame) for argument in arguments]
        if isinstance(message_text, int):
            number, (own_level, message_text) = message_text, _message(message_text, level, at, node.line)
            level = own_level if severity_value == OWN_SEVERITY else level
            # Here all placeholders of these messages are for text.
            values = [None if value is None else str(value) for value in values]
        text = _shortened(_formatted(" " if message_text is None else str(message_text), values))
        frame.session.row_count = 0
        if node.with_log:
            _log(frame, number, level, at, text)
        elif level > 18:
            raise SqlServerError(2754)
        if level <= 10:
            if node.sets_error:
                raise UnsupportedSyntax("RAISERROR WITH SETERROR of a severity up to 10", node.line)
            frame.sink.message(0 if level == 0 else number, level, at, text, frame.procedure, node.line)
            return
        if level >= FATAL and frame.session.disconnect is not None:
            frame.session.report(SqlServerError(2745, frame.session.spid, number, level), frame.sink)
        raise RaisedError(number, level, text, at, ends_batch=level >= FATAL)

    return plain(run)


def _message(number: int, severity: int, state: int, line: int) -> ErrorText:
    """A message of sys.messages. Nobody can add one here, so it is one of the system's, up to 50,000."""
    if number == RAISED or not NUMBER_MIN <= number <= INT_MAX:
        raise SqlServerError(2732, number, NUMBER_MIN, INT_MAX)
    if number > RAISED:
        raise SqlServerError(18054, number, severity, state)
    if number not in CATALOGUE:
        raise UnsupportedSyntax(f"message {number}, which RAISERROR names", line)
    return CATALOGUE[number]


def _log(frame: Frame, number: int, severity: int, state: int, text: str) -> None:
    """RAISERROR WITH LOG: two entries of the error log, as SQL Server writes them."""
    session = frame.session
    if session.guard is not None and not session.guard.allows_on_server("ALTER TRACE"):
        raise SqlServerError(2754) if severity > 18 else SqlServerError(2778, "WITH LOG", "RAISERROR")
    error_log = session.engine.error_log
    process_info = f"spid{session.spid}" if session.is_user_process else f"spid{session.spid}s"
    error_log.write(f"Error: {number}, Severity: {severity}, State: {state}.", process_info)
    error_log.write(text, process_info)


def _shortened(text: str) -> str:
    """ "Only the first 2,044 characters are displayed and an ellipsis is added" where there are more than 2,047."""
    return text if len(text) <= MESSAGE_MAX else text[: MESSAGE_MAX - 3] + "..."


FLAGS_MAX = 30  # characters between % and its letter
_FLAG_CHARACTERS = frozenset("+-0 #123456789.*lhI")
_FLAGS = re.compile(r"[-+ #0]*[0-9]{0,3}(?:\.[0-9]{0,3})?")  # a width of thousands fills no message
_SIZES = {"h": 16, "l": 32, "I64": 64}  # bits
_SIZE = re.compile("(?:h|l|I64)$")


def _is_long(value: str | int) -> bool:
    """Whether it is an integer that needs I64."""
    return isinstance(value, int) and not INT_MIN <= value <= INT_MAX


def _formatted(text: str, arguments: list[Any]) -> str:
    """RAISERROR's %d, %s, %i, %u, %x, %o, with flags and widths as in C."""
    parts: list[str] = []
    place, rest = 0, iter(arguments)

    def from_argument(match: re.Match[str]) -> str:
        """The value of a * in the place of a width or a precision; one below 0 is none."""
        value = next(rest, None)
        if not isinstance(value, int):
            raise SqlServerError(2786, len(parts))
        return "" if value < 0 else match[0].replace("*", str(value))

    while place < len(text) and len(parts) < 2 * MESSAGE_MAX:  # what follows is not shown
        if text[place] != "%":
            parts.append(text[place])
            place += 1
            continue
        end = place + 1
        while text[end : end + 1] in _FLAG_CHARACTERS and end - place < FLAGS_MAX:
            end += 1
        kind = text[end] if end < len(text) else ""
        size = _SIZE.search(text, place + 1, end)
        flags = text[place + 1 : size.start() if size else end]
        place = end + 1
        if kind == "%":
            parts.append("%")
        elif kind in ("d", "i", "u", "x", "X", "o", "s"):
            flags = re.sub(r"\.?\*", from_argument, flags)
            value = next(rest, None)
            if value is None:
                parts.append("(null)")
            elif not isinstance(value, str if kind == "s" else int) or (not size and _is_long(value)):
                raise SqlServerError(2786, len(parts))
            elif _FLAGS.fullmatch(flags) is None:
                raise SqlServerError(2787, text[: end + 1][-20:])
            else:
                if kind in "uxXo":  # without a sign
                    value %= 1 << _SIZES[size[0] if size else "l"]
                parts.append(f"%{flags}{'d' if kind in 'iu' else kind}" % value)
        else:
            raise SqlServerError(2787, "%" + kind)
    return "".join(parts)


@dataclass(frozen=True, slots=True)
class Print(Statement):
    text: Expression


def parse_print(parser: Parser) -> Statement:
    """`PRINT expression`"""
    return Print(parser.line, parser.expression())


@register("PRINT", parse_print, Print)
def compile_print(node: Print, scope: Scope) -> Step:
    """ "A message string can be up to 8,000 characters long if it is a non-Unicode string, and 4,000 characters long if
    it is a Unicode string. Longer strings are truncated." """
    single, double = scalar(node.text, scope, VARCHAR), scalar(node.text, scope, NVARCHAR)
    text = None

    def run(frame: Frame) -> None:
        nonlocal text
        if text is None:
            type_ = static_type(node.text, scope, frame)
            text = single if type_ is not None and type_.name in ("char", "varchar") else double
        frame.session.row_count = 0
        frame.sink.message(0, 0, 1, text(frame) or " ", frame.procedure, node.line)

    return plain(run)
