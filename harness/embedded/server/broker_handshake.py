"""The handshake of two brokers and the protection of what follows, without sockets.

    connecting                                  listening
    Hello: name, key, certificate      ->
                                       <-       Hello, Proof
    Proof                              ->
                                       <-       Accepted; from now on both protect their records

Each side checks that it accepts the other's certificate, and demands proof that the other has its private key: a
signature over both hellos, so over both names, both certificates and the keys that each side has made for this
connection alone (X25519). A proof therefore fits no other connection, no other peer and no other direction. The session
keys follow from the key exchange (HKDF). Either side may send Refused instead of its next message, and closes.

Every record has its place in the stream as nonce and AES-256-GCM's tag at its end: one that is forged, changed, left
out or sent twice is a ValueError. Records are encrypted too if the endpoints agree on it: ENCRYPTION of CREATE ENDPOINT
is REQUIRED, SUPPORTED or DISABLED, and REQUIRED does not agree with DISABLED.
"""

import hashlib
from collections.abc import Generator
from typing import Annotated, Final, Literal, Protocol, TypeVar

import msgspec
from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.kdf.hkdf import HKDF
from msgspec import Meta

from harness.embedded.broker.definitions import Encryption
from harness.embedded.broker.frames import Certificate
from harness.embedded.errors import SqlServerError

PROTOCOL: Final = "service-broker-harness/2"
MESSAGE_SIZE_MAX = 16 * 1024  # of the handshake
NAME_LENGTH_MAX = 128
REASON_LENGTH_MAX = 500
TAG_BYTES = 16
FAILED = "Connection handshake failed. "
_KEY_BYTES = 32
_NONCE_BYTES = 12


class Link(Protocol):
    """What the handshake needs of the broker's endpoint."""

    @property
    def encryption(self) -> Encryption: ...

    def presented_certificate(self) -> bytes | None: ...

    def own_refusal(self) -> str: ...

    def refusal_of(self, certificate: bytes | None) -> str: ...

    def refusal_of_owner(self, certificate: bytes | None) -> str: ...

    def sign(self, data: bytes) -> bytes: ...

    def verify(self, certificate: bytes, signature: bytes, data: bytes) -> None: ...


class Hello(msgspec.Struct, frozen=True, array_like=True, tag="hello", forbid_unknown_fields=True):
    protocol: Literal["service-broker-harness/2"]
    name: Annotated[str, Meta(min_length=1, max_length=NAME_LENGTH_MAX)]
    public_key: Annotated[bytes, Meta(min_length=_KEY_BYTES, max_length=_KEY_BYTES)]
    certificate: Certificate | None
    encryption: Encryption


class Proof(msgspec.Struct, frozen=True, array_like=True, tag="proof", forbid_unknown_fields=True):
    signature: Annotated[bytes, Meta(max_length=512)]


class Accepted(msgspec.Struct, frozen=True, array_like=True, tag="accepted", forbid_unknown_fields=True):
    pass


class Refused(msgspec.Struct, frozen=True, array_like=True, tag="refused", forbid_unknown_fields=True):
    reason: Annotated[str, Meta(max_length=REASON_LENGTH_MAX)]


Expected = TypeVar("Expected", Hello, Proof, Accepted)
Message = Hello | Proof | Accepted | Refused
_ENCODER = msgspec.msgpack.Encoder()
_DECODER: msgspec.msgpack.Decoder[Message] = msgspec.msgpack.Decoder(Message)


class HandshakeError(Exception):
    """The connection must end, for a reason in SQL Server's words. `answer` is what the peer may be sent before."""

    def __init__(self, reason: str, answer: bytes = b"") -> None:
        super().__init__(reason)
        self.answer = answer


def quoted(text: str) -> str:
    """A peer's name for a log or an error: on one line, and short."""
    return repr(text if len(text) <= NAME_LENGTH_MAX else text[:NAME_LENGTH_MAX] + "...")


def one_line(text: str) -> str:
    """A peer's sentence for a log or an error."""
    return repr(text[:REASON_LENGTH_MAX])[1:-1]


class Protection:
    """Protects the records of one direction of a connection, on either side of it."""

    def __init__(self, key: bytes, *, is_encrypted: bool) -> None:
        self._cipher = AESGCM(key)
        self._is_encrypted = is_encrypted
        self._count = 0

    def _nonce(self) -> bytes:
        self._count += 1
        return self._count.to_bytes(_NONCE_BYTES, "big")

    def seal(self, record: bytes) -> bytes:
        if self._is_encrypted:
            return self._cipher.encrypt(self._nonce(), record, None)
        return record + self._cipher.encrypt(self._nonce(), b"", record)

    def open(self, record: bytes | memoryview) -> bytes | memoryview:
        """Undo `seal`; ValueError if this is not the next record that the peer has sealed."""
        try:
            if self._is_encrypted:
                return self._cipher.decrypt(self._nonce(), record, None)
            content, tag = record[:-TAG_BYTES], record[-TAG_BYTES:]
            self._cipher.decrypt(self._nonce(), tag, content)
        except InvalidTag:
            raise ValueError("a record is forged, altered, repeated or out of order") from None
        return content


Steps = Generator[list[bytes], bytes | memoryview, list[bytes]]


