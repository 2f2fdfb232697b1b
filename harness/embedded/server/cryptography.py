"""The cryptography of a server: X.509 certificates on the curve P-256, and AES-256-GCM for secrets at rest.

The key of the server, as SQL Server's service master key, is a file beside the database file. It protects the master
keys of the databases, and these protect private keys. Whoever copies the database file without that file has none of
them.
"""

from __future__ import annotations

import datetime
import hashlib
import os
from typing import TypeVar

import msgspec
from cryptography import x509
from cryptography.exceptions import InvalidSignature, InvalidTag, UnsupportedAlgorithm
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.kdf.hkdf import HKDF
from cryptography.x509.oid import NameOID
from msgspec.structs import replace

from harness.embedded.broker.frames import Frame, KeyExchange, MessageFrame, pack_body, pack_frame, unpack_body
from harness.embedded.broker.keys import CertificateText, Dialog, KeyPair, OwnKey, Protection
from harness.embedded.runtime.tasks import SECOND
from harness.embedded.server import passwords

KEY_BYTES = 32
NONCE_BYTES = 12
_COUNT_BYTES = 5  # of a dialog's nonce
PARTIES_MAX = 1000  # whose secrets are remembered
CLAIM = "keys of a dialog, service-broker-harness/2"
_ORDER = 0xFFFFFFFF00000000FFFFFFFFFFFFFFFFBCE6FAADA7179E84F3B9CAC2FC632551  # of P-256
SUBJECT_LENGTH_MAX = 64  # of a common name in X.509
SUPPORTED = "only certificates with keys on an elliptic curve, as CREATE CERTIFICATE makes them, can be used"


Parties = TypeVar("Parties")
Secret = TypeVar("Secret")


def self_signing(
    name: str, begin: datetime.datetime, end: datetime.datetime
) -> tuple[ec.EllipticCurvePrivateKey, x509.CertificateBuilder]:
    """Make a key, and a certificate of it that only has to be signed with it. RSA keys take noticeably longer."""
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)] if name else [])
    builder = x509.CertificateBuilder().subject_name(subject).issuer_name(subject).public_key(key.public_key())
    return key, builder.serial_number(x509.random_serial_number()).not_valid_before(begin).not_valid_after(end)


