"""Application locks (sp_getapplock): each database has its own, by name."""

from typing import NamedTuple

from harness.embedded.runtime.tasks import Signal, Waiting

Resource = tuple[int, str]  # database_id, name
# The modes, each with those in which another session may hold the lock at the same time.
COMPATIBLE = {
    "intentshared": frozenset({"intentshared", "intentexclusive", "shared", "update"}),
    "intentexclusive": frozenset({"intentshared", "intentexclusive"}),
    "shared": frozenset({"intentshared", "shared", "update"}),
    "update": frozenset({"intentshared", "shared"}),
    "exclusive": frozenset(),
}


class _Held(NamedTuple):
    spid: int
    owner: object  # the spid, or a transaction
    mode: str


class ApplicationLocks:
    """Who holds each resource. A session may take a lock several times, and releases it as often."""

    def __init__(self) -> None:
        self._held: dict[Resource, list[_Held]] = {}
        self._released = Signal()

    def take(self, resource: Resource, spid: int, owner: object, mode: str, timeout_ns: int | None) -> Waiting[int]:
        """Take a lock; return 0, 1 if another session had to release it first, or -1 if it did not in time.

        None waits for ever. The timeout begins again when any session releases its locks.
        """
        waited = 0
        while any(held.spid != spid and held.mode not in COMPATIBLE[mode] for held in self._held.get(resource, ())):
            if timeout_ns == 0 or not (yield self._released.wait(timeout_ns)):
                return -1
            waited = 1
        self._held.setdefault(resource, []).append(_Held(spid, owner, mode))
        return waited

    def release(self, resource: Resource, owner: object) -> bool:
        """Release a lock once; False if the owner does not hold it."""
        holders = self._held.get(resource, [])
        held = next((held for held in holders if held.owner == owner), None)
        if held is None:
            return False
        self._keep(resource, [holder for holder in holders if holder is not held])
        return True

    def release_all(self, owner: object) -> None:
        """Release the locks of a session or a transaction that has ended."""
        for resource, holders in list(self._held.items()):
            kept = [held for held in holders if held.owner != owner]
            if len(kept) < len(holders):
                self._keep(resource, kept)

    def _keep(self, resource: Resource, holders: list[_Held]) -> None:
        self._held[resource] = holders
        if not holders:
            del self._held[resource]
        self._released.notify_all()
