"""The statements of dialogs: BEGIN DIALOG, SEND, END CONVERSATION, MOVE CONVERSATION, BEGIN CONVERSATION TIMER.

SEND checks a message and adds it to the transaction; `departure` routes it at commit. What happens when a timer or a
lifetime is due is here too.
"""

from collections import deque
from collections.abc import Sequence
from functools import partial
from itertools import islice

from harness.embedded.broker import system_objects
from harness.embedded.broker.broker_link import Dispatchers
from harness.embedded.broker.catalog import Service
from harness.embedded.broker.database import ConversationEndpoint, Database, TransmissionRow, random_guid
from harness.embedded.broker.definitions import DialogTerms, Validation
from harness.embedded.broker.delivery import Deadline, Delivery
from harness.embedded.broker.endpoint_states import (
    CLOSED,
    CONVERSING,
    DISCONNECTED_OUTBOUND,
    STARTED_OUTBOUND,
    EndpointEvent,
    EndpointState,
    successor,
)
from harness.embedded.broker.environment import Environment
from harness.embedded.broker.queues import ConversationGroup
from harness.embedded.broker.transactions import Transaction, Transactions
from harness.embedded.errors import SqlServerError
from harness.embedded.runtime.tasks import SECOND, Waiting

LIFETIME_MAX_S = 2**31 - 1  # the default: no limit
MESSAGE_SIZE_MAX = 2**31 - 1  # varbinary(max)
_TIMED = (STARTED_OUTBOUND, CONVERSING, EndpointState.DISCONNECTED_INBOUND)


