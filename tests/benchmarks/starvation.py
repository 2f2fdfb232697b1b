"""What one login at its worst leaves of an instance to others: latency of `SELECT 1`, calls that send, and memory.

Each hog is a batch that another process runs, again and again, with a login of its own; `unread` does not read its answer.
Beside it, one connection selects 1 every few milliseconds, and then ten threads send messages on dialogs of their own. The
goal is 100 ms at the 99th percentile, and nine tenths of the calls where the processor allows it.

A hog's own processes, its client and the fork that reads for it, take processors that no server can give to others. So each
turn also measures the calls beside a burner: processes that take as much processor time as those, with the same priority,
and have nothing to do with the server. Calls beside the hog divided by calls beside the burner are what the server leaves;
the 95 % interval is over the turns. The last columns are processors used during the calls: by the server, of it for the hog
(what is left when each call costs as much as beside the burner), and by the hog's own processes.
"""

from __future__ import annotations

import contextlib
import json
import math
import os
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean

import psutil

from harness.inference import interval_of_ratio
from tests.benchmarks.burner import burner
from tests.benchmarks.hogs import PASSWORD, batches, connect, hog
from tests.waiting import wait_until

THREADS = 10
PAUSE_S = 0.002  # between two SELECT 1
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
    turns: int
    scale: int  # divides the sizes of the hogs


FULL = Size(3, 5, 1)
SMALLEST = Size(0.1, 1, 100)


@dataclass(frozen=True)
class Calls:
    """Calls a second, and processors used meanwhile."""

    rate: float
    server: float
    client: float  # of the hog
    fork: float  # of the server


@contextlib.contextmanager
def instance() -> Iterator[tuple[subprocess.Popen[bytes], int]]:
    with tempfile.TemporaryDirectory(dir=".") as folder:
        process = subprocess.Popen(
            [sys.executable, "-m", "harness", "serve", "--port", "0", "--data", folder],
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env={**os.environ, "HARNESS_PASSWORD": PASSWORD},
        )
        assert process.stdout is not None
        try:
            yield process, json.loads(process.stdout.readline())["port"]
        finally:
            process.terminate()
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


def measure_calls(port: int, server: psutil.Process, seconds: float, *hogs: psutil.Process) -> Calls:
    counts = [0] * THREADS
    end: list[float] = []
    barrier = threading.Barrier(THREADS + 1)

    def drive(number: int) -> None:
        cursor = connect(port, "lab").cursor()
        handle = cursor.execute("EXEC dbo.begin_dialog").fetchval()
        barrier.wait()
        while not counts[number] or time.perf_counter() < end[0]:
            cursor.execute("{CALL dbo.send_message (?, ?)}", handle, bytes(100))
            counts[number] += 1

    def read() -> tuple[float, float, float, float]:
        return processor_s(server), processor_s(*hogs), forks_s(server), time.perf_counter()

    workers = [threading.Thread(target=drive, args=(number,)) for number in range(THREADS)]
    for worker in workers:
        worker.start()
    end.append(time.perf_counter() + 60)  # nobody is ready yet
    while barrier.n_waiting < THREADS:
        time.sleep(0.001)
    before = read()
    end[0] = time.perf_counter() + seconds
    barrier.wait()
    for worker in workers:
        worker.join()
    *used_s, took_s = (end - begin for begin, end in zip(before, read(), strict=True))
    return Calls(sum(counts) / took_s, *(used / took_s for used in used_s))


def main(size: Size = FULL) -> None:
    print(
        f"starvation: SELECT 1 beside a hog, calls a second of {THREADS} threads, the server's memory, processors used "
        f"of {os.cpu_count()} ({size.turns} turns)"
    )
    print(
        f"{'hog':>26}{'p50 ms':>8}{'p99 ms':>8}{'max ms':>8}{'calls/s':>9}{'of alone':>10}{'of burner':>11}{'95 %':>14}"
        f"{'MiB':>6}{'server':>8}{'for hog':>9}{'hog':>6}"
    )
    with instance() as (process, port):
        set_up = connect(port)
        for text in SET_UP.split("GO\n"):
            set_up.execute(text)
        server = psutil.Process(process.pid)

        def is_gone() -> bool:
            sessions = "SELECT COUNT(*) FROM sys.dm_exec_sessions WHERE login_name = 'hog'"
            return not set_up.execute(sessions).fetchval() and not server.children()

        for name in batches(size.scale):
            latencies: list[float] = []
            turns: list[tuple[Calls, Calls, Calls]] = []
            for _ in range(size.turns):
                alone = measure_calls(port, server, size.seconds)
                with hog(port, name, size.scale) as client:
                    latencies += select_latencies_ms(port, size.seconds)
                    beside = measure_calls(port, server, size.seconds, client)
                    resident = resident_mib(process)
                wait_until(is_gone)
                with burner(beside.client, beside.fork):
                    turns.append((alone, beside, measure_calls(port, server, size.seconds)))
            latencies.sort()
            p50, p99 = (latencies[int(len(latencies) * part)] for part in (0.5, 0.99))
            of_alone = math.exp(fmean(math.log(beside.rate / alone.rate) for alone, beside, _ in turns))
            of_burner = interval_of_ratio([math.log(beside.rate / burned.rate) for _, beside, burned in turns])
            known = f"{of_burner.low:.2f} to {of_burner.high:.2f}" if of_burner.is_known else "none"
            for_hog = fmean(beside.server - beside.rate * burned.server / burned.rate for _, beside, burned in turns)
            print(
                f"{name:>26}{p50:>8.1f}{p99:>8.1f}{latencies[-1]:>8.1f}{fmean(beside.rate for _, beside, _ in turns):>9.0f}"
                f"{of_alone:>10.2f}{of_burner.ratio:>11.2f}{known:>14}{resident:>6}"
                f"{fmean(beside.server for _, beside, _ in turns):>8.2f}{for_hog:>9.2f}"
                f"{fmean(beside.client + beside.fork for _, beside, _ in turns):>6.2f}",
                flush=True,
            )


if __name__ == "__main__":
    main()
