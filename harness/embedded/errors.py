"""Errors that reach the client as SQL Server's, with its numbers, severities and texts: those of errors.txt."""

from __future__ import annotations

from importlib.resources import files
from typing import NamedTuple

# Our own numbers, outside SQL Server's range
UNSUPPORTED = 50001  # this server does not support the syntax
DEFECT = 50002  # a bug of this server
OVER_BUDGET = 50003  # a statement that would let others wait for too long
FATAL = 20  # a severity: from it on an error ends the connection


class ErrorText(NamedTuple):
    severity: int
    text: str


def _catalogue() -> dict[int, ErrorText]:
    lines = (files("harness.embedded") / "errors.txt").read_text(encoding="utf-8").splitlines()
    rows = [line.split(" ", 2) for line in lines if not line.startswith("#")]
    catalogue = {int(number): ErrorText(int(severity), text) for number, severity, text in rows}
    assert len(catalogue) == len(rows), "a number stands twice in errors.txt"
    return catalogue


CATALOGUE = _catalogue()


class SqlServerError(Exception):
    """An error of SQL Server. Its `procedure`, "" in a batch, and its line where it has none are set by the frame in
    which it occurs; until then `procedure` is None."""

    def __init__(
        self, number: int, *arguments: object, state: int = 1, line: int = 0, procedure: str | None = None
    ) -> None:
        severity, text = CATALOGUE[number]
        super().__init__(text % arguments)
        self.number = number
        self.severity = severity
        self.state = state
        self.line = line
        self.procedure = procedure

    frame: object | None = None  # of T-SQL, in which the error occurred
    ends_batch = False  # decided where it occurred, with the options there
    ends_change = False  # of rows; with the options there 3621 follows

    @property
    def text(self) -> str:
        return str(self.args[0])


def let_go(error: BaseException | None) -> None:
    """Let go of a handled error's causes, and of the frames in which it and they were raised. Some refer to the error,
    so only a collection of garbage would free what they hold."""
    while error is not None:  # an error may be its own cause
        following = error.__cause__ or error.__context__
        error.__traceback__ = error.__cause__ = error.__context__ = None
        error = following


class UnsupportedSyntax(SqlServerError):
    """T-SQL that is not supported; the text names it and its line."""

    def __init__(self, syntax: str, line: int) -> None:
        super().__init__(UNSUPPORTED, f"{syntax} (line {line})" if line else syntax, line=line)


class RaisedError(SqlServerError):
    """An error whose number, severity and text come from T-SQL code."""

    def __init__(
        self,
        number: int,
        severity: int,
        text: str,
        state: int,
        *,
        ends_batch: bool,
        line: int = 0,
        procedure: str | None = None,
    ) -> None:
        Exception.__init__(self, text)
        self.number = number
        self.severity = severity
        self.state = state
        self.line = line
        self.procedure = procedure
        self.ends_batch = ends_batch  # THROW does, RAISERROR does not

    @staticmethod
    def again(error: SqlServerError) -> RaisedError:
        """`THROW` without arguments: the caught error, with its own line."""
        return RaisedError(
            error.number,
            error.severity,
            error.text,
            error.state,
            ends_batch=True,
            line=error.line,
            procedure=error.procedure,
        )