class Dialogs:
    def __init__(
        self, environment: Environment, transactions: Transactions, delivery: Delivery, dispatchers: Dispatchers
    ) -> None:
        self._clock = environment.clock
        self._entropy = environment.entropy
        self._platform = environment.platform
        self._waits = environment.waits
        self._counters = environment.counters
        self._transactions = transactions
        self._delivery = delivery
        self._deadlines = delivery.deadlines
        self._dispatchers = dispatchers

    def begin(
        self,
        tx: Transaction,
        database: Database,
        *,
        from_service: str,
        to_service: str,
        to_broker_instance: str | None = None,
        contract: str | None = None,
        related_conversation: str | None = None,
        related_group: str | None = None,
        lifetime_s: int | None = None,
        encryption: bool = True,
        is_system: bool = False,
    ) -> Waiting[str]:
        """BEGIN DIALOG: makes the initiator's endpoint and returns its handle.

        It sends nothing and does not check that the target exists. `to_broker_instance` may be 'CURRENT DATABASE'."""
        catalog = database.catalog
        service = catalog.services.get(from_service)
        if service is None:
            raise SqlServerError(8423, from_service)
        agreed = catalog.contracts.get(contract if contract is not None else system_objects.DEFAULT)
        if agreed is None:
            raise SqlServerError(8425, contract)
        if lifetime_s is not None and not 0 < lifetime_s <= LIFETIME_MAX_S:
            raise SqlServerError(8411, lifetime_s)
        group = self._group(database, service, related_conversation, related_group)
        if not group.try_acquire(tx):
            yield from group.acquire(tx, self._waits)
        is_forever = lifetime_s is None or lifetime_s == LIFETIME_MAX_S
        terms = DialogTerms(
            database.handles.next(),
            random_guid(self._entropy),
            is_initiator=True,
            service_name=service.name,
            service_id=service.service_id,
            contract=agreed,
            far_service=to_service,
            lifetime=None if is_forever else self._clock.utc_ns() + (lifetime_s or 0) * SECOND,
            # "If a binding exists, the dialog is secured even with ENCRYPTION = OFF."
            is_encrypted=encryption or catalog.binding_for(to_service) is not None,
            priority=catalog.priority_for(agreed.name, service.name, to_service),
            is_system=is_system,
        )
        instance = to_broker_instance.upper() if to_broker_instance is not None else None
        if instance == "CURRENT DATABASE":
            instance = catalog.service_broker_guid
        endpoint = ConversationEndpoint(database, service, terms, group, instance, STARTED_OUTBOUND)
        database.remember(endpoint)
        tx.on_rollback(partial(database.forget, endpoint))
        tx.store_endpoint(endpoint)
        if terms.lifetime is not None:
            tx.on_commit(partial(self._deadlines.watch, endpoint))
        yield from self._platform.cpu("begin_dialog")
        yield from self._platform.latch(endpoint.page)
        return terms.conversation_handle

    def _group(
        self, database: Database, service: Service, related_conversation: str | None, related_group: str | None
    ) -> ConversationGroup:
        if related_conversation is not None:
            related = database.endpoints.get(related_conversation)
            if related is None:
                raise SqlServerError(8426, related_conversation)
            group = related.incoming.group
        elif related_group is not None:
            existing = database.groups.get(related_group)
            if existing is None:
                return ConversationGroup(related_group, service.service_id, service.queue)
            group = existing
        else:
            return ConversationGroup(random_guid(self._entropy), service.service_id, service.queue)
        if group.service_id != service.service_id:
            clause = "RELATED_CONVERSATION" if related_conversation is not None else "RELATED_CONVERSATION_GROUP"
            other = next(
                candidate.name
                for candidate in database.catalog.services.values()
                if candidate.service_id == group.service_id
            )
            raise SqlServerError(9610, service.name, other, clause, related_conversation or related_group)
        return group

    def _lock(self, tx: Transaction, database: Database, handle: str) -> Waiting[ConversationEndpoint]:
        endpoint = database.endpoints.get(handle)
        if endpoint is None:
            raise SqlServerError(8426, handle)
        group = endpoint.incoming.group
        if not group.try_acquire(tx):
            yield from group.acquire(tx, self._waits)
            if database.endpoints.get(handle) is not endpoint:  # gone while we waited
                raise SqlServerError(8426, handle)
        return endpoint

    def send(
        self, tx: Transaction, database: Database, handles: Sequence[str], message_type: str | None, body: bytes | None
    ) -> Waiting[None]:
        """SEND ON CONVERSATION ( handle [, ...] ) [ MESSAGE TYPE type ] [ ( body ) ]: all of them or none.

        `message_type` None is DEFAULT, `body` None an empty message."""
        name = system_objects.DEFAULT if message_type is None else message_type
        body = body or None  # SQL Server stores a body of length zero as NULL
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
            self._append(tx, endpoint, name, body)
        self._counters.sends += 1

    def _append(self, tx: Transaction, endpoint: ConversationEndpoint, name: str, body: bytes | None) -> None:
        """Add the next message of this side to the transaction."""
        sequence = endpoint.send_sequence
        tx.set(endpoint, "send_sequence", sequence + 1)
        if endpoint.state is STARTED_OUTBOUND:
            tx.change_state(endpoint, CONVERSING)
        tx.writes.append((endpoint.database.desend_table, endpoint.terms.conversation_handle, (sequence + 1,)))
        tx.sent.append(TransmissionRow(endpoint, sequence, name, body, self._clock.utc_ns()))

    def end(
        self,
        tx: Transaction,
        database: Database,
        handle: str,
        *,
        error: tuple[int, str] | None = None,
        cleanup: bool = False,
    ) -> Waiting[None]:
        """END CONVERSATION handle [ WITH ERROR = code DESCRIPTION = 'text' | WITH CLEANUP ]"""
        endpoint = yield from self._lock(tx, database, handle)
        delivery = self._delivery
        if cleanup:
            _mark_changing(tx, endpoint)
            self._unsend(tx, endpoint, also_in_flight=True)
            delivery.remove(tx, endpoint)
            return
        after = successor(endpoint.state, EndpointEvent.END_LOCAL)
        if after is None:
            raise SqlServerError(8427, endpoint.state.name)
        _mark_changing(tx, endpoint)
        yield from self._platform.cpu("end_conversation")
        yield from self._platform.latch(endpoint.page)
        if endpoint.dialog_timer is not None:
            tx.set(endpoint, "dialog_timer", None)
        delivery.discard_rows(tx, endpoint)
        if error is not None:
            self._unsend(tx, endpoint, also_in_flight=False)
        if after is CLOSED or (endpoint.terms.is_initiator and endpoint.send_sequence == 0):
            # The far side has ended already, or does not know this conversation: nothing is sent.
            delivery.close(tx, endpoint)
            return
        tx.set(endpoint, "end_dialog_sequence", endpoint.send_sequence)
        if error is None:
            self._append(tx, endpoint, system_objects.END_DIALOG, None)
        else:
            self._append(tx, endpoint, system_objects.ERROR, system_objects.error_body(*error))
        tx.change_state(endpoint, after)

    def _unsend(self, tx: Transaction, endpoint: ConversationEndpoint, *, also_in_flight: bool) -> None:
        """Take back messages not handed to the transport yet: "drops the other unsent messages"."""
        outgoing = endpoint.outgoing
        unsent = [row for row in tx.sent if row.endpoint is endpoint]
        keep = 0 if also_in_flight else outgoing.in_flight
        rows = outgoing.unacknowledged
        waiting = list(rows)[keep:]
        if not unsent and not waiting:
            return
        tx.set(tx, "sent", [row for row in tx.sent if row.endpoint is not endpoint])
        tx.looked_at = 0
        tx.set(endpoint, "send_sequence", endpoint.send_sequence - len(unsent) - len(waiting))
        outgoing.unacknowledged = deque(islice(rows, len(rows) - len(waiting))) if len(rows) > len(waiting) else ()
        for row in waiting:
            tx.write(endpoint.database.xmit_table, row.key, None)
            outgoing.transmission_queue.pop(row.key, None)
        tx.on_rollback(partial(self._resend, endpoint, waiting))

    def _resend(self, endpoint: ConversationEndpoint, rows: list[TransmissionRow]) -> None:
        for row in rows:
            endpoint.outgoing.add(row)
        self._dispatchers.wake(endpoint)

    def move(self, tx: Transaction, database: Database, handle: str, group_id: str) -> Waiting[None]:
        """MOVE CONVERSATION handle TO group"""
        endpoint = yield from self._lock(tx, database, handle)
        group = database.groups.get(group_id)
        if group is None:
            raise SqlServerError(8436, group_id)
        if endpoint.state is CLOSED:
            raise SqlServerError(8438, endpoint.state.name)
        before = endpoint.incoming.group
        if group.queue is not before.queue:
            raise SqlServerError(8439, group_id)
        if not group.try_acquire(tx):
            yield from group.acquire(tx, self._waits)
            if database.groups.get(group_id) is not group:  # gone while we waited
                raise SqlServerError(8436, group_id)
        if group is before:
            return
        _mark_changing(tx, endpoint)
        tx.on_rollback(partial(database.regroup, endpoint, before))
        database.regroup(endpoint, group)
        tx.store_endpoint(endpoint)

    def begin_timer(self, tx: Transaction, database: Database, handle: str, timeout_s: int) -> Waiting[None]:
        """BEGIN CONVERSATION TIMER ( handle ) TIMEOUT = seconds: one for each side; a new one replaces it."""
        endpoint = yield from self._lock(tx, database, handle)
        if endpoint.state not in _TIMED:
            raise SqlServerError(8458, endpoint.state.name)
        due_ns = self._clock.utc_ns() + timeout_s * SECOND
        if endpoint.terms.lifetime is not None and due_ns > endpoint.terms.lifetime:
            raise SqlServerError(8410)
        _mark_changing(tx, endpoint)
        tx.set(endpoint, "dialog_timer", due_ns)
        tx.store_endpoint(endpoint)
        tx.on_commit(partial(self._deadlines.set_timer, endpoint))

    # Deadlines

    def expire(self, deadline: Deadline, endpoint: ConversationEndpoint, due_ns: int) -> None:
        """Start a task that acts on a deadline, in its own transaction."""
        self._transactions.spawn(
            f"{deadline} of {endpoint.terms.conversation_handle}",
            partial(self._act, deadline=deadline, endpoint=endpoint, due_ns=due_ns),
        )

    def _act(self, tx: Transaction, deadline: Deadline, endpoint: ConversationEndpoint, due_ns: int) -> Waiting[None]:
        yield from endpoint.incoming.group.acquire(tx, self._waits)
        if endpoint.incoming.is_gone:
            return
        if deadline == "timer":
            self._send_timer_message(tx, endpoint, due_ns)
        elif deadline == "lifetime":
            self._end_lifetime(tx, endpoint)
        elif endpoint.state is CLOSED:
            self._delivery.remove(tx, endpoint)

    def _send_timer_message(self, tx: Transaction, endpoint: ConversationEndpoint, due_ns: int) -> None:
        if endpoint.dialog_timer != due_ns:  # the timer was replaced
            return
        tx.set(endpoint, "dialog_timer", None)
        tx.store_endpoint(endpoint)
        timer = endpoint.database.catalog.message_types[system_objects.DIALOG_TIMER]
        self._delivery.enqueue(tx, endpoint, timer, -1, None)
        self._counters.dialog_timers += 1

    def _end_lifetime(self, tx: Transaction, endpoint: ConversationEndpoint) -> None:
        if endpoint.state is DISCONNECTED_OUTBOUND:
            self._delivery.close(tx, endpoint)
        else:
            self._delivery.raise_error(tx, endpoint, -8489, SqlServerError(8489).text)


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
    if body and usage.message_type.validation is Validation.EMPTY:
        raise SqlServerError(8430)  # XML is validated where it arrives
    queue = endpoint.service.queue
    if queue.is_retention_enabled and not queue.is_enqueue_enabled:
        raise SqlServerError(9618, queue.name)


def _mark_changing(tx: Transaction, endpoint: ConversationEndpoint) -> None:
    """Mark the endpoint, so that frames for it wait until the transaction is over."""
    if endpoint.changing is not tx:
        endpoint.changing = tx
        tx.on_end(partial(setattr, endpoint, "changing", None))
