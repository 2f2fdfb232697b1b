"""The instance's link to others: its Service Broker endpoint, the transport behind it, and the work of the tasks that
transmit (dispatchers) and of those that take frames from the network (inboxes).

The platform sets the number of these tasks; a conversation always has the same ones.
"""

import errno
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Protocol
from zlib import crc32

from harness.embedded.broker.catalog import Catalog
from harness.embedded.broker.complaints import Complaints
from harness.embedded.broker.database import ConversationEndpoint, Database
from harness.embedded.broker.definitions import BrokerEndpoint, Certificate, Encryption
from harness.embedded.broker.environment import Counters, Environment
from harness.embedded.broker.frames import Frame
from harness.embedded.broker.keys import Protection
from harness.embedded.errors import SqlServerError
from harness.embedded.runtime.tasks import Signal


class Transport(Protocol):
    """Carries frames between brokers; implemented over TCP by `embedded.server`, by arrays in tests."""

    def listen(self, host: str, port: int) -> None: ...

    def stop(self) -> None:
        """Stop listening, and close all connections."""
        ...

    def send(self, address: tuple[str, int], frames: Sequence[Frame]) -> None:
        """Send without blocking. Frames may be lost: the broker sends unacknowledged messages again."""
        ...


@dataclass(slots=True)
class Connection:
    """A network connection with another broker: a row of sys.dm_broker_connections."""

    connection_id: str
    is_accept: bool  # the peer has connected
    connect_time: int  # UTC, nanoseconds, as all times here
    last_activity_time: int
    counters: Counters  # of the instance
    login_time: int | None = None  # of the end of the handshake
    peer_certificate: bytes | None = None  # known from then on
    is_encrypted: bool = False
    total_bytes_sent: int = 0
    total_bytes_received: int = 0
    total_fragments_sent: int = 0
    total_fragments_received: int = 0
    total_sends: int = 0
    total_receives: int = 0

    def sent(self, size: int, fragments: int, now_ns: int) -> None:
        self.total_sends += 1
        self.total_bytes_sent += size
        self.counters.bytes_sent += size
        self.total_fragments_sent += fragments
        self.last_activity_time = now_ns

    def received(self, size: int, now_ns: int) -> None:
        self.total_receives += 1
        self.total_bytes_received += size
        self.counters.bytes_received += size
        self.last_activity_time = now_ns


