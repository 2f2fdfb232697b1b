"""Deadlines of conversations: dialog timers, lifetimes, and the removal of closed targets."""

from __future__ import annotations

import heapq
from collections.abc import Callable
from typing import Literal

from harness.embedded.broker.database import ConversationEndpoint
from harness.embedded.broker.endpoint_states import CLOSED
from harness.embedded.runtime.tasks import SECOND, Scheduler, Timer

# A closed target endpoint is kept for half an hour so that a replayed first message is recognised
# (Rusanu, 2014-03-31, on sys.conversation_endpoints.security_timestamp).
CLOSED_ENDPOINT_RETENTION_NS = 30 * 60 * SECOND

Deadline = Literal["timer", "lifetime", "closed"]


class Deadlines:
    """A heap of deadlines (UTC) and one timer of the scheduler for the earliest.

    No entry is removed early: the action at a deadline checks whether it still applies.
    """

    def __init__(self, scheduler: Scheduler) -> None:
        self._scheduler = scheduler
        self.due: Callable[[Deadline, ConversationEndpoint, int], None] = lambda what, endpoint, due_ns: None
        self._moments: list[tuple[int, int, Deadline, ConversationEndpoint]] = []
        self._serial = 0
        self._timer: Timer | None = None
        self._timer_due_ns = 0

    def watch(self, endpoint: ConversationEndpoint) -> None:
        """Enters the deadlines of a new or recovered endpoint."""
        if endpoint.state is CLOSED:
            self.closed(endpoint)
            return
        if endpoint.terms.lifetime is not None:
            self._at(endpoint.terms.lifetime, "lifetime", endpoint)
        self.set_timer(endpoint)

    def closed(self, endpoint: ConversationEndpoint) -> None:
        """Enters the removal of a closed target: half an hour after it was closed.

        While the initiator may not know that its first message arrived, the target stays until half an hour after the
        dialog's lifetime."""
        if endpoint.security_timestamp is not None:
            self._at(endpoint.security_timestamp, "closed", endpoint)
        elif endpoint.terms.lifetime is not None:
            self._at(endpoint.terms.lifetime + CLOSED_ENDPOINT_RETENTION_NS, "closed", endpoint)

    def set_timer(self, endpoint: ConversationEndpoint) -> None:
        if endpoint.dialog_timer is not None:
            self._at(endpoint.dialog_timer, "timer", endpoint)

    def _at(self, utc_ns: int, what: Deadline, endpoint: ConversationEndpoint) -> None:
        self._serial += 1
        heapq.heappush(self._moments, (utc_ns, self._serial, what, endpoint))
        if self._timer is None or utc_ns < self._timer_due_ns:
            self._arm()

    def _arm(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._moments:
            clock = self._scheduler.clock
            self._timer_due_ns = self._moments[0][0]
            due_ns = clock.now_ns + max(0, self._timer_due_ns - clock.utc_ns())
            self._timer = self._scheduler.call_at(due_ns, self._fire)

    def _fire(self) -> None:
        self._timer = None
        now_ns = self._scheduler.clock.utc_ns()
        while self._moments and self._moments[0][0] <= now_ns:
            due_ns, _, what, endpoint = heapq.heappop(self._moments)
            if not endpoint.incoming.is_gone:
                self.due(what, endpoint, due_ns)
        self._arm()
