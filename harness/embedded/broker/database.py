"""A database as Service Broker sees it: its catalog, its conversations, and the statements on them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING

from harness.embedded.broker.conversations import (
    DATA_FILE,
    FIRST_PAGE,
    ROWS_PER_PAGE,
    ConversationEndpoint,
    ConversationGroup,
    TransmissionRow,
)
from harness.embedded.broker.ddl_links import LinkStatements
from harness.embedded.broker.ddl_security import SecurityStatements
from harness.embedded.broker.ddl_services import ServiceStatements
from harness.embedded.broker.identifiers import Handles
from harness.embedded.broker.objects import QueueOptions
from harness.embedded.broker.queues import Queue, QueueRow
from harness.embedded.broker.transactions import Transaction
from harness.embedded.errors import SqlServerError
from harness.embedded.runtime.platform import Page
from harness.embedded.runtime.tasks import Waiting
from harness.embedded.store import Value

if TYPE_CHECKING:
    from harness.embedded.broker.engine import Engine

# The database's own part of its conversation handles.
HANDLE_PREFIX_BYTES = 10


class Database(ServiceStatements, LinkStatements, SecurityStatements):
    """One database; its broker is known to others by `service_broker_guid`."""

    def __init__(
        self, engine: Engine, name: str, database_id: int, service_broker_guid: str, handle_prefix: bytes
    ) -> None:
        super().__init__(engine, name, database_id)
        self.service_broker_guid = service_broker_guid
        self.is_broker_enabled = True
        self.is_honor_broker_priority_on = False
        self.handle_prefix = handle_prefix
        self.handles = Handles(handle_prefix, engine.clock)
        self.endpoints: dict[str, ConversationEndpoint] = {}  # sys.conversation_endpoints, by handle
        self.groups: dict[str, ConversationGroup] = {}  # sys.conversation_groups, by id
        self.transmission_queue: dict[tuple[str, int], TransmissionRow] = {}  # by handle and sequence
        self.endpoint_table = f"broker.{database_id}.endpoint"
        self.desend_table = f"broker.{database_id}.sysdesend"
        self.dercv_table = f"broker.{database_id}.sysdercv"
        self.xmit_table = f"broker.{database_id}.sysxmitqueue"
        self._ordinal = 0

    def transmission_rows(self) -> Iterator[TransmissionRow]:
        """sys.transmission_queue: what waits to leave, and what came while its queue was OFF."""
        yield from self.transmission_queue.values()
        for queue in self.queues.values():
            for row in queue.blocked:
                yield TransmissionRow(
                    row.endpoint,
                    row.message_sequence_number,
                    row.message_type.name,
                    row.message_body,
                    row.message_enqueue_time,
                )

    def store(self, tx: Transaction) -> None:
        """Stages the database's own row."""
        tx.write("catalog.database", self.database_id, self.stored())

    def stored(self) -> Value:
        return (
            self.name,
            self.service_broker_guid,
            self.is_broker_enabled,
            self.is_honor_broker_priority_on,
            self.handle_prefix,
            self.principals.has_master_key,
            self.create_time_ns,
            self.object_ordinal,
        )

    # ALTER DATABASE ... SET

    def set_broker(self, tx: Transaction, option: str) -> None:
        """ENABLE_BROKER, DISABLE_BROKER, NEW_BROKER or ERROR_BROKER_CONVERSATIONS."""
        if option == "NEW_BROKER":
            self._set(tx, self, "service_broker_guid", self.engine.new_guid())
            for endpoint in list(self.endpoints.values()):
                self.engine.delivery.remove(tx, endpoint)
        elif option == "ERROR_BROKER_CONVERSATIONS":
            text = SqlServerError(9719).text
            for endpoint in list(self.endpoints.values()):
                self.engine.delivery.raise_error(tx, endpoint, -9719, text)
        elif option == "ENABLE_BROKER":
            other = self.engine.database_of_broker(self.service_broker_guid)
            if other is not None and other is not self and other.is_broker_enabled:
                raise SqlServerError(9772, self.name)
        self._set(tx, self, "is_broker_enabled", option != "DISABLE_BROKER")
        self.store(tx)
        self._refresh(tx)

    def set_honor_broker_priority(self, tx: Transaction, on: bool) -> None:
        self._set(tx, self, "is_honor_broker_priority_on", on)
        self.store(tx)

    def drop_everything(self, tx: Transaction) -> None:
        """DROP DATABASE: its conversations and objects leave the store; memory lets go of the whole."""
        for endpoint in list(self.endpoints.values()):
            self.engine.delivery.remove(tx, endpoint)
        for queue in self.queues.values():
            self._write(tx, "queue", queue.object_id, None)
            tx.on_commit(partial(self.engine.stop_monitor, queue))
        for kind, identifiers in (
            ("message_type", [one.message_type_id for one in self.message_types.values()]),
            ("contract", [one.service_contract_id for one in self.contracts.values()]),
            ("service", [one.service_id for one in self.services.values()]),
            ("route", [one.route_id for one in self.routes.values()]),
            (
                "remote_service_binding",
                [one.remote_service_binding_id for one in self.remote_service_bindings.values()],
            ),
            ("priority", [one.priority_id for one in self.priorities.values()]),
            ("user", [one.principal_id for one in self.principals.users.values()]),
            ("certificate", [one.certificate_id for one in self.principals.certificates.values()]),
        ):
            for identifier in identifiers:
                self._write(tx, kind, identifier, None)

    # Conversations, as the broker's parts change them

    def store_endpoint(self, tx: Transaction, endpoint: ConversationEndpoint) -> None:
        """Stages the endpoint's row (without the sequences, which have rows of their own)."""
        tx.writes.append(
            (
                self.endpoint_table,
                endpoint.conversation_handle,
                (
                    endpoint.conversation_id,
                    endpoint.is_initiator,
                    endpoint.service.service_id,
                    endpoint.contract.name,
                    endpoint.group.conversation_group_id,
                    endpoint.far_service,
                    endpoint.far_broker_instance,
                    endpoint.lifetime,
                    endpoint.is_encrypted,
                    endpoint.priority,
                    endpoint.is_system,
                    endpoint.state.value,
                    endpoint.dialog_timer,
                    endpoint.security_timestamp,
                    endpoint.end_dialog_sequence,
                ),
            )
        )

    def remember(self, endpoint: ConversationEndpoint) -> None:
        """The endpoint exists from now on."""
        endpoint.is_gone = False
        endpoint.ordinal = self._ordinal
        endpoint.page = Page(self.database_id, DATA_FILE, FIRST_PAGE + self._ordinal // ROWS_PER_PAGE)
        self._ordinal += 1
        group = endpoint.group
        self.groups[group.conversation_group_id] = group
        group.endpoints[endpoint.conversation_handle] = endpoint
        self.endpoints[endpoint.conversation_handle] = endpoint
        self.engine.conversations[endpoint.conversation_id, endpoint.is_initiator] = endpoint

    def forget(self, endpoint: ConversationEndpoint) -> None:
        """The endpoint exists no longer."""
        handle, group = endpoint.conversation_handle, endpoint.group
        if self.endpoints.pop(handle, None) is None:
            return
        endpoint.is_gone = True
        queue = endpoint.service.queue
        if late := queue.discard(endpoint):  # came while the removal was on its way to the disk
            self.engine.store.commit_lazily([(queue.table, row.queuing_order, None) for row in late])
        self.engine.conversations.pop((endpoint.conversation_id, endpoint.is_initiator), None)
        self.engine.transmitter.forget(endpoint)
        group.ready.pop(handle, None)
        group.endpoints.pop(handle, None)
        if not group.endpoints:
            self.groups.pop(group.conversation_group_id, None)
        if not self.endpoints:
            self._ordinal = 0

    def regroup(self, endpoint: ConversationEndpoint, group: ConversationGroup) -> None:
        """Moves an endpoint and its messages to another group of the same queue."""
        handle, before = endpoint.conversation_handle, endpoint.group
        before.endpoints.pop(handle)
        if not before.endpoints:
            self.groups.pop(before.conversation_group_id, None)
        is_ready = before.ready.pop(handle, None) is not None
        endpoint.group = group
        self.groups[group.conversation_group_id] = group
        group.endpoints[handle] = endpoint
        if is_ready:
            group.ready[handle] = endpoint
        before.queue.withdraw(before)
        group.queue.withdraw(group)

    # Statements

    def begin_dialog(
        self,
        tx: Transaction,
        *,
        from_service: str,
        to_service: str,
        to_broker_instance: str | None = None,
        contract: str | None = None,
        related_conversation: str | None = None,
        related_group: str | None = None,
        lifetime_s: int | None = None,
        encryption: bool = True,
    ) -> Waiting[str]:
        """BEGIN DIALOG: returns the conversation handle. `to_broker_instance` may be 'CURRENT DATABASE'."""
        return self.engine.dialogs.begin(
            self,
            tx,
            from_service=from_service,
            to_service=to_service,
            to_broker_instance=to_broker_instance,
            contract=contract,
            related_conversation=related_conversation,
            related_group=related_group,
            lifetime_s=lifetime_s,
            encryption=encryption,
        )

    def send(
        self, tx: Transaction, handles: Sequence[str], message_type: str | None, body: bytes | None
    ) -> Waiting[None]:
        """SEND ON CONVERSATION; `message_type` None is DEFAULT, `body` None an empty message."""
        return self.engine.sending.send(self, tx, handles, message_type, body)

    def receive(
        self,
        tx: Transaction,
        queue: Queue,
        *,
        top: int | None,
        conversation_handle: str | None = None,
        conversation_group_id: str | None = None,
        wait: bool = False,
        timeout_ms: int | None = None,
    ) -> Waiting[list[QueueRow]]:
        """RECEIVE; `wait` is WAITFOR, `timeout_ms` None waits for ever."""
        return self.engine.receiving.receive(
            self,
            tx,
            queue,
            top=top,
            conversation_handle=conversation_handle,
            conversation_group_id=conversation_group_id,
            wait=wait,
            timeout_ms=timeout_ms,
        )

    def get_conversation_group(
        self, tx: Transaction, queue: Queue, *, wait: bool = False, timeout_ms: int | None = None
    ) -> Waiting[str | None]:
        """GET CONVERSATION GROUP: None when there is none."""
        return self.engine.receiving.get_conversation_group(tx, queue, wait=wait, timeout_ms=timeout_ms)

    def end_conversation(
        self, tx: Transaction, handle: str, *, error: tuple[int, str] | None = None, cleanup: bool = False
    ) -> Waiting[None]:
        """END CONVERSATION, WITH ERROR (code, description), or WITH CLEANUP."""
        return self.engine.dialogs.end(self, tx, handle, error=error, cleanup=cleanup)

    def move_conversation(self, tx: Transaction, handle: str, group_id: str) -> Waiting[None]:
        """MOVE CONVERSATION handle TO group"""
        return self.engine.dialogs.move(self, tx, handle, group_id)

    def begin_conversation_timer(self, tx: Transaction, handle: str, timeout_s: int) -> Waiting[None]:
        """BEGIN CONVERSATION TIMER ( handle ) TIMEOUT = seconds"""
        return self.engine.dialogs.begin_timer(self, tx, handle, timeout_s)

    def transmission_status(self, handle: str) -> str:
        """GET_TRANSMISSION_STATUS; empty for an unknown handle."""
        endpoint = self.endpoints.get(handle)
        return endpoint.transmission_status if endpoint is not None else ""

    def disable_queue(self, queue: Queue) -> Waiting[None]:
        """What poison message handling does: STATUS = OFF, in a transaction of its own."""
        tx = self.engine.begin_transaction()
        try:
            self.alter_queue(tx, queue.schema, queue.name, QueueOptions(status=False))
            yield from tx.commit()
        except SqlServerError as error:  # dropped meanwhile, or the disk is full
            if tx.active:
                tx.rollback()
            self.engine.log(error.text)
            return
        self.engine.notify(queue, "BROKER_QUEUE_DISABLED")