class BrokerLink:
    connections: Callable[[], Iterable[Connection]] = tuple  # replaced by a transport that makes connections

    def __init__(self, transport: Transport | None, databases: dict[str, Database], environment: Environment) -> None:
        self.transport = transport
        self.endpoint: BrokerEndpoint | None = None  # CREATE ENDPOINT ... FOR SERVICE_BROKER
        self.failure: tuple[int, object] | None = None  # why it does not listen: an error's number and argument
        self._databases = databases
        self._counters = environment.counters
        self._error_log = environment.error_log
        self.complaints = Complaints(environment)
        self._clock = environment.clock
        self._keys = environment.keys

    @property
    def master(self) -> Catalog:
        """The principals of master, which hold the certificates of the link."""
        return self._databases["master"].catalog

    @property
    def is_open(self) -> bool:
        return self.transport is not None and self.endpoint is not None and self.endpoint.state == "STARTED"

    def send(self, address: tuple[str, int], frames: Sequence[Frame]) -> None:
        if self.transport is not None:
            self.transport.send(address, frames)
            self._counters.fragments_sent += len(frames)

    def listen(self) -> None:
        """Make the transport listen if the endpoint is STARTED, or stop: then no connection stays."""
        self.failure = None
        if self.transport is None:
            return
        self.transport.stop()
        endpoint = self.endpoint
        if endpoint is None or endpoint.state != "STARTED":
            return
        try:
            self.transport.listen(endpoint.ip or "0.0.0.0", endpoint.port)
        except OSError as error:
            in_use = error.errno == errno.EADDRINUSE
            self.failure = (9692, endpoint.port) if in_use else (9693, error)
            self._error_log.write(SqlServerError(*self.failure).text)

    # The transport's handshake

    @property
    def encryption(self) -> Encryption:
        """ENCRYPTION of the endpoint."""
        return "DISABLED" if self.endpoint is None else self.endpoint.encryption

    def presented_certificate(self) -> bytes | None:
        """The blob of the endpoint's certificate."""
        certificate = self._certificate()
        return certificate.blob if certificate is not None else None

    def sign(self, data: bytes) -> bytes:
        """Sign with the private key of the endpoint's certificate; ValueError if `own_refusal` has something to say."""
        certificate, master_key = self._certificate(), self.master.principals.master_key
        if certificate is None or certificate.private_key is None or master_key is None:
            raise ValueError(self.own_refusal())
        return self._keys.sign(certificate.private_key, Protection(master_key), data)

    def verify(self, certificate: bytes, signature: bytes, data: bytes) -> None:
        """Check that the owner of a certificate has signed the data; raise ValueError if not."""
        self._keys.verify(certificate, signature, data)

    def own_refusal(self) -> str:
        """Say why this endpoint cannot prove who it is; empty if it can."""
        certificate = self._certificate()
        if certificate is None:
            return ""  # refused as having no compatible authentication protocol
        reason = self._invalid(certificate)
        if not reason and (not certificate.has_usable_key or self.master.master_key_error() is not None):
            reason = "The certificate's private key cannot be found"
        return SqlServerError(28036, reason, 85).text if reason else ""

    def refusal_of(self, blob: bytes | None) -> str:
        """Say why a peer with this certificate may not connect, whoever owns it; empty if it may."""
        endpoint = self.endpoint
        if endpoint is None or endpoint.state != "STARTED":
            return "Connection handshake failed. The Service Broker endpoint is not started."
        if "CERTIFICATE" not in endpoint.authentication.upper() or blob is None:
            return SqlServerError(28027, "authentication protocol", 21).text
        certificate = self.certificate_of(blob)
        reason = "Certificate not found" if certificate is None else self._invalid(certificate)
        return SqlServerError(28035, reason, 89).text if reason else ""

    def refusal_of_owner(self, blob: bytes | None) -> str:
        """Say why the owner of a peer's certificate may not connect, once the peer has proved that it is his; empty if
        he may. The login of the user of master who owns the certificate needs CONNECT; dbo's is sa."""
        endpoint, certificate = self.endpoint, self.certificate_of(blob)
        if endpoint is None or certificate is None:
            return self.refusal_of(blob)  # changed meanwhile
        owner = certificate.owner.lower()
        user = self.master.principals.users.get(owner)
        login = "sa" if owner == "dbo" else user.login if user is not None else None
        granted = endpoint.connect_granted_to
        if login is not None and (login == "sa" or "public" in granted or login.lower() in granted):
            return ""
        return SqlServerError(28034, login or certificate.owner, 84).text

    def _invalid(self, certificate: Certificate) -> str:
        now_ns = self._clock.utc_ns()
        if certificate.start_ns > now_ns:
            return "Certificate not yet valid"
        return "" if certificate.is_valid(now_ns) else "Certificate expired"

    def certificate_of(self, blob: bytes | None) -> Certificate | None:
        """The certificate of master with this blob."""
        certificates = self.master.principals.certificates.values()
        return next((certificate for certificate in certificates if certificate.blob == blob), None)

    def _certificate(self) -> Certificate | None:
        endpoint = self.endpoint
        if endpoint is None or endpoint.certificate is None:
            return None
        return self.master.principals.certificate(endpoint.certificate)


@lru_cache(maxsize=4096)  # called for every frame; few conversations are active at a time
def share(conversation_id: str, dispatchers: int) -> int:
    """Compute the number of a conversation's dispatcher: the same in every process, unlike hash()."""
    return crc32(conversation_id.encode()) % dispatchers if dispatchers > 1 else 0


class Dispatcher:
    """The work of one transmitting task."""

    __slots__ = ("woken", "work")

    def __init__(self) -> None:
        self.woken: dict[ConversationEndpoint, None] = {}
        self.work = Signal()


class Dispatchers:
    def __init__(self, count: int) -> None:
        self.all = [Dispatcher() for _ in range(count)]

    def wake(self, endpoint: ConversationEndpoint) -> None:
        """Let the endpoint's dispatcher check whether it has something to send."""
        dispatcher = self.all[share(endpoint.terms.conversation_id, len(self.all))]
        dispatcher.woken[endpoint] = None
        if dispatcher.work.waiters:
            dispatcher.work.notify_one()


class Inbox:
    __slots__ = ("frames", "signal")

    def __init__(self) -> None:
        self.frames: list[Frame] = []
        self.signal = Signal()

    def emptied(self) -> list[Frame]:
        frames, self.frames = self.frames, []
        return frames


class Inboxes:
    """Frames from the network that no task has taken yet."""

    def __init__(self, count: int, counters: Counters) -> None:
        self.all = [Inbox() for _ in range(count)]
        self._counters = counters

    def put(self, frames: Sequence[Frame]) -> None:
        self._counters.fragments_received += len(frames)
        inboxes = self.all
        for frame in frames:
            inbox = inboxes[share(frame.conversation_id, len(inboxes))]
            inbox.frames.append(frame)
            if inbox.signal.waiters:
                inbox.signal.notify_one()
