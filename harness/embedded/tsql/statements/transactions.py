"""BEGIN, COMMIT, ROLLBACK and SAVE TRANSACTION."""

from dataclasses import dataclass

from harness.embedded.errors import SqlServerError
from harness.embedded.runtime.tasks import Waiting
from harness.embedded.tsql.session.session import Frame
from harness.embedded.tsql.session.steps import Scope, Step, plain, waiting
from harness.embedded.tsql.statements.registry import register
from harness.embedded.tsql.storage.conversion import ANSI, UNICODE
from harness.embedded.tsql.text.parser import Parser, Statement, at_statement_end

NAME_LENGTH_MAX = 32  # characters of the name of a transaction or savepoint


def _parse_name(parser: Parser) -> str:
    tokens = parser.tokens
    if tokens.at_variable():
        return tokens.variable()
    name = "" if at_statement_end(parser) else tokens.name()
    if len(name) > NAME_LENGTH_MAX:
        raise SqlServerError(103, "identifier", name[:30], NAME_LENGTH_MAX, state=2, line=parser.line)
    return name


def _parse_end(parser: Parser) -> str:
    """`[ WORK | { TRAN | TRANSACTION } [ name | @v ] ]` after COMMIT or ROLLBACK; the name."""
    tokens = parser.tokens
    if tokens.accept("WORK") or not (tokens.accept("TRAN") or tokens.accept("TRANSACTION")):
        return ""
    return _parse_name(parser)


def _check_variable(name: str, line: int, scope: Scope) -> None:
    if name.startswith("@") and (type_ := scope.type_of(name, line)).name not in UNICODE | ANSI:
        raise SqlServerError(3914, type_.name, state=0, line=line)


def _name(frame: Frame, name: str) -> str | None:
    """The name of a transaction or savepoint; None without one, or in a variable that is NULL. The rules of names are
    those that others have measured on SQL Server 2025."""
    if not name.startswith("@"):
        return name.rstrip() or None
    value = frame.variables[name]
    return None if value is None else str(value)[:NAME_LENGTH_MAX].rstrip()


@dataclass(frozen=True, slots=True)
class BeginTransaction(Statement):
    name: str


def parse_begin_transaction(parser: Parser) -> Statement:
    """`BEGIN { TRAN | TRANSACTION } [ name | @v ]`"""
    return BeginTransaction(parser.line, _parse_name(parser))


@register("BEGIN TRAN|BEGIN TRANSACTION", parse_begin_transaction, BeginTransaction)
def compile_begin(node: BeginTransaction, scope: Scope) -> Step:
    _check_variable(node.name, node.line, scope)
    return plain(lambda frame: frame.session.begin(_name(frame, node.name) or ""))


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
    """A rollback to a savepoint takes it and all later ones away. Its name is looked for without regard to case, the
    name of a transaction with regard to it."""
    _check_variable(node.name, node.line, scope)

    def run(frame: Frame) -> None:
        session = frame.session
        session.row_count = 0
        if session.tx is None:
            raise SqlServerError(3903)
        name = _name(frame, node.name)
        places = [
            place for place, (savepoint, _) in enumerate(session.savepoints) if name and savepoint == name.lower()
        ]
        if places:
            if session.doomed:
                raise SqlServerError(3931)
            session.tx.rollback_to(session.savepoints[places[-1]][1])
            del session.savepoints[places[-1] :]
        elif session.captures:
            raise SqlServerError(3915)
        elif name is not None and (not name or name != session.transaction_name):
            raise SqlServerError(6401, name, state=1 if name else 2)
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
    _check_variable(node.name, node.line, scope)

    def run(frame: Frame) -> None:
        session = frame.session
        if session.tx is None:
            raise SqlServerError(628, state=0)
        if session.doomed:
            raise SqlServerError(3930)
        if frame.sqlite.memory_is_full:
            frame.sqlite.refuse_growth("memory_is_full")
        if (name := _name(frame, node.name)) is not None:
            session.savepoints.append((name.lower(), session.tx.mark()))

    return plain(run)
