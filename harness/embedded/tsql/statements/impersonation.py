"""EXECUTE AS as a statement, and REVERT."""

from dataclasses import dataclass

from harness.embedded.errors import SqlServerError
from harness.embedded.tsql.instance import securables
from harness.embedded.tsql.permissions import guard as guards
from harness.embedded.tsql.session.session import Frame
from harness.embedded.tsql.session.steps import Scope, Step, plain
from harness.embedded.tsql.statements.registry import register
from harness.embedded.tsql.text.parser import Parser, Statement


@dataclass(frozen=True, slots=True)
class ExecuteAs(Statement):
    user: str


@dataclass(frozen=True, slots=True)
class Revert(Statement):
    pass


def parse_execute_as(parser: Parser) -> Statement:
    """`EXEC[UTE] AS USER = 'name'`

    The other forms (LOGIN, CALLER, WITH NO REVERT, WITH COOKIE) are refused.
    https://learn.microsoft.com/sql/t-sql/statements/execute-as-transact-sql
    """
    tokens, line = parser.tokens, parser.line
    if not tokens.accept("USER", "="):
        tokens.unsupported(f"EXECUTE AS {tokens.word()}")
    user = tokens.string()
    if tokens.at("WITH"):
        tokens.unsupported("EXECUTE AS WITH")
    return ExecuteAs(line, user)


@register("EXEC AS|EXECUTE AS", parse_execute_as, ExecuteAs)
def compile_execute_as(node: ExecuteAs, scope: Scope) -> Step:
    def run(frame: Frame) -> None:
        session, database = frame.session, frame.database
        user = securables.find(frame, "USER", (node.user,))
        is_own = node.user.lower() == session.user_name(database).lower()
        if user is None or not (is_own or securables.is_held(frame, user, "IMPERSONATE")):
            raise SqlServerError(15517, node.user)
        session.impersonated.append(session.guard)
        session.guard = guards.of_user(session.instance, database, node.user)

    return plain(run)


@register("REVERT", lambda parser: Revert(parser.line), Revert)
def compile_revert(node: Revert, scope: Scope) -> Step:
    def run(frame: Frame) -> None:
        session = frame.session
        if session.impersonated:
            session.guard = session.impersonated.pop()

    return plain(run)
