"""Handles of prepared statements: what sp_prepare and its kin keep for a session."""

from __future__ import annotations

from collections import Counter
from typing import Any

from harness.embedded.errors import SqlServerError

PREPARED_LENGTH_MAX = 4 * 1024 * 1024  # characters that a login keeps prepared; compiled, one takes up to 100 bytes
HANDLE_LENGTH = 64  # characters for which a handle counts beside its text


class Handles:
    """The handles of a session. `lengths` has the characters of all sessions by login; `holders` tells how many handles
    of a login share what was prepared, whose text counts once."""

    def __init__(self, login: str, lengths: Counter[str], holders: Counter[Any]) -> None:
        self._login = login
        self._lengths = lengths
        self._holders = holders
        self._prepared: dict[int, tuple[Any, int]] = {}
        self._last = 0

    def keep(self, prepared: Any, length: int) -> int:
        """A new handle; error 701 if the login keeps too much already."""
        holder = self._login, prepared
        counted = HANDLE_LENGTH + (0 if holder in self._holders else length)
        if self._lengths[self._login] + counted > PREPARED_LENGTH_MAX:
            raise SqlServerError(701, "internal")
        self._lengths[self._login] += counted
        self._holders[holder] += 1
        self._last += 1
        self._prepared[self._last] = prepared, length
        return self._last

    def get(self, handle: Any) -> Any:
        """What the handle stands for; None if there is no such handle."""
        found = self._prepared.get(handle)
        return None if found is None else found[0]

    def drop(self, handle: int) -> bool:
        """Forget a handle; False if there was none."""
        found = self._prepared.pop(handle, None)
        if found is None:
            return False
        holder = self._login, found[0]
        self._holders[holder] -= 1
        self._lengths[self._login] -= HANDLE_LENGTH
        if not self._holders[holder]:
            del self._holders[holder]
            self._lengths[self._login] -= found[1]
        if not self._lengths[self._login]:
            del self._lengths[self._login]
        return True

    def clear(self) -> None:
        for handle in list(self._prepared):
            self.drop(handle)
