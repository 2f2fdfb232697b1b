"""BEGIN DIALOG, END CONVERSATION, MOVE CONVERSATION, BEGIN CONVERSATION TIMER."""

from __future__ import annotations

from collections import deque
from functools import partial
from itertools import islice

from harness.embedded.broker import system_objects
from harness.embedded.broker.catalog import Service
from harness.embedded.broker.database import ConversationEndpoint, Database, TransmissionRow
from harness.embedded.broker.deadlines import Deadlines
from harness.embedded.broker.definitions import DialogTerms
from harness.embedded.broker.delivery import Delivery
from harness.embedded.broker.dispatchers import Dispatchers
from harness.embedded.broker.endpoint_states import EndpointEvent, EndpointState, successor
from harness.embedded.broker.identifiers import random_guid
from harness.embedded.broker.queues import ConversationGroup
from harness.embedded.broker.sending import Sending
from harness.embedded.broker.transactions import Transaction
from harness.embedded.errors import SqlServerError
from harness.embedded.runtime.platform import Platform
from harness.embedded.runtime.tasks import SECOND, Clock, Entropy, Waiting
from harness.embedded.runtime.waits import WaitStatistics

LIFETIME_MAX_S = 2**31 - 1  # the default: no limit
_TIMED = (EndpointState.STARTED_OUTBOUND, EndpointState.CONVERSING, EndpointState.DISCONNECTED_INBOUND)


class Dialogs:
    def __init__(  # noqa: PLR0917
        self,
        clock: Clock,
        entropy: Entropy,
        platform: Platform,
        waits: WaitStatistics,
        sending: Sending,
        delivery: Delivery,
        deadlines: Deadlines,
        dispatchers: Dispatchers,
    ) -> None:
        self._clock = clock
        self._entropy = entropy
        self._platform = platform
        self._waits = waits
        self._sending = sending
        self._delivery = delivery
        self._deadlines = deadlines
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
        endpoint = ConversationEndpoint(database, service, terms, group, instance, EndpointState.STARTED_OUTBOUND)
        database.remember(endpoint)
        tx.on_rollback(partial(database.forget, endpoint))
        tx.store_endpoint(endpoint)
        if terms.lifetime is not None:
            tx.on_commit(partial(self._deadlines.watch, endpoint))
        yield from self._platform.cpu("begin_dialog")
        yield from self._platform.latch(endpoint.page)
        return terms.conversation_handle

    def _group(
        self,
        database: Database,
        service: Service,
        related_conversation: str | None,
        related_group: str | None,
    ) -> ConversationGroup:
        if related_conversation is not None:
            related = database.endpoints.get(related_conversation)
            if related is None:
                raise SqlServerError(8426, related_conversation)
            group = related.incoming.group
        elif related_group is not None:
            known = database.groups.get(related_group)
            if known is None:
                return ConversationGroup(related_group, service.service_id, service.queue)
            group = known
        else:
            return ConversationGroup(random_guid(self._entropy), service.service_id, service.queue)
        if group.service_id != service.service_id:
            clause = "RELATED_CONVERSATION" if related_conversation is not None else "RELATED_CONVERSATION_GROUP"
            other = next(one.name for one in database.catalog.services.values() if one.service_id == group.service_id)
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
        delivery, sending = self._delivery, self._sending
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
            tx.on_rollback(partial(setattr, endpoint, "dialog_timer", endpoint.dialog_timer))
            endpoint.dialog_timer = None
        delivery.discard_rows(tx, endpoint)
        if error is not None:
            self._unsend(tx, endpoint, also_in_flight=False)
        if after is EndpointState.CLOSED or (endpoint.terms.is_initiator and endpoint.send_sequence == 0):
            # The far side has ended already, or does not know this conversation: nothing is sent.
            delivery.close(tx, endpoint)
            return
        tx.on_rollback(partial(setattr, endpoint, "end_dialog_sequence", endpoint.end_dialog_sequence))
        endpoint.end_dialog_sequence = endpoint.send_sequence
        if error is None:
            sending.append(tx, endpoint, system_objects.END_DIALOG, None)
        else:
            sending.append(tx, endpoint, system_objects.ERROR, system_objects.error_body(*error))
        tx.change_state(endpoint, after)

    def _unsend(self, tx: Transaction, endpoint: ConversationEndpoint, *, also_in_flight: bool) -> None:
        """Takes back messages not handed to the transport yet: "drops the other unsent messages"."""
        outgoing = endpoint.outgoing
        own = [row for row in tx.sent if row.endpoint is endpoint]
        keep = 0 if also_in_flight else outgoing.in_flight
        rows = outgoing.unacknowledged
        waiting = list(rows)[keep:]
        if not own and not waiting:
            return
        sent_before = list(tx.sent)
        tx.sent[:] = [row for row in tx.sent if row.endpoint is not endpoint]
        tx.on_rollback(partial(tx.sent.__setitem__, slice(None), sent_before))
        tx.on_rollback(partial(setattr, endpoint, "send_sequence", endpoint.send_sequence))
        endpoint.send_sequence -= len(own) + len(waiting)
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
        if endpoint.state is EndpointState.CLOSED:
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
        tx.on_rollback(partial(setattr, endpoint, "dialog_timer", endpoint.dialog_timer))
        endpoint.dialog_timer = due_ns
        tx.store_endpoint(endpoint)
        tx.on_commit(partial(self._deadlines.set_timer, endpoint))


def _mark_changing(tx: Transaction, endpoint: ConversationEndpoint) -> None:
    """Marks the endpoint, so that frames for it wait until the transaction is over."""
    if endpoint.changing is not tx:
        endpoint.changing = tx
        tx.on_end(partial(setattr, endpoint, "changing", None))
