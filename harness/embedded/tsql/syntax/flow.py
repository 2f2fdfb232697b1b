"""Control of flow, variables, cursors, errors, transactions: nodes and grammars."""

from __future__ import annotations

from dataclasses import dataclass

from harness.embedded.sqltypes import SqlType
from harness.embedded.tsql.storage.columns import ColumnDefinition
from harness.embedded.tsql.syntax.schema import table_body
from harness.embedded.tsql.text import expressions as queries
from harness.embedded.tsql.text.expressions import Expression, Query
from harness.embedded.tsql.text.parser import ParseFunction, Parser, Statement, at_statement_end

OPTIONS_ON_OFF = frozenset(
    """
    ANSI_DEFAULTS ANSI_NULL_DFLT_OFF ANSI_NULL_DFLT_ON ANSI_NULLS ANSI_PADDING ANSI_WARNINGS ARITHABORT
    ARITHIGNORE CONCAT_NULL_YIELDS_NULL CURSOR_CLOSE_ON_COMMIT FMTONLY FORCEPLAN IMPLICIT_TRANSACTIONS
    NO_BROWSETABLE NOCOUNT NOEXEC NUMERIC_ROUNDABORT QUOTED_IDENTIFIER REMOTE_PROC_TRANSACTIONS XACT_ABORT
    """.split()  # noqa: SIM905
)
OPTIONS_WITH_VALUE = frozenset(
    """
    DATEFIRST DATEFORMAT DEADLOCK_PRIORITY LANGUAGE LOCK_TIMEOUT QUERY_GOVERNOR_COST_LIMIT ROWCOUNT TEXTSIZE
    """.split()  # noqa: SIM905
)


@dataclass(frozen=True, slots=True)
class Block(Statement):
    body: list[Statement]


@dataclass(frozen=True, slots=True)
class If(Statement):
    condition: Expression
    then: Statement
    otherwise: Statement | None


@dataclass(frozen=True, slots=True)
class While(Statement):
    condition: Expression
    body: Statement


@dataclass(frozen=True, slots=True)
class Break(Statement):
    pass


@dataclass(frozen=True, slots=True)
class Continue(Statement):
    pass


@dataclass(frozen=True, slots=True)
class Return(Statement):
    value: Expression | None


@dataclass(frozen=True, slots=True)
class TryCatch(Statement):
    body: list[Statement]
    handler: list[Statement]


@dataclass(frozen=True, slots=True)
class Throw(Statement):
    """`arguments`: number, text, state; empty to throw the caught error again."""

    arguments: list[Expression]


@dataclass(frozen=True, slots=True)
class RaiseError(Statement):
    arguments: list[Expression]
    options: list[str]


@dataclass(frozen=True, slots=True)
class Print(Statement):
    text: Expression


@dataclass(frozen=True, slots=True)
class Declaration:
    variable: str
    type: SqlType | None
    columns: list[ColumnDefinition] | None  # of a table variable
    value: Expression | None


@dataclass(frozen=True, slots=True)
class Declare(Statement):
    declarations: list[Declaration]


@dataclass(frozen=True, slots=True)
class SetVariable(Statement):
    variable: str
    value: Expression


@dataclass(frozen=True, slots=True)
class SetOption(Statement):
    options: list[str]
    value: str


@dataclass(frozen=True, slots=True)
class DeclareCursor(Statement):
    name: str
    query: Query
    local: bool


@dataclass(frozen=True, slots=True)
class CursorOperation(Statement):
    """OPEN, CLOSE, DEALLOCATE."""

    operation: str
    name: str


@dataclass(frozen=True, slots=True)
class Fetch(Statement):
    name: str
    into: list[str]


@dataclass(frozen=True, slots=True)
class BeginTransaction(Statement):
    name: str


@dataclass(frozen=True, slots=True)
class CommitTransaction(Statement):
    pass


@dataclass(frozen=True, slots=True)
class RollbackTransaction(Statement):
    name: str


@dataclass(frozen=True, slots=True)
class SaveTransaction(Statement):
    name: str


@dataclass(frozen=True, slots=True)
class WaitForDelay(Statement):
    delay: Expression


@dataclass(frozen=True, slots=True)
class Use(Statement):
    database: str


def parse_block(parser: Parser) -> Statement:
    """`BEGIN { statement } END`"""
    return Block(parser.line, parser.block())


