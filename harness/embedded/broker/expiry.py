"""What happens by itself when a time has come: dialog timers, lifetimes, the removal of closed targets."""

from __future__ import annotations

import heapq
from functools import partial
from typing import TYPE_CHECKING

from harness.embedded.broker import system
from harness.embedded.broker.conversations import ConversationEndpoint
from harness.embedded.broker.delivery import CLOSED_ENDPOINT_RETENTION_NS
from harness.embedded.broker.states import EndpointState
from harness.embedded.errors import SqlServerError
from harness.embedded.runtime.tasks import Timer, Waiting

if TYPE_CHECKING:
    from harness.embedded.broker.engine import Engine


class Expiry:
    """One heap of moments (UTC) and one timer of the scheduler for the earliest of them.

    Entries are never taken out early: when its moment comes an entry looks whether it still means anything.
    """

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._moments: list[tuple[int, int, str, ConversationEndpoint]] = []
        self._serial = 0
        self._timer: Timer | None = None
        self._timer_due_ns = 0

    def watch(self, endpoint: ConversationEndpoint) -> None:
        """A new or recovered endpoint: its lifetime, its timer, its retention."""
        if endpoint.state is EndpointState.CLOSED:
            self.closed(endpoint)
            return
        if endpoint.lifetime is not None:
            self._at(endpoint.lifetime, "lifetime", endpoint)
        if endpoint.dialog_timer is not None:
            self.set_timer(endpoint)

    def closed(self, endpoint: ConversationEndpoint) -> None:
        """A closed target goes half an hour after it was closed; one whose far side may not know that its first message
        arrived stays half an hour longer than the dialog's lifetime."""
        if endpoint.security_timestamp is not None:
            self._at(endpoint.security_timestamp, "closed", endpoint)
        elif endpoint.lifetime is not None:
            self._at(endpoint.lifetime + CLOSED_ENDPOINT_RETENTION_NS, "closed", endpoint)

    def set_timer(self, endpoint: ConversationEndpoint) -> None:
        if endpoint.dialog_timer is not None:
            self._at(endpoint.dialog_timer, "timer", endpoint)

    def _at(self, utc_ns: int, what: str, endpoint: ConversationEndpoint) -> None:
        self._serial += 1
        heapq.heappush(self._moments, (utc_ns, self._serial, what, endpoint))
        if self._timer is None or utc_ns < self._timer_due_ns:
            self._arm()

    def _arm(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._moments:
            clock = self._engine.clock
            self._timer_due_ns = self._moments[0][0]
            due_ns = clock.now_ns + max(0, self._timer_due_ns - clock.utc_ns())
            self._timer = self._engine.scheduler.call_at(due_ns, self._fire)

    def _fire(self) -> None:
        self._timer = None
        now_ns = self._engine.clock.utc_ns()
        while self._moments and self._moments[0][0] <= now_ns:
            due_ns, _, what, endpoint = heapq.heappop(self._moments)
            if endpoint.database.endpoints.get(endpoint.conversation_handle) is endpoint:
                task = _TASKS[what](self, endpoint, due_ns)
                self._engine.scheduler.spawn(task, f"{what} of {endpoint.conversation_handle}")
        self._arm()

    def _expire_timer(self, endpoint: ConversationEndpoint, due_ns: int) -> Waiting[None]:
        engine = self._engine
        tx = engine.begin_transaction()
        try:
            yield from endpoint.group.acquire(tx, engine.waits)
            if endpoint.is_gone or endpoint.dialog_timer != due_ns:  # over, or the timer was replaced
                tx.rollback()
                return
            endpoint.dialog_timer = None
            tx.on_rollback(partial(setattr, endpoint, "dialog_timer", due_ns))
            endpoint.database.store_endpoint(tx, endpoint)
            timer = endpoint.database.message_types[system.DIALOG_TIMER]
            engine.delivery.enqueue(tx, endpoint, timer, -1, None)
            engine.counters.dialog_timers += 1
            yield from tx.commit()
        except SqlServerError as error:
            self._failed(tx, error)

    def _expire_lifetime(self, endpoint: ConversationEndpoint, due_ns: int) -> Waiting[None]:
        engine = self._engine
        tx = engine.begin_transaction()
        try:
            yield from endpoint.group.acquire(tx, engine.waits)
            if endpoint.is_gone:
                pass
            elif endpoint.state is EndpointState.DISCONNECTED_OUTBOUND:
                engine.delivery.close(tx, endpoint)
            else:
                error = SqlServerError(8489)
                engine.delivery.raise_error(tx, endpoint, -8489, error.text)
            yield from tx.commit()
        except SqlServerError as error:
            self._failed(tx, error)

    def _remove_closed(self, endpoint: ConversationEndpoint, due_ns: int) -> Waiting[None]:
        tx = self._engine.begin_transaction()
        try:
            yield from endpoint.group.acquire(tx, self._engine.waits)
            if endpoint.state is EndpointState.CLOSED and not endpoint.is_gone:
                self._engine.delivery.remove(tx, endpoint)
            yield from tx.commit()
        except SqlServerError as error:
            self._failed(tx, error)

    def _failed(self, tx, error: SqlServerError) -> None:  # type: ignore[no-untyped-def]
        if tx.active:
            tx.rollback()
        self._engine.log(error.text)


_TASKS = {
    "timer": Expiry._expire_timer,
    "lifetime": Expiry._expire_lifetime,
    "closed": Expiry._remove_closed,
}
