"""Hogs of `starvation`: batches that a process of its own runs again and again; `unread` does not read its answer."""

from __future__ import annotations

import contextlib
import socket
import sys
import threading
from collections.abc import Iterator

import psutil
import pyodbc

from harness.lab import drivers
from tests.benchmarks.burner import child
from tests.embedded.server.bare_client import batch, log_in

PASSWORD = "Starvation!1"
ROWS = "DECLARE @t TABLE (n int); DECLARE @i int = 0; WHILE @i < {0} BEGIN INSERT @t VALUES (@i); SET @i += 1; END; "


def batches(scale: int) -> dict[str, str]:
    """Texts of hogs, by name."""
    count = 500 // scale or 5
    return {
        "200,000 statements": "SELECT 1; " * (200_000 // scale),
        "100 MB of (": "SELECT " + "(" * (50_000_000 // scale),
        "100 MB of /*": "SELECT 1 " + "/*" * (25_000_000 // scale),
        "cross join of 500³": ROWS.format(count) + "SELECT COUNT(*) FROM @t a CROSS JOIN @t b CROSS JOIN @t c "
        "WHERE a.n + b.n + c.n < 0",
        "WHILE with SELECT of 500": ROWS.format(count)
        + f"SET @i = 0; WHILE @i < {20_000 // scale} BEGIN SELECT n FROM "
        "@t; SET @i += 1; END",
        "changes of many rows": ROWS.format(count)
        + f"WHILE @i < {200_000 // scale} BEGIN INSERT @t SELECT n FROM @t; SET @i *= 2; END; "
        "UPDATE @t SET n += 1; DELETE @t WHERE n % 2 = 0",
        "unread": "WHILE 1 = 1 SELECT * FROM sys.objects",
    }


def connect(port: int, database: str = "master", user: str = "sa") -> pyodbc.Connection:
    pyodbc.pooling = False
    text = drivers.choose("microsoft").connection_string(
        host="127.0.0.1", port=port, user=user, password=PASSWORD, database=database, program="benchmark"
    )
    return pyodbc.connect(text, autocommit=True, timeout=60)


def run_hog(port: int, name: str, scale: int) -> None:
    """In a process of its own, until it is killed."""
    text = batches(scale)[name]
    print("ready", flush=True)
    if name == "unread":
        with socket.create_connection(("127.0.0.1", port)) as client:
            log_in(client, "hog", PASSWORD)
            client.sendall(batch(text))
            threading.Event().wait()
    connection = connect(port, user="hog")
    while True:
        with contextlib.suppress(pyodbc.Error):
            cursor = connection.execute(text)
            while cursor.nextset():
                pass


@contextlib.contextmanager
def hog(port: int, name: str, scale: int) -> Iterator[psutil.Process]:
    with child("hogs", port, name, scale, start_new_session=True) as process:
        yield psutil.Process(process.pid)


if __name__ == "__main__":
    run_hog(int(sys.argv[1]), sys.argv[2], int(sys.argv[3]))
