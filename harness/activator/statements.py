"""What the activator and its reader share: one statement over a connection, and the broker's own message types."""

from typing import Any

from harness.lab import interruption
from harness.lab.drivers import Connection

ERROR = "http://schemas.microsoft.com/SQL/ServiceBroker/Error"
END_DIALOG = "http://schemas.microsoft.com/SQL/ServiceBroker/EndDialog"


def first_rows(connection: Connection, statement: str, *values: Any) -> list[Any]:
    """Return the rows of a statement's first result set; none without one. Raises pyodbc.Error."""
    cursor = connection.cursor()

    def ask() -> list[Any]:
        cursor.execute(statement, *values)
        while cursor.description is None:
            if not cursor.nextset():
                return []
        rows: list[Any] = cursor.fetchall()
        return rows

    try:
        return interruption.call(cursor, ask)
    finally:
        interruption.close_cursor(cursor)  # else results behind an error keep the connection busy
