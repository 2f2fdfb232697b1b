"""The process in a container of the stand-in for Docker: an embedded instance on its own loopback address. It resolves
the names of the other containers, as Docker's name server would."""

import asyncio
import ctypes
import gc
import os
import signal
import sys
from pathlib import Path
from typing import Any

from harness.embedded.broker import router
from harness.embedded.server import serve

LISTENING_TIMEOUT_S = 120.0
_PR_SET_NAME = 15


def know_hosts(addresses: dict[str, str]) -> None:
    """Resolve the names of containers in routes; uvloop, which resolves the others, does not ask Python."""
    parse = router.parse_address

    def parse_address(address: str, route: str = "") -> tuple[str, int]:
        host, port = parse(address, route)
        return addresses.get(host, host), port

    router.parse_address = parse_address


def main(given: dict[str, Any]) -> int:
    """Serve until the engine ends the container, and return the exit code."""
    know_hosts(given["hosts"])
    return serve.main(
        name=given["hostname"],
        host=given["address"],
        port=1433,
        admin_port=0,
        data=Path(given["data"]),
        server_version=given["version"],
        with_parent=True,
        throwaway=True,
    )


class Process:
    """A process that plays a container, forked from the engine's."""

    def __init__(self, given: dict[str, Any], password: str, log: Path) -> None:
        input_, self._input = os.pipe()
        self._output, output = os.pipe()
        self.pid = os.fork()
        if not self.pid:
            code = 1
            try:
                gc.freeze()  # nothing of the engine is collected here: it would close descriptors of this process
                for number, descriptor in enumerate((input_, output, os.open(log, os.O_WRONLY | os.O_APPEND))):
                    os.dup2(descriptor, number)
                os.closerange(3, os.sysconf("SC_OPEN_MAX"))
                ctypes.CDLL(None).prctl(_PR_SET_NAME, given["hostname"].encode())
                os.environ["HARNESS_PASSWORD"] = password
                code = main(given)
            finally:
                sys.stdout.flush()
                os._exit(code)
        os.close(input_)
        os.close(output)
        self._ended = os.pidfd_open(self.pid)

    async def first_line(self) -> bytes:
        reader = asyncio.StreamReader()
        pipe = os.fdopen(self._output, "rb")
        transport, _ = await asyncio.get_running_loop().connect_read_pipe(
            lambda: asyncio.StreamReaderProtocol(reader), pipe
        )
        try:
            return await asyncio.wait_for(reader.readline(), LISTENING_TIMEOUT_S)
        finally:
            transport.close()

    def terminate(self) -> None:
        """Ask by one signal alone. While the main thread waits for a thread, a second signal stays pending, and CPython 3.11 then
        lets a thread that coverage traces begin its next function for ever."""
        signal.pidfd_send_signal(self._ended, signal.SIGTERM)

    async def wait(self) -> int:
        """Wait for its end and return its exit code, or minus the signal."""
        loop, ended = asyncio.get_running_loop(), asyncio.Event()
        loop.add_reader(self._ended, ended.set)
        await ended.wait()
        loop.remove_reader(self._ended)
        os.close(self._ended)
        os.close(self._input)
        return os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])
