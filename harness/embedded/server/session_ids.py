"""Ids of the sessions of clients (SPIDs)."""

from heapq import heappop, heappush

from harness.embedded.errors import SqlServerError
from harness.embedded.tsql.instance.instance import USER_SPIDS


class SessionIds:
    """Gives out the lowest free id, as SQL Server does: an id is used again as soon as its session has ended."""

    def __init__(self) -> None:
        self._next = USER_SPIDS.start
        self._free: list[int] = []  # a heap of ids below `_next`

    def take(self) -> int:
        """An id; error 17809 if all are in use."""
        if self._free:
            return heappop(self._free)
        if self._next >= USER_SPIDS.stop:
            raise SqlServerError(17809, len(USER_SPIDS))
        self._next += 1
        return self._next - 1

    def give_back(self, spid: int) -> None:
        heappush(self._free, spid)
