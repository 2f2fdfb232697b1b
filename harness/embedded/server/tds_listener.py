"""The TDS listener: one session for each connection, one task for each request.

Bytes are handled where they arrive: in one turn of the loop a request is decoded, its task spawned and the scheduler
run, so that a call that need not wait is answered before `data_received` returns.
"""

import asyncio
import logging
import resource
import ssl
from collections.abc import Callable
from typing import Any, Protocol, cast

from harness.embedded.broker.transactions import Transaction
from harness.embedded.errors import SqlServerError
from harness.embedded.runtime.platform import WaitStatistics
from harness.embedded.runtime.realtime import RealTimeDriver
from harness.embedded.runtime.tasks import Cancelled, Scheduler, Signal, Task, TaskState, Waiting
from harness.embedded.server import unproved
from harness.embedded.server.session_ids import SessionIds
from harness.embedded.tds.bulk_load import BulkLoad
from harness.embedded.tds.connection import Connection, ConnectionState, ServerIdentity
from harness.embedded.tds.login import Login7
from harness.embedded.tds.packets import Room
from harness.embedded.tds.requests import (
    Attention,
    IsolationLevel,
    Refused,
    Request,
    Rpc,
    SqlBatch,
    TransactionRequest,
    TransactionRequestType,
)
from harness.embedded.tds.response import EnvChange, EnvironmentChange, Response
from harness.embedded.tds.wire import TdsProtocolError
from harness.embedded.tsql.instance.instance import USER_SPIDS
from harness.embedded.tsql.requests import ClientSession

log = logging.getLogger(__name__)

LOGIN_TIMEOUT_S = 15
CONNECTIONS_MAX = len(USER_SPIDS) - unproved.PLACES  # with a login; fewer if the process may open fewer files
FILES_RESERVED = 128  # for the store, other instances, and accept
CLOSE_TIMEOUT_S = 15
UNREAD_BYTES_MAX = 1024 * 1024  # of a response that wait for the client in this process; more, and the statement waits


# Decides about a login, given the session's id: the session and the name of its database, or a `SqlServerError`.
Admit = Callable[[Login7, int], tuple[ClientSession, str]]


class Authenticator(Protocol):
    """Checks the name and the password of a login from an address."""

    def is_known(self, login: Login7, address: str) -> bool:
        """Whether they are right, as far as that is known at once."""
        ...

    async def check(self, login: Login7, address: str) -> None:
        """Return if they are right, and raise a `SqlServerError` otherwise."""
        ...


class TdsListener:
    """The port, and what its connections share."""

    def __init__(
        self,
        identity: ServerIdentity,
        admit: Admit,
        *,
        scheduler: Scheduler,
        driver: RealTimeDriver,
        authenticator: Authenticator | None = None,
        tls: ssl.SSLContext | None = None,
        requires_encryption: bool = False,
        spids: SessionIds | None = None,
        waits: WaitStatistics | None = None,
        connections_max: int | None = None,
    ) -> None:
        self.identity = identity
        self.admit = admit
        self.authenticator = authenticator
        self.scheduler = scheduler
        self.driver = driver
        self.tls = tls
        self.requires_encryption = requires_encryption
        self.connections: dict[TdsProtocol, None] = {}
        self.spids = spids or SessionIds()  # a parameter because several ports share them
        self.waits = waits or WaitStatistics()
        self.connections_max = connections_max or _connections_max()
        self.pending = unproved.WaitingRoom(asyncio.get_running_loop())  # without a login
        self.room = Room()
        self._server: asyncio.Server | None = None

    async def listen(self, host: str, port: int) -> int:
        """Listen, and return the port, which the system chooses if `port` is 0."""
        loop = asyncio.get_running_loop()
        self._server = await loop.create_server(lambda: TdsProtocol(self), host, port, backlog=512)
        bound: int = self._server.sockets[0].getsockname()[1]
        return bound

    def check_room(self) -> None:
        """Raise 17809 if as many connections as possible have a login."""
        if len(self.connections) - len(self.pending) >= self.connections_max:
            raise SqlServerError(17809, self.connections_max)

    async def close(self) -> None:
        """Close the port and every connection, whose sessions roll back."""
        if self._server is not None:
            self._server.close()
        for protocol in list(self.connections):
            protocol.abort()
        while self.connections:
            await asyncio.sleep(0)


def _connections_max() -> int:
    files, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return max(1, min(CONNECTIONS_MAX, files - FILES_RESERVED - unproved.PLACES))


