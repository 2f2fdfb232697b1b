"""Defects of this server that show inside one statement: each becomes an error of that statement.

An exception that is no `SqlServerError` is a bug. A server must outlive it: the statement fails with error 50002, which
ends the batch and rolls the transaction back, because nobody knows what the statement has done so far. Tests and
virtual time must end at it, so there the exception goes on.
"""

from collections.abc import Callable

from harness.embedded.errors import DEFECT, SqlServerError
from harness.embedded.tsql.instance import manual

STATEMENT_MAX = 1000  # characters of a statement that a report quotes

# Gets the exception, and the text of the statement or the batch in which it occurred.
Report = Callable[[Exception, str], None]


def raise_again(defect: Exception, statement: str) -> None:
    """End the run at a bug."""
    raise defect


class Defects:
    """Makes errors of exceptions; `report` gets those that are bugs."""

    def __init__(self) -> None:
        self.report: Report = raise_again

    def error(self, exception: Exception, text: str, line: int = 1) -> SqlServerError:
        """The error of the statement that begins in that line of a batch or a procedure."""
        if isinstance(exception, SqlServerError):
            return manual.named(exception, text, line)
        if isinstance(exception, RecursionError):
            return SqlServerError(191, line=line)
        if isinstance(exception, MemoryError):
            return SqlServerError(701, "default", line=line)
        self.report(exception, statement_at(text, line))
        return SqlServerError(DEFECT, type(exception).__name__, line=line)


def statement_at(text: str, line: int) -> str:
    """The text from that line on, cut; a text that may hold a password is not shown."""
    if "password" in text.lower():
        return "a statement of a batch that names a password"
    statement = "\n".join(text.split("\n")[max(0, line - 1) :]).strip()
    return statement if len(statement) <= STATEMENT_MAX else statement[:STATEMENT_MAX] + " ..."