class ServerKeys:
    """`harness.embedded.broker.keys.Keys` of a server."""

    encrypts = True

    def __init__(self, service_master_key: bytes, cost: passwords.Cost = passwords.LASTING) -> None:
        self._service_master_key = service_master_key
        self._cost = cost  # of keys that are derived from passwords
        self._master_keys: dict[bytes, bytes] = {}  # those in use, by their protected form
        # Shared secrets. A signature and a key agreement take a thousand times as long as what follows for a dialog.
        self._offered: dict[tuple[bytes, bytes, bytes], tuple[KeyExchange, bytes]] = {}
        self._accepted: dict[tuple[KeyExchange, bytes], bytes] = {}

    def new_master_key(self) -> bytes:
        return protect(self._service_master_key, os.urandom(KEY_BYTES))

    def opens(self, master_key: bytes) -> bool:
        try:
            self._master_key(master_key)
        except ValueError:
            return False
        return True

    def is_same_master_key(self, master_key: bytes, other: bytes) -> bool:
        return self._master_key(master_key) == self._master_key(other)

    def lock_master_key(self, master_key: bytes, password: str) -> bytes:
        salt = os.urandom(passwords.SALT_BYTES)
        return salt + protect(passwords.derived(password, salt, self._cost), self._master_key(master_key))

    def unlock_master_key(self, locked: bytes, password: str) -> bytes:
        salt, protected = locked[: passwords.SALT_BYTES], locked[passwords.SALT_BYTES :]
        key = passwords.derived(password, salt, self._cost)
        return protect(self._service_master_key, reveal(key, protected))

    def new_certificate(self, text: CertificateText, protection: Protection) -> KeyPair:
        key, builder = self_signing(text.subject[:SUBJECT_LENGTH_MAX], _moment(text.start_ns), _moment(text.expiry_ns))
        certificate = builder.sign(key, hashes.SHA256())
        return KeyPair(certificate.public_bytes(serialization.Encoding.DER), self._protected(key, protection))

    def read_certificate(self, blob: bytes) -> CertificateText | None:
        certificate = x509.load_der_x509_certificate(blob)
        names = certificate.subject.get_attributes_for_oid(NameOID.COMMON_NAME)
        subject = str(names[0].value) if names else certificate.subject.rfc4514_string()
        return CertificateText(
            subject, _utc_ns(certificate.not_valid_before_utc), _utc_ns(certificate.not_valid_after_utc)
        )

    def protect_again(self, private_key: bytes, blob: bytes, before: Protection, after: Protection) -> bytes:
        key = self._unprotected(private_key, before)
        if key.public_key() != _public_key(blob):
            raise ValueError("the key of another certificate")
        return self._protected(key, after)

    def sign(self, private_key: bytes, protection: Protection, data: bytes) -> bytes:
        return self._unprotected(private_key, protection).sign(data, ec.ECDSA(hashes.SHA256()))

    def _unprotected(self, private_key: bytes, protection: Protection) -> ec.EllipticCurvePrivateKey:
        if protection.password is None:
            assert protection.master_key is not None, "a key is protected by a password or the master key"
            return self._opened(private_key, protection.master_key)
        try:
            key = serialization.load_der_private_key(private_key, protection.password.encode())
        except TypeError as error:  # it is not encrypted
            raise ValueError(str(error)) from None
        if not isinstance(key, ec.EllipticCurvePrivateKey):
            raise ValueError("a key of another kind than this server uses")
        return key

    def verify(self, blob: bytes, signature: bytes, data: bytes) -> None:
        try:
            _public_key(blob).verify(signature, data, ec.ECDSA(hashes.SHA256()))
        except InvalidSignature:
            raise ValueError("the signature does not belong to the certificate") from None

    def offer(
        self, dialog: Dialog, key: OwnKey | None, recipient: bytes, master_key: bytes
    ) -> tuple[DialogSession, KeyExchange]:
        parties = (key.blob if key is not None else b"", recipient, master_key)
        offered = self._offered.get(parties)
        if offered is None:
            offered = self._new_offer(key, recipient, master_key)
            _remember(self._offered, parties, offered)
        exchange, secret = offered
        return DialogSession(self, _dialog_keys(secret, dialog), is_initiator=True), exchange

    def _new_offer(self, private_key: OwnKey | None, recipient: bytes, master_key: bytes) -> tuple[KeyExchange, bytes]:
        """An offer and its shared secret, the same for all dialogs of these two owners, now and after a restart."""
        digest = hashlib.sha256(recipient).digest()
        certificate = private_key.blob if private_key is not None else None
        # Derived, so that an initiator that has lost keys in a crash offers the same again.
        seed = _derived(self._master_key(master_key), 40, b"offer", digest + (certificate or b""))
        key = ec.derive_private_key(int.from_bytes(seed, "big") % (_ORDER - 1) + 1, ec.SECP256R1())
        public_key = key.public_key().public_bytes(
            serialization.Encoding.X962, serialization.PublicFormat.UncompressedPoint
        )
        exchange = KeyExchange(digest, public_key, certificate, b"")
        if private_key is not None:
            protection = Protection(private_key.master_key)
            signature = self.sign(private_key.private_key, protection, _claim(exchange))
            exchange = replace(exchange, signature=signature)
        shared = key.exchange(ec.ECDH(), _public_key(recipient))
        return exchange, _derived(shared, KEY_BYTES, b"secret", _claim(exchange))

    def is_recipient(self, exchange: KeyExchange, blob: bytes) -> bool:
        return hashlib.sha256(blob).digest() == exchange.recipient

    def accept(self, dialog: Dialog, exchange: KeyExchange, private_key: OwnKey) -> DialogSession:
        secret = self._accepted.get((exchange, private_key.blob))
        if secret is None:
            if exchange.certificate is not None:
                self.verify(exchange.certificate, exchange.signature, _claim(exchange))
            key = ec.EllipticCurvePublicKey.from_encoded_point(ec.SECP256R1(), exchange.public_key)
            shared = self._opened(private_key.private_key, private_key.master_key).exchange(ec.ECDH(), key)
            secret = _derived(shared, KEY_BYTES, b"secret", _claim(exchange))
            _remember(self._accepted, (exchange, private_key.blob), secret)
        return DialogSession(self, _dialog_keys(secret, dialog), is_initiator=False)

    def restore(self, protected: bytes, master_key: bytes, *, is_initiator: bool) -> DialogSession:
        keys = reveal(self._master_key(master_key), protected)
        return DialogSession(self, keys, is_initiator=is_initiator)

    def protect(self, master_key: bytes, secret: bytes) -> bytes:
        """Protect a secret of a database by its master key."""
        return protect(self._master_key(master_key), secret)

    def _protected(self, key: ec.EllipticCurvePrivateKey, protection: Protection) -> bytes:
        encryption: serialization.KeySerializationEncryption = serialization.NoEncryption()
        if protection.password is not None:
            encryption = serialization.BestAvailableEncryption(protection.password.encode())
        der = key.private_bytes(serialization.Encoding.DER, serialization.PrivateFormat.PKCS8, encryption)
        if protection.password is not None:
            return der
        assert protection.master_key is not None, "a key is protected by a password or the master key"
        return protect(self._master_key(protection.master_key), der)

    def _opened(self, private_key: bytes, master_key: bytes) -> ec.EllipticCurvePrivateKey:
        key = serialization.load_der_private_key(reveal(self._master_key(master_key), private_key), None)
        assert isinstance(key, ec.EllipticCurvePrivateKey), "no other key is imported"
        return key

    def _master_key(self, protected: bytes) -> bytes:
        key = self._master_keys.get(protected)
        if key is None:
            key = self._master_keys[protected] = reveal(self._service_master_key, protected)
        return key