class TdsProtocol(asyncio.Protocol):
    """One connection."""

    def __init__(self, listener: TdsListener) -> None:
        self._listener = listener
        self._scheduler = listener.scheduler
        self._arrive, self._run = listener.driver.arrive, listener.driver.run
        self._name = "a connection"
        self._spid = 0  # until the login, which may be refused because all ids are in use
        self._session: ClientSession | None = None
        self._authentication: asyncio.Task[None] | None = None
        self._task: Task | None = None
        self._response: Response | None = None
        self._transaction: Transaction | None = None
        self.is_full = False  # more than `UNREAD_BYTES_MAX` wait for the client
        self._has_room = Signal()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        listener = self._listener
        self._transport.set_write_buffer_limits(UNREAD_BYTES_MAX)
        self._connection = Connection(
            listener.identity,
            self._transport.write,
            tls=listener.tls,
            requires_encryption=listener.requires_encryption,
            reader=self,
            room=listener.room,
        )
        self._name = f"a connection from {self._address}"
        listener.pending.enter(self, self._address, timeout_s=LOGIN_TIMEOUT_S)
        self._receive = self._connection.receive
        listener.connections[self] = None

    def data_received(self, data: bytes) -> None:
        self._arrive()
        try:
            for request in self._receive(data):
                HANDLERS[type(request)](self, request)
        except TdsProtocolError as error:
            log.warning("%s: the client broke the protocol: %s", self._name, error)
            self.close()
        except Exception:
            log.exception("%s: the connection is closed because of a bug", self._name)
            self.close()
        self._run()

    def connection_lost(self, exc: Exception | None) -> None:
        listener = self._listener
        listener.connections.pop(self, None)
        listener.pending.leave(self)
        self._connection.close()
        if self._authentication is not None:
            self._authentication.cancel()
        session, self._session = self._session, None
        if session is None:
            return
        task, self._response = self._task, None
        if task is not None:
            self._scheduler.cancel(task)
        self._scheduler.spawn(self._end(task, session), f"{self._name} closing")
        self._run()

    def _end(self, task: Task | None, session: ClientSession) -> Waiting[None]:
        try:
            if task is not None:  # it may be undoing what it did
                yield from task.join()
        finally:
            session.close()
            self._listener.spids.give_back(self._spid)

    def pause_writing(self) -> None:
        self.is_full = True

    def resume_writing(self) -> None:
        self.is_full = False
        self._has_room.notify_all()

    def wait_until_read(self) -> Waiting[None]:
        """Wait until the client has read enough."""
        waits, clock = self._listener.waits, self._scheduler.clock
        waits.begin(self._task, "ASYNC_NETWORK_IO", clock.now_ns)
        try:
            while self.is_full:
                yield self._has_room.wait()
        finally:
            waits.end(self._task, clock.now_ns)

    def close(self) -> None:
        """Close the connection once everything written is sent, or later if the client does not read it."""
        self._transport.close()
        asyncio.get_running_loop().call_later(CLOSE_TIMEOUT_S, self._transport.abort)

    def abort(self) -> None:
        self._transport.abort()

    def cut_off(self, reason: str) -> None:
        log.warning("%s is closed: %s", self._name, reason)
        self.abort()

    def _log_in(self, login: Login7) -> None:
        authenticator = self._listener.authenticator
        if authenticator is None or authenticator.is_known(login, self._address):
            self._admit(login)
        else:
            self._authentication = asyncio.get_running_loop().create_task(self._authenticate(authenticator, login))

    @property
    def _address(self) -> str:
        """The client's; "" if it has gone."""
        host, *_ = self._transport.get_extra_info("peername") or ("",)
        return str(host)

    async def _authenticate(self, authenticator: Authenticator, login: Login7) -> None:
        try:
            await authenticator.check(login, self._address)
        except SqlServerError as error:
            self._refuse(login, error)
        except Exception:
            log.exception("%s: the login failed because of a bug", self._name)
            self.close()
        else:
            self._admit(login)

    def _admit(self, login: Login7) -> None:
        if self._transport.is_closing():
            return
        listener = self._listener
        try:
            listener.check_room()
            spid = listener.spids.take()
            try:
                self._session, database = listener.admit(login, spid)
                self._session.disconnect = self.abort
            except BaseException:
                listener.spids.give_back(spid)
                raise
        except SqlServerError as error:
            self._refuse(login, error)
            return
        self._spid, self._name = spid, f"session {spid}"
        listener.pending.leave(self)
        self._connection.accept_login(login, database, spid)

    def _refuse(self, login: Login7, error: SqlServerError) -> None:
        log.warning(
            "%s: login of %.130r from %s refused: error %d", self._name, login.user, self._address, error.number
        )
        self._connection.refuse_login(error)
        self.close()

    def _start(self, request: Request) -> None:
        self._response = self._connection.begin_response(is_call=type(request) is Rpc)
        self._task = self._scheduler.spawn(self._answer(request, self._response), self._name)

    def _answer(self, request: Request, response: Response) -> Waiting[None]:
        session = self._session
        assert session is not None
        while self.is_full:  # with what earlier requests answered
            yield self._has_room.wait()
        try:
            if request.reset:
                session.reset()
                self._transaction = None
                response.write(EnvChange(EnvironmentChange.RESET_ACKNOWLEDGED, b"", b""))
            yield from ANSWERS[type(request)](session, request, response)
        except SqlServerError as error:
            response.error(error)
        except Cancelled:
            self._acknowledge_attention()
            raise
        except Exception:
            # Our bug, outside a statement: those become errors of their statements (`tsql.instance.defects`). The
            # session's state is unknown, so the client loses its connection instead of getting an answer.
            log.exception("%s: the request failed because of a bug", self._name)
            self.close()
            return
        if session.tx is not self._transaction:
            self._report_transaction(session.tx, response)
        if self._response is response:
            self._response = None
            self._connection.end_response()
            response.finish()
        if session.is_over:
            self.close()

    def _report_transaction(self, now: Transaction | None, response: Response) -> None:
        before, self._transaction = self._transaction, now
        if before is not None:
            response.transaction_ended(before.id, committed=before.committed)
        if now is not None:
            response.transaction_began(now.id)

    def _attend(self, attention: Attention) -> None:
        task = self._task
        if task is not None and self._response is not None:
            self._scheduler.cancel(task)
            if task.state is TaskState.DONE and self._response is not None:
                # It had not begun, perhaps because the client does not read what it was answered before.
                self._acknowledge_attention()
                if self._transport.get_write_buffer_size() > 2 * UNREAD_BYTES_MAX:
                    log.warning("%s: the client gives up requests and reads no answers", self._name)
                    self.abort()

    def _acknowledge_attention(self) -> None:
        response, self._response = self._response, None
        session = self._session
        if response is None or session is None or self._connection.state is not ConnectionState.BUSY:
            return
        if session.tx is not self._transaction:
            self._report_transaction(session.tx, response)
        self._connection.break_off(response)


