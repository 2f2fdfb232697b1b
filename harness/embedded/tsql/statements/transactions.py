"""BEGIN, COMMIT, ROLLBACK and SAVE TRANSACTION."""

from dataclasses import dataclass

from harness.embedded.errors import SqlServerError
from harness.embedded.runtime.tasks import Waiting
from harness.embedded.tsql.session.session import Frame
from harness.embedded.tsql.session.steps import Scope, Step, plain, waiting
from harness.embedded.tsql.statements.registry import register
from harness.embedded.tsql.text.parser import Parser, Statement, at_statement_end


def _parse_name(parser: Parser) -> str:
    tokens = parser.tokens
    if tokens.at_variable():
        return tokens.variable()
    return "" if at_statement_end(parser) else tokens.name()


def _parse_end(parser: Parser) -> str:
    """`[ WORK | { TRAN | TRANSACTION } [ name | @v ] ]` after COMMIT or ROLLBACK; the name."""
    tokens = parser.tokens
    if tokens.accept("WORK") or not (tokens.accept("TRAN") or tokens.accept("TRANSACTION")):
        return ""
    return _parse_name(parser)


def _name(frame: Frame, name: str) -> str:
    """The name of a transaction, written or in a variable."""
    return str(frame.variables[name] or "") if name.startswith("@") else name


@dataclass(frozen=True, slots=True)
class BeginTransaction(Statement):
    name: str


def parse_begin_transaction(parser: Parser) -> Statement:
    """`BEGIN { TRAN | TRANSACTION } [ name | @v ]`"""
    return BeginTransaction(parser.line, _parse_name(parser))


@register("BEGIN TRAN|BEGIN TRANSACTION", parse_begin_transaction, BeginTransaction)
def compile_begin(node: BeginTransaction, scope: Scope) -> Step:
    if node.name.startswith("@"):
        scope.type_of(node.name, node.line)
    return plain(lambda frame: frame.session.begin(_name(frame, node.name)))


@dataclass(frozen=True, slots=True)
class CommitTransaction(Statement):
    pass


def parse_commit(parser: Parser) -> Statement:
    """`COMMIT [ TRAN | TRANSACTION | WORK ] [ name | @v ]`"""
    _parse_end(parser)
    return CommitTransaction(parser.line)


@register("COMMIT", parse_commit, CommitTransaction)
def compile_commit(node: CommitTransaction, scope: Scope) -> Step:
    def run(frame: Frame) -> Waiting[None] | None:
        session = frame.session
        session.row_count = 0
        tx = session.tx
        if tx is None:
            raise SqlServerError(3902)
        if session.doomed:
            raise SqlServerError(3930)
        if session.tran_count > 1:
            session.tran_count -= 1
            return None
        session.tx, session.tran_count = None, 0
        session.savepoints.clear()
        return tx.commit()

    return waiting(run)


@dataclass(frozen=True, slots=True)
class RollbackTransaction(Statement):
    name: str


def parse_rollback(parser: Parser) -> Statement:
    """`ROLLBACK [ TRAN | TRANSACTION | WORK ] [ name | @v | savepoint ]`"""
    return RollbackTransaction(parser.line, _parse_end(parser))


@register("ROLLBACK", parse_rollback, RollbackTransaction)
def compile_rollback(node: RollbackTransaction, scope: Scope) -> Step:
    def run(frame: Frame) -> None:
        session = frame.session
        session.row_count = 0
        if session.tx is None:
            raise SqlServerError(3903)
        name = _name(frame, node.name)
        if name and name.lower() in session.savepoints:
            if session.doomed:
                raise SqlServerError(3931)
            mark = session.savepoints[name.lower()]
            session.tx.rollback_to(mark)
            session.savepoints = {savepoint: at for savepoint, at in session.savepoints.items() if at <= mark}
        elif session.captures:
            raise SqlServerError(3915)
        elif name and name.lower() != session.transaction_name.lower():
            raise SqlServerError(6401, name)
        else:
            session.rollback()

    return plain(run)


@dataclass(frozen=True, slots=True)
class SaveTransaction(Statement):
    name: str


def parse_save(parser: Parser) -> Statement:
    """`SAVE { TRAN | TRANSACTION } name | @v`"""
    parser.tokens.choose("TRAN", "TRANSACTION")
    name = _parse_name(parser)
    if not name:
        parser.tokens.fail()
    return SaveTransaction(parser.line, name)


@register("SAVE", parse_save, SaveTransaction)
def compile_save(node: SaveTransaction, scope: Scope) -> Step:
    def run(frame: Frame) -> None:
        session = frame.session
        if session.tx is None:
            raise SqlServerError(628)
        if session.doomed:
            raise SqlServerError(3930)
        session.savepoints[_name(frame, node.name).lower()] = session.tx.mark()

    return plain(run)
