"""Errors that reach the client as SQL Server's, with its numbers, severities and texts.

`CATALOGUE` holds each text once; `%s` stand for the arguments in order. Source of numbers and texts: SQL Server 2022
"Database Engine events and errors" (Microsoft documentation); where the manual names an error without quoting its
text, the text here is ours.
"""

from __future__ import annotations

from typing import NamedTuple


class ErrorText(NamedTuple):
    severity: int
    text: str


UNSUPPORTED = 50001  # our own number, outside SQL Server's range: this server does not know the syntax

CATALOGUE: dict[int, ErrorText] = {
    102: ErrorText(15, "Incorrect syntax near '%s'."),
    137: ErrorText(15, 'Must declare the scalar variable "%s".'),
    208: ErrorText(16, "Invalid object name '%s'."),
    911: ErrorText(16, "Database '%s' does not exist. Make sure that the name is entered correctly."),
    1222: ErrorText(16, "Lock request time out period exceeded."),
    2812: ErrorText(16, "Could not find stored procedure '%s'."),
    3902: ErrorText(16, "The COMMIT TRANSACTION request has no corresponding BEGIN TRANSACTION."),
    3903: ErrorText(16, "The ROLLBACK TRANSACTION request has no corresponding BEGIN TRANSACTION."),
    8023: ErrorText(
        16,
        "The incoming tabular data stream (TDS) remote procedure call (RPC) protocol stream is incorrect. "
        "The supplied value is not a valid instance of data type %s.",
    ),
    8426: ErrorText(16, "The conversation handle \"%s\" is not found."),
    18456: ErrorText(14, "Login failed for user '%s'."),
    UNSUPPORTED: ErrorText(16, "The embedded Service Broker does not support %s."),
}


class SqlServerError(Exception):
    """An error message of SQL Server: number, severity, text; `line` and `procedure` are filled in where it surfaces."""

    def __init__(self, number: int, *arguments: object, state: int = 1, line: int = 0, procedure: str = "") -> None:
        severity, text = CATALOGUE[number]
        super().__init__(text % arguments)
        self.number = number
        self.severity = severity
        self.state = state
        self.line = line
        self.procedure = procedure

    @property
    def text(self) -> str:
        return str(self.args[0])


class UnsupportedSyntax(SqlServerError):
    """T-SQL outside the dialect: names the statement and its line, never silence."""

    def __init__(self, what: str, line: int) -> None:
        super().__init__(UNSUPPORTED, what, line=line)
