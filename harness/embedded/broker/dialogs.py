"""BEGIN DIALOG, END CONVERSATION, MOVE CONVERSATION, BEGIN CONVERSATION TIMER."""

from __future__ import annotations

from collections import deque
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING

from harness.embedded.broker import system
from harness.embedded.broker.conversations import ConversationEndpoint, ConversationGroup
from harness.embedded.broker.objects import Service
from harness.embedded.broker.states import EndpointEvent, EndpointState, successor
from harness.embedded.broker.transactions import Transaction
from harness.embedded.errors import SqlServerError
from harness.embedded.runtime.tasks import SECOND, Waiting

if TYPE_CHECKING:
    from harness.embedded.broker.database import Database
    from harness.embedded.broker.engine import Engine

LIFETIME_MAX_S = 2**31 - 1  # the default: for ever
_TIMED = (EndpointState.STARTED_OUTBOUND, EndpointState.CONVERSING, EndpointState.DISCONNECTED_INBOUND)


class Dialogs:
    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    def begin(
        self,
        database: Database,
        tx: Transaction,
        *,
        from_service: str,
        to_service: str,
        to_broker_instance: str | None,
        contract: str | None,
        related_conversation: str | None,
        related_group: str | None,
        lifetime_s: int | None,
        encryption: bool,
        is_system: bool = False,
    ) -> Waiting[str]:
        """The initiator's endpoint, nothing else: no check that the target exists, nothing on the network."""
        engine = self._engine
        service = database.services.get(from_service)
        if service is None:
            raise SqlServerError(8423, from_service)
        agreed = database.contracts.get(contract if contract is not None else system.DEFAULT)
        if agreed is None:
            raise SqlServerError(8425, contract)
        if lifetime_s is not None and not 0 < lifetime_s <= LIFETIME_MAX_S:
            raise SqlServerError(8411, lifetime_s)
        group = self._group(database, tx, service, related_conversation, related_group)
        if not group.try_acquire(tx):
            yield from group.acquire(tx, engine.waits)
        is_forever = lifetime_s is None or lifetime_s == LIFETIME_MAX_S
        endpoint = ConversationEndpoint(
            database=database,
            conversation_handle=database.handles.next(),
            conversation_id=engine.new_guid(),
            is_initiator=True,
            service=service,
            contract=agreed,
            group=group,
            far_service=to_service,
            far_broker_instance=self._instance(database, to_broker_instance),
            lifetime=None if is_forever else engine.clock.utc_ns() + (lifetime_s or 0) * SECOND,
            # "If a binding exists, the dialog is secured even with ENCRYPTION = OFF."
            is_encrypted=encryption or database.binding_for(to_service) is not None,
            priority=database.priority_for(agreed.name, service.name, to_service),
            is_system=is_system,
            state=EndpointState.STARTED_OUTBOUND,
        )
        database.remember(endpoint)
        tx.on_rollback(partial(database.forget, endpoint))
        database.store_endpoint(tx, endpoint)
        if endpoint.lifetime is not None:
            tx.on_commit(partial(engine.expiry.watch, endpoint))
        yield from engine.platform.cpu("begin_dialog")
        yield from engine.platform.latch(endpoint.page)
        return endpoint.conversation_handle

    @staticmethod
    def _instance(database: Database, instance: str | None) -> str | None:
        if instance is not None and instance.upper() == "CURRENT DATABASE":
            return database.service_broker_guid
        return instance.upper() if instance is not None else None

    def _group(
        self,
        database: Database,
        tx: Transaction,
        service: Service,
        related_conversation: str | None,
        related_group: str | None,
    ) -> ConversationGroup:
        if related_conversation is not None:
            related = database.endpoints.get(related_conversation)
            if related is None:
                raise SqlServerError(8426, related_conversation)
            group: ConversationGroup | None = related.group
        elif related_group is not None:
            group = database.groups.get(related_group)
            if group is None:
                return ConversationGroup(related_group, service)
        else:
            return ConversationGroup(self._engine.new_guid(), service)
        assert group is not None
        if group.service is not service:
            clause = "RELATED_CONVERSATION" if related_conversation is not None else "RELATED_CONVERSATION_GROUP"
            raise SqlServerError(9610, service.name, group.service.name, clause, related_conversation or related_group)
        return group

    def find(self, database: Database, handle: str) -> ConversationEndpoint:
        endpoint = database.endpoints.get(handle)
        if endpoint is None:
            raise SqlServerError(8426, handle)
        return endpoint

    def _lock(self, database: Database, tx: Transaction, handle: str) -> Waiting[ConversationEndpoint]:
        endpoint = self.find(database, handle)
        group = endpoint.group
        if not group.try_acquire(tx):
            yield from group.acquire(tx, self._engine.waits)
            if database.endpoints.get(handle) is not endpoint:  # gone while we waited
                raise SqlServerError(8426, handle)
        return endpoint

    @staticmethod
    def _changing(tx: Transaction, endpoint: ConversationEndpoint) -> None:
        """Until the transaction is over nothing that arrives may build on what it did to this endpoint."""
        if endpoint.changing is not tx:
            endpoint.changing = tx
            tx.on_end(partial(setattr, endpoint, "changing", None))

    # END CONVERSATION

    def end(
        self, database: Database, tx: Transaction, handle: str, *, error: tuple[int, str] | None, cleanup: bool
    ) -> Waiting[None]:
        """END CONVERSATION handle [ WITH ERROR = code DESCRIPTION = 'text' | WITH CLEANUP ]"""
        engine = self._engine
        endpoint = yield from self._lock(database, tx, handle)
        if cleanup:
            self._changing(tx, endpoint)
            self._unsend(tx, endpoint, also_in_flight=True)
            engine.delivery.remove(tx, endpoint)
            return
        after = successor(endpoint.state, EndpointEvent.END_LOCAL)
        if after is None:
            raise SqlServerError(8427, endpoint.state_desc)
        self._changing(tx, endpoint)
        yield from engine.platform.cpu("end_conversation")
        yield from engine.platform.latch(endpoint.page)
        if endpoint.dialog_timer is not None:
            tx.on_rollback(partial(setattr, endpoint, "dialog_timer", endpoint.dialog_timer))
            endpoint.dialog_timer = None
        engine.delivery.discard_rows(tx, endpoint)
        if error is not None:
            self._unsend(tx, endpoint, also_in_flight=False)
        if after is EndpointState.CLOSED or (endpoint.is_initiator and endpoint.send_sequence == 0):
            # The far side has ended already, or has never heard of this conversation: nobody to tell.
            engine.delivery.close(tx, endpoint)
            return
        tx.on_rollback(partial(setattr, endpoint, "end_dialog_sequence", endpoint.end_dialog_sequence))
        endpoint.end_dialog_sequence = endpoint.send_sequence
        if error is None:
            engine.sending.append(tx, endpoint, system.END_DIALOG, None)
        else:
            engine.sending.append(tx, endpoint, system.ERROR, system.error_body(*error))
        engine.delivery.change_state(tx, endpoint, after)

    def _unsend(self, tx: Transaction, endpoint: ConversationEndpoint, *, also_in_flight: bool) -> None:
        """Takes back what was not handed to the transport yet: "drops the other unsent messages"."""
        own = [row for row in tx.sent if row.endpoint is endpoint]
        keep = 0 if also_in_flight else endpoint.in_flight
        rows = endpoint.unacknowledged
        waiting = list(rows)[keep:]
        if not own and not waiting:
            return
        sent_before = list(tx.sent)
        tx.sent[:] = [row for row in tx.sent if row.endpoint is not endpoint]
        tx.on_rollback(partial(tx.sent.__setitem__, slice(None), sent_before))
        tx.on_rollback(partial(setattr, endpoint, "send_sequence", endpoint.send_sequence))
        endpoint.send_sequence -= len(own) + len(waiting)
        endpoint.unacknowledged = deque(islice(rows, len(rows) - len(waiting))) if len(rows) > len(waiting) else ()
        for row in waiting:
            tx.write(endpoint.database.xmit_table, row.key, None)
            endpoint.database.transmission_queue.pop(row.key, None)
        tx.on_rollback(partial(self._resend, endpoint, waiting))

    def _resend(self, endpoint: ConversationEndpoint, rows: list) -> None:  # type: ignore[type-arg]
        for row in rows:
            endpoint.add_unacknowledged(row)
            endpoint.database.transmission_queue[row.key] = row
        self._engine.transmitter.wake(endpoint)

    # MOVE CONVERSATION and timers

    def move(self, database: Database, tx: Transaction, handle: str, group_id: str) -> Waiting[None]:
        """MOVE CONVERSATION handle TO group"""
        endpoint = yield from self._lock(database, tx, handle)
        group = database.groups.get(group_id)
        if group is None:
            raise SqlServerError(8436, group_id)
        if endpoint.state is EndpointState.CLOSED:
            raise SqlServerError(8438, endpoint.state_desc)
        if group.queue is not endpoint.group.queue:
            raise SqlServerError(8439, group_id)
        if not group.try_acquire(tx):
            yield from group.acquire(tx, self._engine.waits)
            if database.groups.get(group_id) is not group:  # gone while we waited
                raise SqlServerError(8436, group_id)
        if group is endpoint.group:
            return
        self._changing(tx, endpoint)
        tx.on_rollback(partial(database.regroup, endpoint, endpoint.group))
        database.regroup(endpoint, group)
        database.store_endpoint(tx, endpoint)

    def begin_timer(self, database: Database, tx: Transaction, handle: str, timeout_s: int) -> Waiting[None]:
        """BEGIN CONVERSATION TIMER ( handle ) TIMEOUT = seconds: one a side, a new one replaces it."""
        engine = self._engine
        endpoint = yield from self._lock(database, tx, handle)
        if endpoint.state not in _TIMED:
            raise SqlServerError(8458, endpoint.state_desc)
        due_ns = engine.clock.utc_ns() + timeout_s * SECOND
        if endpoint.lifetime is not None and due_ns > endpoint.lifetime:
            raise SqlServerError(8410)
        self._changing(tx, endpoint)
        tx.on_rollback(partial(setattr, endpoint, "dialog_timer", endpoint.dialog_timer))
        endpoint.dialog_timer = due_ns
        database.store_endpoint(tx, endpoint)
        tx.on_commit(partial(engine.expiry.set_timer, endpoint))
