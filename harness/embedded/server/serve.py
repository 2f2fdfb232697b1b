"""`harness serve`: an instance of the embedded Service Broker as a process.

It locks its data folder, builds the parts, recovers what the store holds, listens, prints one line of JSON on stdout,
and serves until SIGTERM, the end of its parent, or a bug in a task of the broker's own: an instance with a dead task
would look alive. A bug inside a statement is an error of that statement (`tsql.instance.defects`).
"""

import asyncio
import errno
import functools
import gc
import ipaddress
import json
import logging
import os
import platform
import resource
import signal
import socket
import ssl
from collections.abc import Callable
from pathlib import Path

import uvloop

from harness.embedded.broker.engine import Engine
from harness.embedded.broker.environment import ErrorLog
from harness.embedded.runtime.platform import Platform, RealPlatform, WaitStatistics
from harness.embedded.runtime.realtime import RealTimeDriver, SystemClock, SystemEntropy
from harness.embedded.runtime.tasks import SECOND, Scheduler, Task
from harness.embedded.server import data_folder, passwords
from harness.embedded.server import log as server_log
from harness.embedded.server.authentication import LoginAuthenticator, given_context, self_signed_context
from harness.embedded.server.broker_transport import BrokerTransport
from harness.embedded.server.cryptography import ServerKeys
from harness.embedded.server.data_folder import CannotServe
from harness.embedded.server.defect_log import DefectLog
from harness.embedded.server.error_log_file import ErrorLogFile
from harness.embedded.server.memory import MemoryWatch, resident_bytes
from harness.embedded.server.parent import die_with_parent, obey_parent
from harness.embedded.server.session_ids import SessionIds
from harness.embedded.server.statement_budget import DEFAULT_S, StatementBudget
from harness.embedded.server.tds_listener import Admit, TdsListener
from harness.embedded.tds.connection import ServerIdentity
from harness.embedded.tsql.instance.instance import Instance, Usage
from harness.embedded.tsql.requests import activate, sending_problem
from harness.embedded.tsql.storage.tables import database_of
from harness.embedded.versions import NEWEST, product
from harness.failures import UsageFailure

log = logging.getLogger(__name__)

PASSWORD_VARIABLE = "HARNESS_PASSWORD"
OLD_PASSWORD_VARIABLE = "HARNESS_SA_PASSWORD"
OK, DISK_FAILED, INTERNAL_ERROR = 0, 3, 70
LOOPBACK = "127.0.0.1"
# Messages and rows live long and form no cycles. With Python's own thresholds (700, 10, 10) a collection stops a
# process with 100,000 rows for 200 ms at a time; with these, for less than 30.
GC_THRESHOLD = (50_000, 50, 100)


def main(
    *,
    name: str,
    port: int,
    data: Path,
    server_version: str = NEWEST,
    host: str = "127.0.0.1",
    admin_port: int | None = None,
    certificate: Path | None = None,
    certificate_key: Path | None = None,
    with_parent: bool = False,
    throwaway: bool = False,
    statement_budget: float = DEFAULT_S,
) -> int:
    """Serve until stopped, and return the exit code. `admin_port`, if given, is the port of the dedicated administrator
    connection, on this machine only; `certificate` and `certificate_key` are PEM files for TLS. `throwaway` data is
    deleted afterwards by whoever started the instance. UsageFailure or CannotServe if it cannot start."""
    flood = server_log.start()
    if with_parent:
        die_with_parent()
    # Removed from the environment so that no child process inherits them.
    password, old_password = (os.environ.pop(name, "") for name in (PASSWORD_VARIABLE, OLD_PASSWORD_VARIABLE))
    if old_password and not password:
        log.warning("set %s: this release is the last that reads %s", PASSWORD_VARIABLE, OLD_PASSWORD_VARIABLE)
        password = old_password
    if not password:
        raise UsageFailure(f"{PASSWORD_VARIABLE} is not set: give the login sa a password with it")
    if certificate_key is not None and certificate is None:
        raise UsageFailure("--certificate-key is the key of a certificate: name that too (--certificate)")
    tls = given_context(certificate, certificate_key) if certificate is not None else self_signed_context(name)
    _open_as_many_files_as_allowed()
    with data_folder.claim(data):
        cost = passwords.THROWAWAY if throwaway else passwords.LASTING
        server = InstanceServer(
            name, server_version, data, password, tls, cost=cost, statement_budget_s=statement_budget
        )
        exit_code = uvloop.run(server.serve(host, port, admin_port=admin_port, with_parent=with_parent))
    if hidden := flood.hidden():
        log.warning("%d records like others were not logged", hidden)
    return exit_code


