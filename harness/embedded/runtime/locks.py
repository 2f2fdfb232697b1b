"""Exclusive locks held to the end of a transaction: first come, first served; a deadlock is found when it closes.

An owner waits for one lock at a time and a lock has one owner, so owners that wait form a chain. A request that would
close the chain to a ring fails at once: the requester is the victim (error 1205). A released lock goes straight to the
owner that waited longest, which owns it before it runs again.
"""

from __future__ import annotations

from collections import deque
from typing import Any, Protocol

from harness.embedded.errors import SqlServerError
from harness.embedded.runtime.platform import WaitStatistics
from harness.embedded.runtime.tasks import Scheduler, Task, Timer, Waiting


class LockOwner(Protocol):
    """A transaction, as locks see it."""

    id: int
    locks: list[Any]
    waiting_for: ExclusiveLock | None
    lock_timeout_ns: int | None


class ExclusiveLock:
    """An exclusive lock; a subclass adds what it protects."""

    __slots__ = ("owner", "waiters")

    def __init__(self) -> None:
        self.owner: LockOwner | None = None
        self.waiters: deque[_LockWait] | None = None  # made by the first wait

    def try_acquire(self, owner: LockOwner) -> bool:
        """Take the lock if it is free or the owner has it already; never wait."""
        if self.owner is None:
            self.owner = owner
            owner.locks.append(self)
            return True
        return self.owner is owner

    def acquire(self, owner: LockOwner, waits: WaitStatistics) -> Waiting[None]:
        """Take the lock, wait for it if necessary; raise 1205 for a deadlock, 1222 after the lock timeout."""
        if self.try_acquire(owner):
            return
        self._refuse_deadlock(owner)
        wait = _LockWait(self, owner, waits)
        owner.waiting_for = self
        try:
            granted = yield wait
        finally:
            owner.waiting_for = None
            if wait.task is not None:
                waits.end(wait.task, wait.scheduler.clock.now_ns)
        if not granted:
            raise SqlServerError(1222)

    def release(self) -> None:
        """Give the lock to the next in line, or free it."""
        self.owner = None
        if self.waiters:
            self.waiters.popleft().grant()

    def _refuse_deadlock(self, owner: LockOwner) -> None:
        lock: ExclusiveLock | None = self
        while lock is not None:
            holder = lock.owner
            if holder is None:
                return
            if holder is owner:
                raise SqlServerError(1205, owner.id)
            lock = holder.waiting_for


class _LockWait:
    __slots__ = ("lock", "owner", "scheduler", "task", "timer", "waits")

    scheduler: Scheduler

    def __init__(self, lock: ExclusiveLock, owner: LockOwner, waits: WaitStatistics) -> None:
        self.lock = lock
        self.owner = owner
        self.waits = waits
        self.timer: Timer | None = None
        self.task: Task | None = None

    def arm(self, scheduler: Scheduler, task: Task) -> None:
        now_ns = scheduler.clock.now_ns
        self.scheduler, self.task = scheduler, task
        self.waits.begin(task, "LCK_M_X", now_ns)
        if self.lock.waiters is None:
            self.lock.waiters = deque()
        self.lock.waiters.append(self)
        if self.owner.lock_timeout_ns is not None:
            self.timer = scheduler.call_at(now_ns + self.owner.lock_timeout_ns, self._time_out)

    def disarm(self, task: Task) -> None:
        assert self.lock.waiters is not None
        self.lock.waiters.remove(self)
        if self.timer is not None:
            self.timer.cancel()

    def grant(self) -> None:
        if self.timer is not None:
            self.timer.cancel()
        self.lock.owner = self.owner
        self.owner.locks.append(self.lock)
        self._wake(granted=True)

    def _time_out(self) -> None:
        assert self.lock.waiters is not None
        self.lock.waiters.remove(self)
        self._wake(granted=False)

    def _wake(self, *, granted: bool) -> None:
        assert self.task is not None
        # The task runs later. `_refuse_deadlock` would loop if its owner still seemed to wait for its own lock.
        self.owner.waiting_for = None
        self.scheduler.wake(self.task, granted)
