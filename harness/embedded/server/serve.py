"""`harness serve`: one instance of the embedded Service Broker as a process.

Builds the parts, recovers what the store holds, listens, says so in one line of JSON on stdout, and serves until
SIGTERM, the end of its parent, or a bug: a task that dies unnoticed would leave an instance that looks alive.
"""

from __future__ import annotations

import asyncio
import errno
import gc
import json
import logging
import os
import resource
import signal
import sys
from pathlib import Path

from harness.embedded.broker.engine import Engine
from harness.embedded.runtime.realtime import RealTimeDriver, SystemClock, SystemEntropy
from harness.embedded.runtime.tasks import Scheduler, Task
from harness.embedded.server.certificate import self_signed_context
from harness.embedded.server.gate import LoginGate
from harness.embedded.server.lifetime import CannotServe, die_with_parent, lock_folder, stop_at_end_of_stdin
from harness.embedded.server.listener import TdsListener
from harness.embedded.server.transport import BrokerTransport
from harness.embedded.store.file import FileStore
from harness.embedded.tds.connection import ServerIdentity
from harness.embedded.tsql import activation
from harness.embedded.tsql.instance import Instance, Usage
from harness.failures import UsageFailure

log = logging.getLogger(__name__)

PASSWORD_VARIABLE = "HARNESS_SA_PASSWORD"
# What an instance says it is: the last service packs of the two versions that the paper measured.
VERSIONS = {"2005": (9, 0, 5000), "2008": (10, 0, 6000)}
OK, INTERNAL_ERROR = 0, 70
# Messages and rows live long and hold no cycles. With Python's own thresholds (700, 10, 10) a process with 100,000 rows
# stands still for 200 ms at a time while the collector looks through them; with these, for less than 30.
GC_THRESHOLD = (50_000, 50, 100)


def main(
    *,
    name: str,
    port: int,
    data: Path,
    server_version: str = "2008",
    host: str = "127.0.0.1",
    with_parent: bool = False,
) -> int:
    """Serves until told to stop; the exit code. UsageFailure or CannotServe if it cannot start."""
    logging.basicConfig(stream=sys.stderr, level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s: %(message)s")
    if with_parent:
        die_with_parent()
    if server_version not in VERSIONS:
        raise UsageFailure(f"no version {server_version} of SQL Server; known: {', '.join(VERSIONS)}")
    # Taken out of the environment so that nothing started from here inherits it.
    password = os.environ.pop(PASSWORD_VARIABLE, "")
    if not password:
        raise UsageFailure(f"{PASSWORD_VARIABLE} is not set: give the login sa a password with it")
    with lock_folder(data):
        server = InstanceServer(name, server_version, data, password)
        return asyncio.run(server.serve(host, port, with_parent=with_parent))


class InstanceServer:
    """The parts of one instance and their order of starting and stopping."""

    def __init__(self, name: str, version: str, data: Path, password: str) -> None:
        self._name = name
        self._version = version
        self._data = data
        self._password = password
        self._exit_code = OK

    async def serve(self, host: str, port: int, *, with_parent: bool) -> int:
        loop = asyncio.get_running_loop()
        self._stopping = asyncio.Event()
        loop.set_exception_handler(self._on_loop_error)
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self._stopping.set)
        if with_parent:
            stop_at_end_of_stdin(loop, self._stopping.set)
        await self._start(loop, host, port)
        try:
            await self._stopping.wait()
        finally:
            await self._stop()
        return self._exit_code

    async def _start(self, loop: asyncio.AbstractEventLoop, host: str, port: int) -> None:
        scheduler = Scheduler(SystemClock(), self._on_task_error)
        driver = self._driver = RealTimeDriver(scheduler, loop)
        store = self._store = FileStore(
            self._data / "broker.db", scheduler=scheduler, call_soon=loop.call_soon_threadsafe
        )
        transport = self._transport = BrokerTransport(loop, host=host, run=driver.run)
        engine = Engine(
            name=self._name,
            version=self._version,
            scheduler=scheduler,
            entropy=SystemEntropy(),
            store=store,
            transport=transport,
        )
        transport.attach(engine)
        activation.install(engine)
        engine.recover()
        Instance.of(engine).usage = _usage
        self._listener = TdsListener(
            ServerIdentity(self._name, VERSIONS[self._version]),
            LoginGate(engine, sa_password=self._password),
            scheduler=scheduler,
            driver=driver,
            tls=self_signed_context(self._name),
        )
        gc.collect()
        gc.freeze()
        gc.set_threshold(*GC_THRESHOLD)
        try:
            bound = await self._listener.listen(host, port)
        except OSError as error:
            store.close()
            raise CannotServe(_no_port(host, port, error)) from None
        log.info("%s plays SQL Server %s on %s port %d, data in %s", self._name, self._version, host, bound, self._data)
        print(json.dumps({"name": self._name, "host": host, "port": bound}), flush=True)

    async def _stop(self) -> None:
        log.info("stopping")
        await self._listener.close()
        self._transport.close()
        self._driver.run()
        self._store.close()

    def _on_task_error(self, task: Task, error: BaseException) -> None:
        log.critical("the task %s died", task.name, exc_info=error)
        self._end_after_bug()

    def _on_loop_error(self, loop: asyncio.AbstractEventLoop, context: dict[str, object]) -> None:
        error = context.get("exception")
        log.error("%s", context.get("message"), exc_info=error if isinstance(error, BaseException) else None)
        if isinstance(error, AssertionError):
            self._end_after_bug()

    def _end_after_bug(self) -> None:
        self._exit_code = INTERNAL_ERROR
        self._stopping.set()


def _no_port(host: str, port: int, error: OSError) -> str:
    if error.errno == errno.EADDRINUSE:
        return f"port {port} on {host} is in use: stop what listens there, or choose another (--port, 0 for any)"
    return f"cannot listen on {host} port {port} ({error.strerror}): choose another (--host, --port)"


def _usage() -> Usage:
    spent = resource.getrusage(resource.RUSAGE_SELF)
    return Usage(
        cpu_count=os.cpu_count() or 1,
        physical_memory_kb=os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") // 1024,
        process_user_time_ms=int(spent.ru_utime * 1000),
        process_kernel_time_ms=int(spent.ru_stime * 1000),
    )