class Handshake:
    """One side. Send `start`, pass each record of the peer to `receive` and send what it returns, until `is_done`.

    A HandshakeError ends it. `peer` is the other's name, `sending` and `receiving` protect the records that follow.
    """

    def __init__(self, name: str, link: Link, *, is_connecting: bool) -> None:
        self.peer = ""
        self.peer_certificate: bytes | None = None
        self.is_encrypted = False
        self.is_done = False
        self.sending: Protection
        self.receiving: Protection
        self._link = link
        self._private_key = X25519PrivateKey.generate()
        self._hello = Hello(
            PROTOCOL,
            name[:NAME_LENGTH_MAX],
            self._private_key.public_key().public_bytes_raw(),
            link.presented_certificate(),
            link.encryption,
        )
        self._packed_hello = _ENCODER.encode(self._hello)
        self._transcript = b""
        self._roles = (b"connecting", b"listening") if is_connecting else (b"listening", b"connecting")
        self._steps = self._connect() if is_connecting else self._listen()
        self.start = next(self._steps)

    def receive(self, record: bytes | memoryview) -> list[bytes]:
        try:
            return self._steps.send(record)
        except StopIteration as end:
            self.is_done = True
            records: list[bytes] = end.value
            return records

    def _connect(self) -> Steps:
        record = yield [self._packed_hello]
        hello = self._check(_decode(record, Hello))
        self._agree(self._packed_hello, record, hello)
        proof = _decode((yield []), Proof)
        self._verify(hello, proof)
        record = yield [self._proof()]
        try:
            accepted = self.receiving.open(record)
        except ValueError:
            accepted = record  # a refusal is not sealed
        _decode(accepted, Accepted)
        return []

    def _listen(self) -> Steps:
        record = yield []
        hello = self._check(_decode(record, Hello))
        self._agree(record, self._packed_hello, hello)
        proof = _decode((yield [self._packed_hello, self._proof()]), Proof)
        self._verify(hello, proof)
        return [self.sending.seal(_ENCODER.encode(Accepted()))]

    def _check(self, hello: Hello) -> Hello:
        """Decide whether the peer is welcome if it is who it says."""
        self.peer, self.peer_certificate = hello.name, hello.certificate
        encryption = {hello.encryption, self._hello.encryption}
        if encryption == {"DISABLED", "REQUIRED"}:
            raise _refusal(SqlServerError(28027, "encryption algorithm", 22).text)
        if problem := self._link.refusal_of(hello.certificate):
            raise _refusal(problem)
        if problem := self._link.own_refusal():
            raise HandshakeError(problem)  # the peer is told nothing, as it would look for it at its own side
        return hello

    def _agree(self, connecting: bytes | memoryview, listening: bytes | memoryview, peer: Hello) -> None:
        """Derive the session keys, which depend on every byte of both hellos."""
        digests = hashlib.sha256(connecting).digest() + hashlib.sha256(listening).digest()
        self._transcript = hashlib.sha256(digests).digest()
        try:
            shared = self._private_key.exchange(X25519PublicKey.from_public_bytes(peer.public_key))
        except ValueError:  # a point of small order
            raise _refusal(f"{FAILED}The key of the peer is invalid.") from None
        keys = HKDF(hashes.SHA256(), 2 * _KEY_BYTES, self._transcript, PROTOCOL.encode()).derive(shared)
        self.is_encrypted = "DISABLED" not in {peer.encryption, self._hello.encryption}
        by_role = {
            b"connecting": Protection(keys[:_KEY_BYTES], is_encrypted=self.is_encrypted),
            b"listening": Protection(keys[_KEY_BYTES:], is_encrypted=self.is_encrypted),
        }
        self.sending, self.receiving = (by_role[role] for role in self._roles)

    def _proof(self) -> bytes:
        try:
            signature = self._link.sign(self._claim(self._roles[0]))
        except ValueError as error:
            raise HandshakeError(str(error)) from None
        return _ENCODER.encode(Proof(signature))

    def _verify(self, peer: Hello, proof: Proof) -> None:
        assert peer.certificate is not None, "refused before"
        try:
            self._link.verify(peer.certificate, proof.signature, self._claim(self._roles[1]))
        except ValueError as error:
            reason = f"{quoted(peer.name)} does not prove that it owns its certificate"
            raise _refusal(f"{FAILED}{reason}: {error}.") from None
        if problem := self._link.refusal_of_owner(peer.certificate):
            raise _refusal(problem)

    def _claim(self, role: bytes) -> bytes:
        return b"\0".join((PROTOCOL.encode(), role, self._transcript))


def _decode(record: bytes | memoryview, kind: type[Expected]) -> Expected:
    try:
        message = _DECODER.decode(record)
    except (msgspec.DecodeError, ValueError, RecursionError):
        raise HandshakeError(f"{FAILED}The peer sent no handshake of this version.") from None
    if isinstance(message, Refused):
        raise HandshakeError(one_line(message.reason))
    if not isinstance(message, kind):
        raise HandshakeError(f"{FAILED}The peer sent a message of the handshake out of turn.")
    return message


def _refusal(reason: str) -> HandshakeError:
    return HandshakeError(reason, _ENCODER.encode(Refused(reason[:REASON_LENGTH_MAX])))
