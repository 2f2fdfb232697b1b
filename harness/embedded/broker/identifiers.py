"""Identifiers: ascending conversation handles, random GUIDs, object ids."""

from __future__ import annotations

from harness.embedded.runtime.tasks import SECOND, Clock, Entropy

_COUNTER_BITS = 16


def random_guid(entropy: Entropy) -> str:
    text = entropy.random_bytes(16).hex().upper()
    return f"{text[:8]}-{text[8:12]}-{text[12:16]}-{text[16:20]}-{text[20:]}"


class ReplaceableEntropy:
    """Entropy whose source can be replaced for all its users."""

    def __init__(self, source: Entropy) -> None:
        self.source = source

    def random_bytes(self, count: int) -> bytes:
        return self.source.random_bytes(count)


class Handles:
    """Conversation handles of one database: sequential, as in SQL Server.

    The last group counts and the others identify the database, so handles sort as text and as uniqueidentifiers in the
    order of BEGIN DIALOG. The count starts from the clock (seconds and 16 bits), so a restarted instance continues
    above its earlier handles.
    """

    def __init__(self, prefix: bytes, clock: Clock) -> None:
        text = prefix.hex().upper()
        self._prefix = f"{text[:8]}-{text[8:12]}-{text[12:16]}-{text[16:20]}-"
        self._count = (clock.utc_ns() // SECOND) << _COUNTER_BITS & (1 << 48) - 1

    def next(self) -> str:
        self._count += 1
        return f"{self._prefix}{self._count:012X}"

    def seen(self, handle: str) -> None:
        """Keeps new handles above one from before the restart."""
        if handle.startswith(self._prefix):
            self._count = max(self._count, int(handle[24:], 16))


# Object ids of SQL Server's user tables walk through the positive integers in steps of a number prime to 2^31.
_FIRST_OBJECT_ID, _OBJECT_ID_STEP, _OBJECT_ID_MODULUS = 245575913, 16000057, 2147483647


def object_id(ordinal: int) -> int:
    return (_FIRST_OBJECT_ID + ordinal * _OBJECT_ID_STEP) % _OBJECT_ID_MODULUS