def _batch(session: ClientSession, request: SqlBatch, response: Response) -> Waiting[None]:
    return session.batch(request.text, response)


def _rpc(session: ClientSession, request: Rpc, response: Response) -> Waiting[None]:
    calls = request.calls
    for call in calls[:-1]:
        yield from session.rpc(call.name, call.parameters, response)
        response.end_call()
    yield from session.rpc(calls[-1].name, calls[-1].parameters, response)


def _bulk_load(session: ClientSession, request: BulkLoad, response: Response) -> Waiting[None]:
    return session.bulk_load(request.columns, request.rows(), response)


def _transaction(session: ClientSession, request: TransactionRequest, response: Response) -> Waiting[None]:
    verb = TRANSACTION_STATEMENTS[request.type]
    text = f"{verb} [{request.name.replace(']', ']]')}];" if request.name else f"{verb};"
    if request.begin_next:
        text += " BEGIN TRANSACTION;"
    if request.isolation is not IsolationLevel.UNCHANGED:
        text = f"SET TRANSACTION ISOLATION LEVEL {request.isolation.name.replace('_', ' ')}; {text}"
    return session.batch(text, response)


def _refused(session: ClientSession, request: Refused, response: Response) -> Waiting[None]:
    yield from ()
    raise request.error


TRANSACTION_STATEMENTS = {
    TransactionRequestType.BEGIN: "BEGIN TRANSACTION",
    TransactionRequestType.COMMIT: "COMMIT TRANSACTION",
    TransactionRequestType.ROLLBACK: "ROLLBACK TRANSACTION",
    TransactionRequestType.SAVE: "SAVE TRANSACTION",
}
ANSWERS: dict[type, Callable[[ClientSession, Any, Response], Waiting[None]]] = {
    SqlBatch: _batch,
    Rpc: _rpc,
    BulkLoad: _bulk_load,
    TransactionRequest: _transaction,
    Refused: _refused,
}
HANDLERS: dict[type, Callable[[TdsProtocol, Any], None]] = {
    Login7: TdsProtocol._log_in,
    SqlBatch: TdsProtocol._start,
    Rpc: TdsProtocol._start,
    BulkLoad: TdsProtocol._start,
    TransactionRequest: TdsProtocol._start,
    Refused: TdsProtocol._start,
    Attention: TdsProtocol._attend,
}
