"""Passwords at rest: salted scrypt hashes; and the keys that are derived from passwords.

scrypt takes some tenths of a second, and lets other threads run. Statements compute it in a thread: others go on.
"""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import os
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from harness.embedded.runtime import turns
from harness.embedded.runtime.tasks import Signal

_BLOCK_SIZE = 8
_MEMORY_MAX = 64 * 1024 * 1024
SALT_BYTES, DIGEST_BYTES = 16, 32
_THREAD = ThreadPoolExecutor(1, "scrypt of statements")


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
    """The hash of a password: version, salt and digest; in a request others go on meanwhile."""
    salt = os.urandom(SALT_BYTES)
    return cost.version + salt + derived_aside(password, salt, cost)


def matches(password: str, stored: bytes) -> bool:
    """Whether the hash is that of the password."""
    cost, salt, digest = _BY_VERSION.get(stored[:1]), stored[1 : 1 + SALT_BYTES], stored[1 + SALT_BYTES :]
    return cost is not None and hmac.compare_digest(_derived(password, salt, cost), digest)


def derived_aside(password: str, salt: bytes, cost: Cost) -> bytes:
    """What scrypt makes of a password, `DIGEST_BYTES` bytes; in a request others go on meanwhile."""
    turn = turns.current
    if turn is None:
        return _derived(password, salt, cost)
    loop, done = asyncio.get_running_loop(), Signal()
    future = _THREAD.submit(_derived, password, salt, cost)
    future.add_done_callback(lambda _: loop.call_soon_threadsafe(done.notify_all))
    while not future.done():
        turn.wait(done.wait())
    return future.result()


def _derived(password: str, salt: bytes, cost: Cost) -> bytes:
    return hashlib.scrypt(
        password.encode("utf-8", "surrogatepass"),
        salt=salt,
        n=cost.n,
        r=_BLOCK_SIZE,
        p=cost.parallelism,
        maxmem=_MEMORY_MAX,
        dklen=DIGEST_BYTES,
    )
