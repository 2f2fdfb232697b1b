"""A connection that is opened on first use, and again after it broke."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

from harness.lab.instances import Instance

if TYPE_CHECKING:
    import pyodbc


class ReconnectingConnection:
    """One thread's connection to an instance, opened when it is needed."""

    def __init__(self, instance: Instance, *, query_timeout_s: int) -> None:
        self._instance = instance
        self._query_timeout_s = query_timeout_s
        self._connection: pyodbc.Connection | None = None

    def get(self) -> pyodbc.Connection:
        if self._connection is None:
            self._connection = self._instance.connect(query_timeout_s=self._query_timeout_s)
        return self._connection

    def drop(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            with contextlib.suppress(Exception):
                connection.close()
