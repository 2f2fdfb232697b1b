"""Locks of applications: sp_getapplock's, exclusive and held by a session until it ends."""

from __future__ import annotations

from harness.embedded.runtime.tasks import Signal, Waiting

Resource = tuple[int, str]  # database and name: "the lock resource ... is scoped to the database"


class ApplicationLocks:
    """The session that holds each resource, by its id."""

    def __init__(self) -> None:
        self._holders: dict[Resource, int] = {}
        self._released = Signal()

    def take(self, resource: Resource, spid: int, timeout_ns: int | None) -> Waiting[int]:
        """Take a lock; return 0, 1 if another session had to release it first, or -1 if it did not in time.

        None waits for ever. The timeout begins again when any session releases its locks.
        """
        waited = 0
        while self._holders.get(resource, spid) != spid:
            if timeout_ns == 0 or not (yield self._released.wait(timeout_ns)):
                return -1
            waited = 1
        self._holders[resource] = spid
        return waited

    def release_all(self, spid: int) -> None:
        """Release the locks of a session that has ended."""
        held = [resource for resource, holder in self._holders.items() if holder == spid]
        for resource in held:
            del self._holders[resource]
        if held:
            self._released.notify_all()
