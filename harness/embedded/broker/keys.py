"""What the broker asks of cryptography: master keys, certificates, signatures, and the keys of encrypted dialogs.

`NoKeys` serves worlds in virtual time: it computes nothing, and a certificate is a random name. A server has
`harness.embedded.server.cryptography`. Secrets are handed over and kept in a protected form only: a master key under
the key of the server, a private key under the database's master key or under a password.
"""

from typing import NamedTuple, Protocol

from harness.embedded.broker.frames import Frame, KeyExchange
from harness.embedded.runtime.tasks import Entropy

_BLOB_BYTES = 256


class Protection(NamedTuple):
    """What protects a private key: the database's master key, or the password if there is one, as in a file."""

    master_key: bytes | None  # protected
    password: str | None = None


class KeyPair(NamedTuple):
    blob: bytes  # the certificate: CERTENCODED returns it
    private_key: bytes  # protected


class CertificateText(NamedTuple):
    """What a certificate says about itself."""

    subject: str
    start_ns: int  # UTC
    expiry_ns: int


class Dialog(NamedTuple):
    """The identity of a dialog, to which its keys are bound."""

    conversation_id: str
    to_service: str
    from_service: str
    from_broker_instance: str


class OwnKey(NamedTuple):
    """A certificate, its private key, and the master key that protects that."""

    blob: bytes
    private_key: bytes
    master_key: bytes


class Session(Protocol):
    """The keys of one encrypted dialog, at one of its sides."""

    def seal(self, frame: Frame) -> None:
        """Encrypt the body of a message in its place, and let the far side check everything else."""
        ...

    def open(self, frame: Frame) -> None:
        """Undo `seal`; ValueError if the far side of this dialog has not made the frame so."""
        ...

    def protected(self, master_key: bytes) -> bytes:
        """The keys as they may be stored."""
        ...


class Keys(Protocol):
    """A ValueError of a method says that a certificate, a key or a signature is not what it should be."""

    encrypts: bool  # False: nothing is computed

    def new_master_key(self) -> bytes: ...

    def opens(self, master_key: bytes) -> bool:
        """Tell whether the key of the server protects a master key: it does not if it was lost and made anew."""
        ...

    def is_same_master_key(self, master_key: bytes, other: bytes) -> bool:
        """Tell whether two protected master keys are one key."""
        ...

    def lock_master_key(self, master_key: bytes, password: str) -> bytes:
        """Protect a master key by a password too, with which it can be had without the key of the server."""
        ...

    def unlock_master_key(self, locked: bytes, password: str) -> bytes:
        """Undo `lock_master_key`."""
        ...

    def new_certificate(self, text: CertificateText, protection: Protection) -> KeyPair:
        """Make a self-signed certificate and its keys."""
        ...

    def read_certificate(self, blob: bytes) -> CertificateText | None:
        """Read a certificate of somebody else; None if certificates say nothing here."""
        ...

    def protect_again(self, private_key: bytes, blob: bytes, before: Protection, after: Protection) -> bytes:
        """Protect the private key of a certificate in another way."""
        ...

    def sign(self, private_key: bytes, protection: Protection, data: bytes) -> bytes:
        """Sign with a private key."""
        ...

    def verify(self, blob: bytes, signature: bytes, data: bytes) -> None:
        """Check that the owner of a certificate has signed the data."""
        ...

    def offer(
        self, dialog: Dialog, key: OwnKey | None, recipient: bytes, master_key: bytes
    ) -> tuple[Session | None, KeyExchange]:
        """Make the initiator's keys for a dialog with the owner of the certificate `recipient`.

        The same arguments give the same keys. `own` None makes the dialog anonymous."""
        ...

    def is_recipient(self, exchange: KeyExchange, blob: bytes) -> bool:
        """Tell whether keys are offered to the owner of this certificate."""
        ...

    def accept(self, dialog: Dialog, exchange: KeyExchange, key: OwnKey) -> Session | None:
        """Make the target's keys from an offer."""
        ...

    def restore(self, protected: bytes, master_key: bytes, *, is_initiator: bool) -> Session | None:
        """Undo `Session.protected`."""
        ...


class NoKeys:
    """No cryptography."""

    encrypts = False

    def __init__(self, entropy: Entropy) -> None:
        self._entropy = entropy

    def new_master_key(self) -> bytes:
        return b""

    def opens(self, master_key: bytes) -> bool:
        return True

    def is_same_master_key(self, master_key: bytes, other: bytes) -> bool:
        return True

    def lock_master_key(self, master_key: bytes, password: str) -> bytes:
        return password.encode()

    def unlock_master_key(self, locked: bytes, password: str) -> bytes:
        if locked != password.encode():
            raise ValueError("another password")
        return b""

    def new_certificate(self, text: CertificateText, protection: Protection) -> KeyPair:
        return KeyPair(self._entropy.random_bytes(_BLOB_BYTES), b"")

    def read_certificate(self, blob: bytes) -> CertificateText | None:
        return None

    def protect_again(self, private_key: bytes, blob: bytes, before: Protection, after: Protection) -> bytes:
        return private_key

    def sign(self, private_key: bytes, protection: Protection, data: bytes) -> bytes:
        return b""

    def verify(self, blob: bytes, signature: bytes, data: bytes) -> None: ...

    def offer(
        self, dialog: Dialog, key: OwnKey | None, recipient: bytes, master_key: bytes
    ) -> tuple[Session | None, KeyExchange]:
        return None, KeyExchange(b"", b"", key.blob if key is not None else None, b"")

    def is_recipient(self, exchange: KeyExchange, blob: bytes) -> bool:
        return True

    def accept(self, dialog: Dialog, exchange: KeyExchange, key: OwnKey) -> Session | None:
        return None

    def restore(self, protected: bytes, master_key: bytes, *, is_initiator: bool) -> Session | None:
        return None
