"""Passwords at rest: salted scrypt hashes; and the keys that are derived from passwords."""

from __future__ import annotations

import hashlib
import hmac
import os

# The least that OWASP's "Password Storage Cheat Sheet" recommends for scrypt with 16 MiB.
_COST, _BLOCK_SIZE, _PARALLELISM = 2**14, 8, 5
_MEMORY_MAX = 64 * 1024 * 1024
SALT_BYTES, DIGEST_BYTES = 16, 32
_VERSION = b"\x01"  # of the parameters above


def hashed(password: str) -> bytes:
    """The hash of a password: version, salt and digest. It takes some tenths of a second."""
    salt = os.urandom(SALT_BYTES)
    return _VERSION + salt + derived(password, salt)


def matches(password: str, stored: bytes) -> bool:
    """Whether the hash is that of the password. It takes as long, and lets other threads run meanwhile."""
    salt, digest = stored[1 : 1 + SALT_BYTES], stored[1 + SALT_BYTES :]
    return stored[:1] == _VERSION and hmac.compare_digest(derived(password, salt), digest)


def derived(password: str, salt: bytes) -> bytes:
    """What scrypt makes of a password: `DIGEST_BYTES` bytes."""
    return hashlib.scrypt(
        password.encode("utf-8", "surrogatepass"),
        salt=salt,
        n=_COST,
        r=_BLOCK_SIZE,
        p=_PARALLELISM,
        maxmem=_MEMORY_MAX,
        dklen=DIGEST_BYTES,
    )