class DialogSession:
    """The keys of a dialog, one for each direction: `harness.embedded.broker.keys.Session`."""

    def __init__(self, server: ServerKeys, keys: bytes, *, is_initiator: bool) -> None:
        self._server = server
        self._keys = keys
        of_initiator, of_target = AESGCM(keys[:KEY_BYTES]), AESGCM(keys[KEY_BYTES:])
        self._sending, self._receiving = (of_initiator, of_target) if is_initiator else (of_target, of_initiator)
        # No nonce may come twice with a key, also after a restart: a random part for this object, and a count.
        self._prefix = os.urandom(NONCE_BYTES - _COUNT_BYTES)
        self._count = 0

    def seal(self, frame: Frame) -> None:
        if isinstance(frame, MessageFrame):
            hidden, frame.body = pack_body(frame.body), None
            frame.body = self._sealed(frame, hidden)
        else:
            frame.seal = self._sealed(frame, b"")

    def open(self, frame: Frame) -> None:
        if isinstance(frame, MessageFrame):
            sealed, frame.body = frame.body, None
            frame.body = unpack_body(self._opened(frame, sealed))
        else:
            sealed, frame.seal = frame.seal, None
            self._opened(frame, sealed)

    def _sealed(self, frame: Frame, hidden: bytes) -> bytes:
        """A seal, which binds all fields of a frame but itself, and encrypts what is hidden."""
        self._count += 1
        nonce = self._prefix + self._count.to_bytes(_COUNT_BYTES, "big")
        return nonce + self._sending.encrypt(nonce, hidden, pack_frame(frame))

    def _opened(self, frame: Frame, sealed: bytes | None) -> bytes:
        sealed = sealed or b""
        try:
            return self._receiving.decrypt(sealed[:NONCE_BYTES], sealed[NONCE_BYTES:], pack_frame(frame))
        except (InvalidTag, ValueError):
            raise ValueError("it was not sealed by the far side of the dialog, or was altered") from None

    def protected(self, master_key: bytes) -> bytes:
        return self._server.protect(master_key, self._keys)


def protect(key: bytes, secret: bytes) -> bytes:
    """Encrypt and authenticate a secret."""
    nonce = os.urandom(NONCE_BYTES)
    return nonce + AESGCM(key).encrypt(nonce, secret, None)


def reveal(key: bytes, protected: bytes) -> bytes:
    """Undo `protect`; ValueError if another key was used, or the bytes were changed."""
    try:
        return AESGCM(key).decrypt(protected[:NONCE_BYTES], protected[NONCE_BYTES:], None)
    except InvalidTag:
        raise ValueError("a key cannot be decrypted: the service master key belongs to other data") from None


def _dialog_keys(secret: bytes, dialog: Dialog) -> bytes:
    """The keys of one dialog, which fit no other between the same owners."""
    return _derived(secret, 2 * KEY_BYTES, b"dialog", msgspec.msgpack.encode(dialog))


def _derived(secret: bytes, size: int, purpose: bytes, context: bytes) -> bytes:
    return HKDF(hashes.SHA256(), size, hashlib.sha256(context).digest(), purpose).derive(secret)


def _claim(exchange: KeyExchange) -> bytes:
    """What the initiator signs: who agrees on keys with whom, and how."""
    return msgspec.msgpack.encode((CLAIM, replace(exchange, signature=b"")))


def _remember(secrets: dict[Parties, Secret], parties: Parties, secret: Secret) -> None:
    if len(secrets) >= PARTIES_MAX:
        secrets.clear()
    secrets[parties] = secret


def _public_key(blob: bytes) -> ec.EllipticCurvePublicKey:
    try:
        key = x509.load_der_x509_certificate(blob).public_key()
    except UnsupportedAlgorithm:
        raise ValueError(SUPPORTED) from None
    if not isinstance(key, ec.EllipticCurvePublicKey):
        raise ValueError(SUPPORTED)
    return key


def _moment(utc_ns: int) -> datetime.datetime:
    return datetime.datetime.fromtimestamp(utc_ns // SECOND, datetime.UTC)


def _utc_ns(moment: datetime.datetime) -> int:
    return int(moment.timestamp()) * SECOND