def parse_if(parser: Parser) -> Statement:
    """`IF condition statement [ ELSE statement ]`"""
    line = parser.line
    condition = parser.expression()
    then = parser.statement()
    otherwise = parser.statement() if parser.tokens.accept("ELSE") else None
    return If(line, condition, then, otherwise)


def parse_while(parser: Parser) -> Statement:
    """`WHILE condition statement`"""
    line = parser.line
    condition = parser.expression()
    return While(line, condition, parser.statement())


def parse_break(parser: Parser) -> Statement:
    """`BREAK`"""
    return Break(parser.line)


def parse_continue(parser: Parser) -> Statement:
    """`CONTINUE`"""
    return Continue(parser.line)


def parse_return(parser: Parser) -> Statement:
    """`RETURN [ integer_expression ]`"""
    return Return(parser.line, None if at_statement_end(parser) else parser.expression())


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


def parse_throw(parser: Parser) -> Statement:
    """`THROW [ number, message, state ]`"""
    if at_statement_end(parser):
        return Throw(parser.line, [])
    arguments = parser.tokens.comma_separated(lambda: parser.expression(","))
    if len(arguments) != 3:
        parser.tokens.fail()
    return Throw(parser.line, arguments)


def parse_raiserror(parser: Parser) -> Statement:
    """`RAISERROR ( message | number, severity, state [, argument ]... ) [ WITH { LOG | NOWAIT | SETERROR } ]`"""
    tokens = parser.tokens
    tokens.expect("(")
    arguments = tokens.comma_separated(lambda: parser.expression(","))
    tokens.expect(")")
    if len(arguments) < 3:
        tokens.fail()
    options = (
        tokens.comma_separated(lambda: tokens.choose("LOG", "NOWAIT", "SETERROR")) if tokens.accept("WITH") else []
    )
    return RaiseError(parser.line, arguments, options)


def parse_print(parser: Parser) -> Statement:
    """`PRINT expression`"""
    return Print(parser.line, parser.expression())


def parse_declare(parser: Parser) -> Statement:
    """`DECLARE { @v [AS] type [ = value ] | @t [AS] TABLE ( ... ) } [, ...]` or `DECLARE name CURSOR ... FOR select`"""
    if not parser.tokens.at_variable():
        return _cursor(parser)
    return Declare(parser.line, parser.tokens.comma_separated(lambda: _declaration(parser)))


def _declaration(parser: Parser) -> Declaration:
    tokens = parser.tokens
    variable = tokens.variable()
    tokens.accept("AS")
    if tokens.accept("TABLE"):
        return Declaration(variable, None, table_body(parser).columns, None)
    type_ = tokens.data_type()
    value = parser.expression(",") if tokens.accept("=") else None
    return Declaration(variable, type_, None, value)


CURSOR_OPTIONS = frozenset(
    """
    INSENSITIVE LOCAL GLOBAL FORWARD_ONLY STATIC KEYSET DYNAMIC FAST_FORWARD READ_ONLY SCROLL_LOCKS OPTIMISTIC
    TYPE_WARNING
    """.split()  # noqa: SIM905
)


def _cursor(parser: Parser) -> Statement:
    """`DECLARE name [ INSENSITIVE ] CURSOR [ LOCAL | FAST_FORWARD | ... ] FOR select [ FOR READ ONLY ]`"""
    tokens = parser.tokens
    name = tokens.name().lower()
    tokens.accept("INSENSITIVE")
    tokens.expect("CURSOR")
    options = set()
    while tokens.word() in CURSOR_OPTIONS:
        options.add(tokens.advance().text.upper())
    tokens.expect("FOR")
    query = parser.query(("FOR",))
    if tokens.accept("FOR"):
        tokens.expect("READ", "ONLY")
    return DeclareCursor(parser.line, name, query, "LOCAL" in options)


def parse_set(parser: Parser) -> Statement:
    """`SET @v { = | += | -= | *= | /= | %= } expression`, `SET option [, ...] { ON | OFF | value }`"""
    tokens = parser.tokens
    if tokens.at_variable():
        return _set_variable(parser)
    if tokens.accept("TRANSACTION", "ISOLATION", "LEVEL"):
        level = tokens.choose("READ", "REPEATABLE", "SNAPSHOT", "SERIALIZABLE")
        if level in ("READ", "REPEATABLE"):
            tokens.choose("UNCOMMITTED", "COMMITTED", "READ")
        return SetOption(parser.line, ["TRANSACTION ISOLATION LEVEL"], level)
    if tokens.accept("IDENTITY_INSERT"):
        tokens.object_name()
        tokens.on_off()
        tokens.unsupported("SET IDENTITY_INSERT")
    options = [option.text.upper() for option in tokens.comma_separated(tokens.advance)]
    if all(option in OPTIONS_ON_OFF for option in options):
        return SetOption(parser.line, options, tokens.choose("ON", "OFF"))
    if len(options) == 1 and options[0] in OPTIONS_WITH_VALUE:
        sign = "-" if tokens.accept("-") else ""
        return SetOption(parser.line, options, sign + tokens.advance().text)
    tokens.unsupported(f"SET {', '.join(options)}")


