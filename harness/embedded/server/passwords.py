"""Passwords at rest: salted scrypt hashes; and the keys that are derived from passwords.

scrypt takes some tenths of a second. Logins compute it in a thread; a statement that needs it lets others wait.
"""

import hashlib
import hmac
import os
from dataclasses import dataclass

_BLOCK_SIZE = 8
_MEMORY_MAX = 64 * 1024 * 1024
SALT_BYTES, DIGEST_BYTES = 16, 32


@dataclass(frozen=True)
class Cost:
    """Parameters of scrypt, and the first byte of a hash that was made with them."""

    version: bytes
    n: int
    parallelism: int


# The least that OWASP's "Password Storage Cheat Sheet" recommends for scrypt with 16 MiB.
LASTING = Cost(b"\x01", 2**14, 5)
# For data that is deleted with its instance, as a lab's, whose passwords are random.
THROWAWAY = Cost(b"\x02", 2**10, 1)
_BY_VERSION = {cost.version: cost for cost in (LASTING, THROWAWAY)}


def hashed(password: str, cost: Cost = LASTING) -> bytes:
    """The hash of a password: version, salt and digest."""
    salt = os.urandom(SALT_BYTES)
    return cost.version + salt + derived(password, salt, cost)


def matches(password: str, stored: bytes) -> bool:
    """Whether the hash is that of the password."""
    cost, salt, digest = _BY_VERSION.get(stored[:1]), stored[1 : 1 + SALT_BYTES], stored[1 + SALT_BYTES :]
    return cost is not None and hmac.compare_digest(derived(password, salt, cost), digest)


def derived(password: str, salt: bytes, cost: Cost) -> bytes:
    """What scrypt makes of a password, `DIGEST_BYTES` bytes."""
    return hashlib.scrypt(
        password.encode("utf-8", "surrogatepass"),
        salt=salt,
        n=cost.n,
        r=_BLOCK_SIZE,
        p=cost.parallelism,
        maxmem=_MEMORY_MAX,
        dklen=DIGEST_BYTES,
    )
