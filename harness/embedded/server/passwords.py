"""Passwords at rest: salted scrypt hashes; and the keys that are derived from passwords.

scrypt takes some tenths of a second, and lets other threads run. Statements compute it in a thread: others go on.
"""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import os
from concurrent.futures import ThreadPoolExecutor

from harness.embedded.runtime import turns
from harness.embedded.runtime.tasks import Signal

# The least that OWASP's "Password Storage Cheat Sheet" recommends for scrypt with 16 MiB.
_COST, _BLOCK_SIZE, _PARALLELISM = 2**14, 8, 5
_MEMORY_MAX = 64 * 1024 * 1024
SALT_BYTES, DIGEST_BYTES = 16, 32
_VERSION = b"\x01"  # of the parameters above
_THREAD = ThreadPoolExecutor(1, "scrypt of statements")


def hashed(password: str) -> bytes:
    """The hash of a password: version, salt and digest; in a request others go on meanwhile."""
    salt = os.urandom(SALT_BYTES)
    return _VERSION + salt + derived_aside(password, salt)


def matches(password: str, stored: bytes) -> bool:
    """Whether the hash is that of the password."""
    salt, digest = stored[1 : 1 + SALT_BYTES], stored[1 + SALT_BYTES :]
    return stored[:1] == _VERSION and hmac.compare_digest(derived(password, salt), digest)


def derived_aside(password: str, salt: bytes) -> bytes:
    """`derived`; in a request others go on meanwhile."""
    turn = turns.current
    if turn is None:
        return derived(password, salt)
    loop, done = asyncio.get_running_loop(), Signal()
    future = _THREAD.submit(derived, password, salt)
    future.add_done_callback(lambda _: loop.call_soon_threadsafe(done.notify_all))
    while not future.done():
        turn.wait(done.wait())
    return future.result()


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