def _set_variable(parser: Parser) -> Statement:
    tokens = parser.tokens
    variable = tokens.variable()
    start = tokens.position
    sign = tokens.word()
    if sign in ("+", "-", "*", "/", "%"):
        tokens.advance()
    tokens.expect("=")
    value = parser.expression()
    if sign == "=":
        return SetVariable(parser.line, variable, value)
    # `SET @v += e` is `SET @v = @v + (e)`: the tokens of the variable stand right before the operator.
    all_, end = tokens.all, tokens.position
    opening, closing = queries.parentheses(all_[start])
    combined = [*all_[start - 2 : start + 1], opening, *all_[start + 2 : end], closing]
    return SetVariable(parser.line, variable, queries.expression(tokens, combined))


def parse_cursor_operation(operation: str) -> ParseFunction:
    """`OPEN | CLOSE | DEALLOCATE [ GLOBAL ] name`"""

    def parse(parser: Parser) -> Statement:
        parser.tokens.accept("GLOBAL")
        return CursorOperation(parser.line, operation, parser.tokens.name().lower())

    return parse


def parse_fetch(parser: Parser) -> Statement:
    """`FETCH [ [ NEXT ] FROM ] [ GLOBAL ] name [ INTO @v [, ...] ]`"""
    tokens = parser.tokens
    if tokens.word() in ("PRIOR", "FIRST", "LAST", "ABSOLUTE", "RELATIVE"):
        tokens.unsupported(f"FETCH {tokens.word()}")
    tokens.accept("NEXT")
    tokens.accept("FROM")
    tokens.accept("GLOBAL")
    name = tokens.name().lower()
    into = tokens.comma_separated(tokens.variable) if tokens.accept("INTO") else []
    return Fetch(parser.line, name, into)


def _transaction_name(parser: Parser) -> str:
    tokens = parser.tokens
    if tokens.at_variable():
        return tokens.variable()
    return "" if at_statement_end(parser) or tokens.at("WITH") else tokens.name()


def parse_begin_transaction(parser: Parser) -> Statement:
    """`BEGIN { TRAN | TRANSACTION } [ name | @v [ WITH MARK [ 'description' ] ] ]`"""
    name = _transaction_name(parser)
    if parser.tokens.accept("WITH", "MARK") and parser.tokens.at_string():
        parser.tokens.string()
    return BeginTransaction(parser.line, name)


def parse_commit(parser: Parser) -> Statement:
    """`COMMIT [ TRAN | TRANSACTION | WORK ] [ name | @v ]`"""
    tokens = parser.tokens
    if not tokens.accept("WORK") and (tokens.accept("TRAN") or tokens.accept("TRANSACTION")):
        _transaction_name(parser)
    return CommitTransaction(parser.line)


def parse_rollback(parser: Parser) -> Statement:
    """`ROLLBACK [ TRAN | TRANSACTION | WORK ] [ name | @v | savepoint ]`"""
    tokens = parser.tokens
    name = ""
    if not tokens.accept("WORK") and (tokens.accept("TRAN") or tokens.accept("TRANSACTION")):
        name = _transaction_name(parser)
    return RollbackTransaction(parser.line, name)


def parse_save(parser: Parser) -> Statement:
    """`SAVE { TRAN | TRANSACTION } name | @v`"""
    parser.tokens.choose("TRAN", "TRANSACTION")
    name = _transaction_name(parser)
    if not name:
        parser.tokens.fail()
    return SaveTransaction(parser.line, name)


def parse_waitfor_delay(parser: Parser) -> Statement:
    """`WAITFOR DELAY 'hh:mm:ss[.mmm]' | @v`"""
    return WaitForDelay(parser.line, parser.expression())


def parse_use(parser: Parser) -> Statement:
    """`USE database`"""
    return Use(parser.line, parser.tokens.name())