class InstanceServer:
    """The parts of one instance, started and stopped in order."""

    def __init__(  # noqa: PLR0917
        self,
        name: str,
        version: str,
        data: Path,
        password: str,
        tls: ssl.SSLContext,
        platform: Callable[[Scheduler, WaitStatistics], Platform] = lambda scheduler, waits: RealPlatform(),
        cost: passwords.Cost = passwords.LASTING,
        statement_budget_s: float = DEFAULT_S,
    ) -> None:
        self._name = name
        self._version = version
        self._data = data
        self._password = password
        self._tls = tls
        self._platform = platform
        self._cost = cost
        self._statement_budget_s = statement_budget_s
        self._listeners: list[TdsListener] = []
        self._error_log: ErrorLog
        self._exit_code = OK

    async def serve(self, host: str, port: int, *, admin_port: int | None, with_parent: bool) -> int:
        loop = asyncio.get_running_loop()
        self._stopping = asyncio.Event()
        loop.set_exception_handler(self._on_loop_error)
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self._stopping.set)
        if with_parent:
            obey_parent(loop, stop=self._stopping.set, advance=self._advance)
        await self._start(loop, host, port, admin_port)
        try:
            await self._stopping.wait()
        finally:
            await self._stop()
        return self._exit_code

    async def _start(self, loop: asyncio.AbstractEventLoop, host: str, port: int, admin_port: int | None) -> None:
        driver = self._driver = RealTimeDriver(SystemClock(), self._on_task_error, loop)
        scheduler = driver.scheduler
        store, key, notes = data_folder.opened(
            self._data,
            scheduler=scheduler,
            call_soon=loop.call_soon_threadsafe,
            lost=self._on_lost_store,
            owner_of=database_of,
        )
        self._store = store
        waits = WaitStatistics()
        transport = self._transport = BrokerTransport(loop, host=host, run=driver.run)
        self._error_log = ErrorLog(scheduler.clock, ErrorLogFile(self._data).append)
        engine = Engine(
            name=self._name,
            version=self._version,
            scheduler=scheduler,
            entropy=SystemEntropy(),
            store=store,
            transport=transport,
            platform=self._platform(scheduler, waits),
            waits=waits,
            keys=ServerKeys(key, self._cost),
            hash_password=functools.partial(passwords.hashed, cost=self._cost),
            error_log=self._error_log,
            activate=activate,
            sending_problem=sending_problem,
        )
        transport.broker = engine
        engine.link.connections = transport.connections
        instance = Instance.of(engine)
        engine.recover()
        for note in notes:
            engine.error_log.write(note)
        instance.usage, instance.data_folder = _usage, self._data
        instance.defects.report = DefectLog().report
        if engine.rows_set_aside:
            log.error("%d rows of %s cannot be read and are set aside:", engine.rows_set_aside, self._data)
            for line in engine.error_log.lines:
                log.error("%s", line)
        authenticator = LoginAuthenticator(engine, sa_password=self._password, loop=loop)
        spids = SessionIds()
        major, minor, build, _ = product(self._version)[0].split(".")
        identity = ServerIdentity(self._name, (int(major), int(minor), int(build)))

        def listener(admit: Admit, *, requires_encryption: bool = False) -> TdsListener:
            return TdsListener(
                identity,
                admit,
                scheduler=scheduler,
                driver=driver,
                authenticator=authenticator,
                tls=self._tls,
                requires_encryption=requires_encryption,
                spids=spids,
                waits=waits,
            )

        gc.freeze()  # what exists now lives as long as the process: collections need not look at it
        gc.set_threshold(*GC_THRESHOLD)
        self._memory = MemoryWatch(loop, instance)
        instance.sqlite.keep_to(StatementBudget(self._statement_budget_s, scheduler, self._memory.is_short))
        ready: dict[str, str | int] = {"name": self._name, "host": host}
        beyond = not is_loopback(host)
        if beyond:
            log.info("other machines reach %s: clients that do not encrypt with TLS are refused on --port", host)
        clients = listener(authenticator.admit, requires_encryption=beyond)
        ready["port"] = await self._listen(clients, host, port, "--port")
        if admin_port is not None:
            administrators = listener(functools.partial(authenticator.admit, is_administrative=True))
            ready["admin_port"] = await self._listen(administrators, LOOPBACK, admin_port, "--admin-port")
        log.info("%s behaves like SQL Server %s, data in %s", self._name, self._version, self._data)
        print(json.dumps(ready), flush=True)  # noqa: T201  in ASCII

    async def _listen(self, listener: TdsListener, host: str, port: int, option: str) -> int:
        try:
            bound = await listener.listen(host, port)
        except OSError as error:
            self._store.close()
            raise CannotServe(_no_port(host, port, error, option)) from None
        self._listeners.append(listener)
        log.info("listening on %s port %d (%s)", host, bound, option)
        return bound

    async def _stop(self) -> None:
        log.info("stopping")
        self._memory.stop()
        for listener in self._listeners:
            await listener.close()
        self._transport.stop()
        self._driver.run()
        self._store.close()

    async def _advance(self, seconds: float) -> None:
        await self._driver.advance(round(seconds * SECOND), lambda: self._store.is_busy)

    def _on_task_error(self, task: Task, error: BaseException) -> None:
        log.critical("the task %s died", task.name, exc_info=error)
        self._end_after_bug()

    def _on_lost_store(self, error: Exception) -> None:
        """End the process at once, from whatever thread: no client may be told anything of the commits under way."""
        text = f"The data folder failed: {error}. The instance ends; its next start reads what is stored."
        self._error_log.write(text)
        log.critical("%s", text)
        os._exit(DISK_FAILED)

    def _on_loop_error(self, loop: asyncio.AbstractEventLoop, context: dict[str, object]) -> None:
        error = context.get("exception")
        log.error("%s", context.get("message"), exc_info=error if isinstance(error, BaseException) else None)
        if isinstance(error, AssertionError):
            self._end_after_bug()

    def _end_after_bug(self) -> None:
        self._exit_code = INTERNAL_ERROR
        self._stopping.set()


