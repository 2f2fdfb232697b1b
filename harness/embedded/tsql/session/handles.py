"""Handles of prepared statements: what sp_prepare and its kin keep for a session."""

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
        holders = self._holders.get(holder, 0)
        length_kept = self._lengths.get(self._login, 0) + HANDLE_LENGTH + (0 if holders else length)
        if length_kept > PREPARED_LENGTH_MAX:
            raise SqlServerError(701, "internal")
        self._lengths[self._login] = length_kept
        self._holders[holder] = holders + 1
        self._last = last = self._last + 1
        self._prepared[last] = prepared, length
        return last

    def get(self, handle: Any) -> Any:
        """What the handle stands for; None if there is no such handle."""
        prepared = self._prepared.get(handle)
        return None if prepared is None else prepared[0]

    def drop(self, handle: int) -> bool:
        """Forget a handle; False if there was none."""
        statement = self._prepared.pop(handle, None)
        if statement is None:
            return False
        prepared, length = statement
        holder = self._login, prepared
        length_kept = self._lengths[self._login] - HANDLE_LENGTH
        if (holders := self._holders[holder] - 1) > 0:
            self._holders[holder] = holders
        else:
            del self._holders[holder]
            length_kept -= length
        if length_kept:
            self._lengths[self._login] = length_kept
        else:
            del self._lengths[self._login]
        return True

    def clear(self) -> None:
        for handle in list(self._prepared):
            self.drop(handle)
