"""SEND: checks a message and adds it to the transaction; `departure` routes it at commit."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from harness.embedded.broker import system_objects
from harness.embedded.broker.counters import Counters
from harness.embedded.broker.database import ConversationEndpoint, Database, TransmissionRow
from harness.embedded.broker.delivery import validate
from harness.embedded.broker.endpoint_states import CONVERSING, STARTED_OUTBOUND, EndpointEvent, successor
from harness.embedded.broker.transactions import Transaction
from harness.embedded.errors import SqlServerError
from harness.embedded.runtime.platform import Platform
from harness.embedded.runtime.tasks import Clock, Waiting
from harness.embedded.runtime.waits import WaitStatistics

MESSAGE_SIZE_MAX = 2**31 - 1  # varbinary(max)


class Sending:
    def __init__(self, clock: Clock, platform: Platform, waits: WaitStatistics, counters: Counters) -> None:
        self._clock = clock
        self._platform = platform
        self._waits = waits
        self._counters = counters

    def send(
        self, tx: Transaction, database: Database, handles: Sequence[str], message_type: str | None, body: bytes | None
    ) -> Waiting[None]:
        """SEND ON CONVERSATION ( handle [, ...] ) [ MESSAGE TYPE type ] [ ( body ) ]: all of them or none.

        `message_type` None is DEFAULT, `body` None an empty message."""
        name = system_objects.DEFAULT if message_type is None else message_type
        endpoints = _find(database, handles)
        for endpoint in endpoints:
            group = endpoint.incoming.group
            if not group.try_acquire(tx):
                yield from group.acquire(tx, self._waits)
            _check(endpoint, name, body)
        platform, size_bytes = self._platform, len(body or b"")
        for endpoint in endpoints:
            yield from platform.cpu("send", 1, size_bytes)
            yield from platform.latch(endpoint.page)
            self.append(tx, endpoint, name, body)
        self._counters.sends += 1

    def append(self, tx: Transaction, endpoint: ConversationEndpoint, name: str, body: bytes | None) -> None:
        """Adds the next message of this side to the transaction; END CONVERSATION uses it too."""
        sequence = endpoint.send_sequence
        endpoint.send_sequence = sequence + 1
        tx.on_rollback(partial(setattr, endpoint, "send_sequence", sequence))
        if endpoint.state is STARTED_OUTBOUND:
            tx.change_state(endpoint, CONVERSING)
        tx.writes.append((endpoint.database.desend_table, endpoint.terms.conversation_handle, (sequence + 1,)))
        tx.sent.append(TransmissionRow(endpoint, sequence, name, body, self._clock.utc_ns()))


def _find(database: Database, handles: Sequence[str]) -> list[ConversationEndpoint]:
    if len(handles) == 1:
        endpoint = database.endpoints.get(handles[0])
        if endpoint is None:
            raise SqlServerError(8426, handles[0])
        return [endpoint]
    endpoints: dict[str, ConversationEndpoint] = {}
    for position, handle in enumerate(handles, start=1):
        if handle in endpoints:
            raise SqlServerError(8451, handle, position)
        endpoint = database.endpoints.get(handle)
        if endpoint is None:
            raise SqlServerError(8435, handle, position)
        endpoints[handle] = endpoint
    return list(endpoints.values())


def _check(endpoint: ConversationEndpoint, name: str, body: bytes | None) -> None:
    state, terms = endpoint.state, endpoint.terms
    if state is not CONVERSING and successor(state, EndpointEvent.SEND) is None:
        raise SqlServerError(8429, state.name)
    usage = terms.contract.usages.get(name)
    if usage is None:
        raise SqlServerError(8431 if name in endpoint.database.catalog.message_types else 8428, name)
    if terms.is_initiator:
        if not usage.is_sent_by_initiator:
            raise SqlServerError(8432, name)
    elif not usage.is_sent_by_target:
        raise SqlServerError(8434, name)
    if body is not None and len(body) > MESSAGE_SIZE_MAX:
        raise SqlServerError(8459, MESSAGE_SIZE_MAX)
    if not validate(usage.message_type, body):
        raise SqlServerError(8430)
    queue = endpoint.service.queue
    if queue.is_retention_enabled and not queue.is_enqueue_enabled:
        raise SqlServerError(9618, queue.name)