def is_loopback(host: str) -> bool:
    """Whether only this machine reaches the address, or all addresses of the name."""
    try:
        addresses = {str(entry[4][0]) for entry in socket.getaddrinfo(host or None, None, flags=socket.AI_PASSIVE)}
    except OSError:  # listening will fail with the reason
        return False
    return all(ipaddress.ip_address(address.partition("%")[0]).is_loopback for address in addresses)


def _open_as_many_files_as_allowed() -> None:
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))


def _no_port(host: str, port: int, error: OSError, option: str) -> str:
    if error.errno == errno.EADDRINUSE:
        return f"port {port} on {host} is in use: stop its listener, or choose another port ({option}, 0 for any)"
    return f"cannot listen on {host} port {port} ({error.strerror}): choose another (--host, {option})"


def _usage() -> Usage:
    spent = resource.getrusage(resource.RUSAGE_SELF)
    page_kb = os.sysconf("SC_PAGE_SIZE") // 1024
    return Usage(
        cpu_count=os.cpu_count() or 1,
        physical_memory_kb=os.sysconf("SC_PHYS_PAGES") * page_kb,
        available_physical_memory_kb=os.sysconf("SC_AVPHYS_PAGES") * page_kb,
        process_memory_kb=resident_bytes() // 1024,
        host_platform=platform.system(),
        host_distribution=_distribution(),
        host_release=platform.release(),
        process_user_time_ms=int(spent.ru_utime * 1000),
        process_kernel_time_ms=int(spent.ru_stime * 1000),
    )


@functools.cache
def _distribution() -> str:
    try:
        return platform.freedesktop_os_release().get("NAME", "")
    except OSError:
        return ""
