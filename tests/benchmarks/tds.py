"""What TDS costs the server: microseconds a call, and calls per second against a server that does the least.

The first table holds a captured call, decoded, answered by a session that does nothing, and encoded, without a socket.
The second drives two servers with the same bare threads, in turns so that they share the machine's mood: the listener
with a session that answers at once, and the echo server, which looks for a few bytes and sends constants.
"""

import asyncio
import statistics
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from harness.embedded.runtime.realtime import RealTimeDriver, SystemClock
from harness.embedded.runtime.tasks import Task
from harness.embedded.server.tds_listener import TdsListener, TdsProtocol
from harness.embedded.sqltypes import INT
from harness.embedded.tds.login import Login7
from harness.lab import drivers
from tests.benchmarks.client import bare_loop
from tests.embedded.server.canned import PASSWORD, canned_server
from tests.embedded.tds.captures import SERVER, writes
from tests.load.echo_server import running

CALLS = ("freetds_call", "microsoft_call", "microsoft_exec_two_packets", "microsoft_exec_max")


@dataclass(frozen=True)
class Size:
    repeats: int
    threads: tuple[int, ...]
    turns: int
    seconds: float


FULL = Size(20_000, (1, 10, 50), turns=5, seconds=0.6)
SMALLEST = Size(2, (2,), turns=1, seconds=0.05)


class NoSocket(asyncio.Transport):
    def __init__(self) -> None:
        super().__init__()
        self.written = 0

    def write(self, data: Any) -> None:
        self.written += 1

    def abort(self) -> None:
        pass

    def is_closing(self) -> bool:
        return False

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        pass


class IdleSession:
    """Answers every call with status 0, and with a handle if its first parameter is OUTPUT."""

    tx = None
    is_over = False

    def rpc(self, name: str, parameters: Sequence[Any], sink: Any) -> Iterator[Any]:
        sink.return_status(0)
        if parameters[0].output:
            sink.return_value(0, "", INT, 1)
        yield from ()

    def reset(self) -> None: ...

    def close(self) -> None: ...


def admit_all(login: Login7, spid: int) -> tuple[Any, str]:
    return IdleSession(), "lab"


def fail(task: Task, error: BaseException) -> None:
    raise error


def microseconds_a_call(listener: TdsListener, name: str, repeats: int) -> float:
    protocol, socket = TdsProtocol(listener), NoSocket()
    protocol.connection_made(socket)
    prelogin, login, *_ = writes("microsoft_login")
    protocol.data_received(prelogin)
    protocol.data_received(login)
    before, receive, data = socket.written, protocol.data_received, writes(name)[-1]
    started = time.perf_counter()
    for _ in range(repeats):
        receive(data)
    elapsed = time.perf_counter() - started
    assert socket.written == before + repeats, "not every call was answered"
    return elapsed / repeats * 1e6


async def without_sockets(repeats: int) -> None:
    loop = asyncio.get_running_loop()
    driver = RealTimeDriver(SystemClock(), fail, loop)
    listener = TdsListener(SERVER, admit_all, scheduler=driver.scheduler, driver=driver)
    print("tds: a call decoded, run by a session that does nothing, answered; no socket")
    for name in CALLS:
        print(f"{name:>28}{microseconds_a_call(listener, name, repeats):>8.1f} µs", flush=True)


def main(size: Size = FULL) -> None:
    asyncio.run(without_sockets(size.repeats))
    driver = drivers.choose("microsoft")
    with running() as echo, canned_server() as port:
        listener = driver.connection_string(
            host="127.0.0.1", port=port, user="sa", password=PASSWORD, database="lab", program="benchmark"
        )
        print(f"tds: calls per second of bare threads, {size.turns} turns of {size.seconds:g} s")
        print(f"{'threads':>9}{'echo':>10}{'listener':>10}{'ratio':>8}")
        for threads in size.threads:
            turns = [
                (bare_loop(echo.connection_string(), threads, size.seconds), bare_loop(listener, threads, size.seconds))
                for _ in range(size.turns)
            ]
            least, ours = (statistics.median(turn[side] for turn in turns) for side in (0, 1))
            ratio = statistics.median(ours / least for least, ours in turns)
            print(f"{threads:>9}{least:>10.0f}{ours:>10.0f}{ratio:>8.2f}", flush=True)


if __name__ == "__main__":
    main()
