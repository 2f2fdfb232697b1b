"""One instance of SQL Server, as far as Service Broker goes."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from typing import Protocol

from harness.embedded.broker.counters import Counters
from harness.embedded.broker.database import Database
from harness.embedded.broker.frames import Frame
from harness.embedded.broker.monitors import QueueMonitor, QueueReader
from harness.embedded.broker.objects import BrokerEndpoint
from harness.embedded.broker.queues import Queue
from harness.embedded.broker.security import Login
from harness.embedded.broker.transactions import Transaction
from harness.embedded.runtime.platform import Platform, RealPlatform
from harness.embedded.runtime.tasks import Entropy, Scheduler, Waiting
from harness.embedded.runtime.waits import WaitStatistics
from harness.embedded.store import Store


class Transport(Protocol):
    """Carries frames between brokers; implemented over TCP by `embedded.server`, by arrays in tests."""

    def listen(self, host: str, port: int) -> None: ...

    def stop_listening(self) -> None: ...

    def send(self, address: tuple[str, int], frames: Sequence[Frame]) -> None:
        """Never blocks. What cannot be delivered may be lost: the broker sends again what is not acknowledged."""
        ...


class Engine:
    """One instance: databases, logins, the broker endpoint, and the machinery between them."""

    def __init__(
        self,
        *,
        name: str,
        version: str,
        scheduler: Scheduler,
        entropy: Entropy,
        store: Store,
        transport: Transport | None = None,
        platform: Platform | None = None,
    ) -> None:
        self.name = name
        self.version = version
        self.scheduler = scheduler
        self.clock = scheduler.clock
        self.entropy = entropy
        self.store = store
        self.transport = transport
        self.platform: Platform = platform or RealPlatform()
        self.waits = WaitStatistics()
        self.counters = Counters()
        self.error_log: deque[str] = deque(maxlen=1000)  # ERRORLOG, newest last
        self.databases: dict[str, Database] = {}  # by name, lower case
        self.logins: dict[str, Login] = {}  # by name, lower case
        self.broker_endpoint: BrokerEndpoint | None = None
        self.activate: Callable[[Database, Queue], Waiting[None]]  # set by tsql.activation

    def begin_transaction(self) -> Transaction:
        raise NotImplementedError

    def recover(self) -> None:
        """Loads everything from the store, before anything runs."""
        raise NotImplementedError

    def create_database(self, tx: Transaction, name: str) -> Database:
        raise NotImplementedError

    def drop_database(self, tx: Transaction, name: str) -> None:
        raise NotImplementedError

    def create_login(
        self, tx: Transaction, name: str, *, password: str | None = None, from_certificate: str | None = None
    ) -> Login:
        raise NotImplementedError

    def drop_login(self, tx: Transaction, name: str) -> None:
        raise NotImplementedError

    def create_endpoint(
        self,
        tx: Transaction,
        name: str,
        *,
        state: str = "STOPPED",
        port: int,
        ip: str | None = None,
        authentication: str = "WINDOWS NEGOTIATE",
        certificate: str | None = None,
        encryption: str = "REQUIRED",
        algorithm: str = "AES",
    ) -> BrokerEndpoint:
        raise NotImplementedError

    def alter_endpoint(
        self, tx: Transaction, name: str, *, state: str | None = None, port: int | None = None
    ) -> None:
        raise NotImplementedError

    def drop_endpoint(self, tx: Transaction, name: str) -> None:
        raise NotImplementedError

    def grant_connect(self, tx: Transaction, endpoint: str, login: str) -> None:
        """GRANT CONNECT ON ENDPOINT::endpoint TO login."""
        raise NotImplementedError

    def presented_certificate(self) -> bytes | None:
        """The blob of the endpoint's certificate, for the transport's handshake."""
        raise NotImplementedError

    def accepts_certificate(self, blob: bytes | None) -> bool:
        """Whether a peer that presents this certificate may connect."""
        raise NotImplementedError

    def on_frames(self, peer: object, frames: Sequence[Frame]) -> None:
        """Called by the transport, on the loop; `peer` is any name of the other side."""
        raise NotImplementedError

    def on_connection_state(self, address: tuple[str, int], up: bool, error: str) -> None:
        raise NotImplementedError

    def queue_monitors(self) -> Iterator[QueueMonitor]:
        """sys.dm_broker_queue_monitors"""
        raise NotImplementedError

    def activated_tasks(self) -> Iterator[QueueReader]:
        """sys.dm_broker_activated_tasks"""
        raise NotImplementedError

    def current_reader(self) -> QueueReader | None:
        """The activated task that runs now; the session that runs its procedure enters its `spid` there."""
        raise NotImplementedError
