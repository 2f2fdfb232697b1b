"""What one login at its worst leaves of an instance to others: latency of `SELECT 1`, calls that send, and memory.

Each hog is a batch that another process runs, again and again, with a login of its own; `unread` does not read its answer.
Beside it, one connection selects 1 every few milliseconds, and then ten threads send messages on dialogs of their own. The
goal is 100 ms at the 99th percentile, and nine tenths of the calls where each of the three processes has a processor of
its own. So it also prints how many processors the server and the hog (its client, and the forks that read for it) used
during the calls: what the hog takes of the machine beside the server, no server can give to others.
"""

from __future__ import annotations

import contextlib
import json
import os
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import psutil
import pyodbc

from harness.lab import drivers
from tests.embedded.server.bare_client import batch, log_in

PASSWORD = "Starvation!1"
THREADS = 10
PAUSE_S = 0.002  # between two SELECT 1
ROWS = "DECLARE @t TABLE (n int); DECLARE @i int = 0; WHILE @i < {0} BEGIN INSERT @t VALUES (@i); SET @i += 1; END; "
SET_UP = f"""
CREATE LOGIN hog WITH PASSWORD = '{PASSWORD}'
GO
CREATE DATABASE lab
GO
USE lab; CREATE QUEUE dbo.q; CREATE SERVICE s ON QUEUE dbo.q ([DEFAULT])
GO
CREATE PROCEDURE dbo.begin_dialog AS
DECLARE @h uniqueidentifier;
BEGIN DIALOG @h FROM SERVICE s TO SERVICE 's' WITH ENCRYPTION = OFF;
SELECT @h;
GO
CREATE PROCEDURE dbo.send_message @h uniqueidentifier, @body varbinary(max) AS
SET NOCOUNT ON;
SEND ON CONVERSATION @h (@body);
"""


@dataclass(frozen=True)
class Size:
    seconds: float  # of each measurement
    scale: int  # divides the sizes of the hogs


FULL = Size(10, 1)
SMALLEST = Size(0.2, 100)


def hogs(scale: int) -> dict[str, str]:
    """Batches, by name."""
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


@contextlib.contextmanager
def instance() -> Iterator[tuple[subprocess.Popen[bytes], int]]:
    with tempfile.TemporaryDirectory(dir=".") as folder:
        process = subprocess.Popen(
            [sys.executable, "-m", "harness", "serve", "--port", "0", "--data", folder],
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env={**os.environ, "HARNESS_SA_PASSWORD": PASSWORD},
        )
        assert process.stdout is not None
        try:
            yield process, json.loads(process.stdout.readline())["port"]
        finally:
            process.terminate()
            process.wait()
            process.stdout.close()


def connect(port: int, database: str = "master", user: str = "sa") -> pyodbc.Connection:
    pyodbc.pooling = False
    text = drivers.choose("microsoft").connection_string(
        host="127.0.0.1", port=port, user=user, password=PASSWORD, database=database, program="benchmark"
    )
    return pyodbc.connect(text, autocommit=True, timeout=60)


def run_hog(port: int, name: str, scale: int) -> None:
    """In a process of its own, until it is killed."""
    text = hogs(scale)[name]
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
    command = [sys.executable, "-m", "tests.benchmarks.starvation", "--hog", str(port), name, str(scale)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, start_new_session=True)
    assert process.stdout is not None
    process.stdout.readline()
    try:
        yield psutil.Process(process.pid)
    finally:
        process.kill()
        process.wait()
        process.stdout.close()


def select_latencies_ms(port: int, seconds: float) -> list[float]:
    cursor = connect(port).cursor()
    latencies: list[float] = []
    end = time.perf_counter() + seconds
    while not latencies or time.perf_counter() < end:
        began = time.perf_counter()
        cursor.execute("SELECT 1").fetchone()
        latencies.append((time.perf_counter() - began) * 1000)
        time.sleep(PAUSE_S)
    return sorted(latencies)


def calls_a_second(port: int, seconds: float) -> float:
    counts = [0] * THREADS
    end: list[float] = []
    barrier = threading.Barrier(THREADS + 1)

    def drive(number: int) -> None:
        cursor = connect(port, "lab").cursor()
        handle = cursor.execute("EXEC dbo.begin_dialog").fetchval()
        barrier.wait()
        while time.perf_counter() < end[0]:
            cursor.execute("{CALL dbo.send_message (?, ?)}", handle, bytes(100))
            counts[number] += 1

    workers = [threading.Thread(target=drive, args=(number,)) for number in range(THREADS)]
    for worker in workers:
        worker.start()
    end.append(time.perf_counter() + 60)  # nobody is ready yet
    while barrier.n_waiting < THREADS:
        time.sleep(0.001)
    began = time.perf_counter()
    end[0] = began + seconds
    barrier.wait()
    for worker in workers:
        worker.join()
    return sum(counts) / (time.perf_counter() - began)


def resident_mib(process: subprocess.Popen[bytes]) -> int:
    pages = int(Path(f"/proc/{process.pid}/statm").read_text(encoding="ascii").split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") // 2**20


def processor_s(*processes: psutil.Process) -> float:
    """Processor time of these so far."""
    return sum(sum(process.cpu_times()[:2]) for process in processes)


def forks_s(server: psutil.Process) -> float:
    """Processor time of the forks of a server so far: those that have ended, and those that run."""
    ended = sum(server.cpu_times()[2:4])
    with contextlib.suppress(psutil.Error):
        ended += processor_s(*server.children())
    return ended


def main(size: Size = FULL) -> None:
    print("starvation: SELECT 1 beside a hog, calls a second of 10 threads, and the server's memory afterwards")
    print(f"of {os.cpu_count()} processors the server and the hog used during the calls:")
    print(
        f"{'hog':>26}{'p50 ms':>9}{'p99 ms':>9}{'max ms':>9}{'calls/s':>9}{'share':>7}{'MiB':>7}{'server':>8}{'hog':>6}"
    )
    with instance() as (process, port):
        set_up = connect(port)
        for text in SET_UP.split("GO\n"):
            set_up.execute(text)
        alone = 0.0

        server = psutil.Process(process.pid)

        def row(name: str, *hogs: psutil.Process) -> float:
            latencies = select_latencies_ms(port, size.seconds)
            before = processor_s(server), processor_s(*hogs) + forks_s(server), time.perf_counter()
            calls = calls_a_second(port, size.seconds)
            after = processor_s(server), processor_s(*hogs) + forks_s(server), time.perf_counter()
            of_server, of_hog, seconds = (end - begin for begin, end in zip(before, after, strict=True))
            p50, p99 = (latencies[int(len(latencies) * part)] for part in (0.5, 0.99))
            share = calls / (alone or calls)
            print(
                f"{name:>26}{p50:>9.1f}{p99:>9.1f}{latencies[-1]:>9.1f}{calls:>9.0f}{share:>7.2f}"
                f"{resident_mib(process):>7}{of_server / seconds:>8.2f}{of_hog / seconds:>6.2f}",
                flush=True,
            )
            return calls

        alone = row("none")
        for name in hogs(size.scale):
            with hog(port, name, size.scale) as client:
                row(name, client)


if __name__ == "__main__":
    if sys.argv[1:2] == ["--hog"]:
        run_hog(int(sys.argv[2]), sys.argv[3], int(sys.argv[4]))
    else:
        main()
