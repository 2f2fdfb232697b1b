"""Sends per second through Locust against a bare loop of pyodbc threads, both at the same echo server.

The two take turns, so that they share the machine's mood. A turn is as long as a short cell, whose begin and end are a
part of Locust's side. The ratio is the median of the turns' ratios, with its 95 % interval by the sign test, which asks
nothing of how they are spread.
The bare loop is the least that Python can do: threads that call the same procedure with the same parameters and count.
The server has a processor of its own and the clients have the rest. Otherwise the scheduler's choice, whether one
client and the server meet on one processor, would move the ratio by a fifth either way.
"""

import contextlib
import os
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from uuid import uuid4

import pyodbc

from harness.definitions.matrix import Cell, Visit
from harness.load.locust_clients import LocustClients
from harness.load.payload import new_body
from harness.load.plan import SEND_MESSAGE, CellPlan
from harness.load.threads import input_sizes
from tests.load.echo_server import EchoServer, handles, running

PAYLOAD_BYTES = 100


@dataclass(frozen=True)
class Size:
    threads: tuple[int, ...]
    turns: int
    seconds: float


FULL = Size((1, 10, 50), turns=21, seconds=1.2)
SMALLEST = Size((2,), turns=1, seconds=0.05)


def bare_loop(connection_string: str, threads: int, seconds: float) -> float:
    """Calls per second of plain threads, each with its own connection, from the barrier to the last return."""
    pyodbc.pooling = False
    counts = [0] * threads
    barrier = threading.Barrier(threads + 1)
    stopping = False

    def drive(number: int) -> None:
        connection = pyodbc.connect(connection_string, autocommit=True)
        cursor = connection.cursor()
        cursor.setinputsizes(input_sizes(connection, PAYLOAD_BYTES, SEND_MESSAGE.parameters))
        execute, send, handle = cursor.execute, SEND_MESSAGE.call, uuid4()
        body = new_body(PAYLOAD_BYTES, run=0, initiator=0, thread=number)
        barrier.wait()
        count = 0
        while not stopping:
            execute(send, handle, body)
            count += 1
        counts[number] = count

    workers = [threading.Thread(target=drive, args=(number,)) for number in range(threads)]
    for worker in workers:
        worker.start()
    barrier.wait()
    started = time.perf_counter()
    time.sleep(seconds)
    stopping = True
    for worker in workers:
        worker.join()
    return sum(counts) / (time.perf_counter() - started)


def bare_process(connection_string: str, threads: int, seconds: float) -> float:
    done = subprocess.run(
        [sys.executable, "-m", "tests.benchmarks.client", "--bare", str(threads), str(seconds)],
        input=connection_string,
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
        # Linux shares processors out between sessions: each process has its own, as Locust's have.
        start_new_session=True,
    )
    return float(done.stdout)


def through_locust(
    clients: LocustClients, connection_string: str, threads: int, seconds: float, results: Path
) -> tuple[float, float]:
    """Calls per second of one cell, and the seconds that the cell took beyond its calls."""
    cell = Cell("2008", 1, 150, threads, PAYLOAD_BYTES)
    started = time.perf_counter()
    clients.prepare(CellPlan(Visit(cell), 1, 1, [connection_string], [handles(threads)], results))
    clients.start()
    time.sleep(seconds)
    report = clients.stop()
    elapsed = time.perf_counter() - started
    assert not report.failed_calls, report.errors
    window = (report.stopped_at_ns - report.started_at_ns) / 1e9
    return report.sent_messages / window, elapsed - seconds


@contextlib.contextmanager
def kept_apart(server: EchoServer) -> Iterator[None]:
    """The server on one processor; this process and the children it will have on the others."""
    processors = sorted(os.sched_getaffinity(0))
    if len(processors) > 1:
        os.sched_setaffinity(server.process.pid, processors[-1:])
        os.sched_setaffinity(0, processors[:-1])
    try:
        yield
    finally:
        os.sched_setaffinity(0, processors)


def main(size: Size = FULL) -> None:
    from scipy import stats  # noqa: PLC0415  the bare processes do without

    from harness.definitions import inference  # noqa: PLC0415

    with tempfile.TemporaryDirectory() as directory, running() as server, kept_apart(server):
        results, connection_string = Path(directory), server.connection_string()
        with LocustClients(log_directory=results / "logs") as clients:
            through_locust(
                clients, connection_string, max(size.threads), size.seconds, results
            )  # not measured: starts up
            print(
                f"client: sends per second, {PAYLOAD_BYTES} bytes, echo server, "
                f"{size.turns} turns of {size.seconds:g} s"
            )
            print(f"{'threads':>9}{'bare':>10}{'locust':>10}{'ratio':>8}{'95 % interval':>24}{'overhead per cell':>20}")
            for threads in size.threads:
                bare, locust, overhead = [], [], []
                for turn in range(size.turns):
                    if turn % 2:
                        bare.append(bare_process(connection_string, threads, size.seconds))
                    calls, beyond_s = through_locust(clients, connection_string, threads, size.seconds, results)
                    locust.append(calls)
                    overhead.append(beyond_s)
                    if not turn % 2:
                        bare.append(bare_process(connection_string, threads, size.seconds))
                ratios = [ours / theirs for ours, theirs in zip(locust, bare, strict=True)]
                found = stats.quantile_test(ratios, p=0.5).confidence_interval(inference.CONFIDENCE)
                known = f"{found.low:.2f} to {found.high:.2f}" if found.low > 0 else inference.no_interval(len(ratios))
                print(
                    f"{threads:>9}{statistics.median(bare):>10.0f}{statistics.median(locust):>10.0f}"
                    f"{statistics.median(ratios):>8.2f}{known:>24}"
                    f"{1000 * statistics.median(overhead):>17.0f} ms",
                    flush=True,
                )


if __name__ == "__main__":
    if sys.argv[1:2] == ["--bare"]:
        print(bare_loop(sys.stdin.read(), int(sys.argv[2]), float(sys.argv[3])))
    else:
        main()
