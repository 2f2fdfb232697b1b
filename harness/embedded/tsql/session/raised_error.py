"""Errors that T-SQL code raises with THROW and RAISERROR, or raises again."""

from __future__ import annotations

from harness.embedded.errors import SqlServerError


class RaisedError(SqlServerError):
    """An error whose number, severity and text come from T-SQL code."""

    def __init__(
        self, number: int, severity: int, text: str, state: int, *, ends_batch: bool, line: int = 0, procedure: str = ""
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
