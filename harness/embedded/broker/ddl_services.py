"""CREATE, ALTER and DROP of message types, contracts, queues and services."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import partial

from harness.embedded.broker import system
from harness.embedded.broker.catalog import Catalog
from harness.embedded.broker.conversations import ConversationEndpoint
from harness.embedded.broker.objects import (
    ActivationOptions,
    Contract,
    MessageType,
    MessageUsage,
    QueueOptions,
    Service,
    Validation,
)
from harness.embedded.broker.queues import Queue
from harness.embedded.broker.transactions import Transaction
from harness.embedded.errors import SqlServerError

_VALIDATIONS = {
    "NONE": Validation.BINARY,
    "EMPTY": Validation.EMPTY,
    "WELL_FORMED_XML": Validation.XML,
    "VALID_XML": Validation.XML,
}
_SENT_BY = {(True, False): "INITIATOR", (False, True): "TARGET", (True, True): "ANY"}


class ServiceStatements(Catalog):
    # MESSAGE TYPE

    def create_message_type(self, tx: Transaction, name: str, *, validation: str = "NONE", owner: str = "dbo") -> None:
        """`validation`: NONE, EMPTY, WELL_FORMED_XML or VALID_XML (checked for being well-formed only)."""
        self._refuse_existing(self.message_types, name)
        created = MessageType(name, self._new_id("message_type"), _VALIDATIONS[validation], owner=owner)
        self._add(tx, self.message_types, name, created)
        self._store_message_type(tx, created)

    def alter_message_type(self, tx: Transaction, name: str, *, validation: str) -> None:
        message_type = self._find(self.message_types, "alter", "message type", name)
        self._require_user_object(message_type.message_type_id)
        self._set(tx, message_type, "validation", _VALIDATIONS[validation])
        self._store_message_type(tx, message_type)

    def drop_message_type(self, tx: Transaction, name: str) -> None:
        message_type = self._find(self.message_types, "drop", "message type", name)
        self._require_user_object(message_type.message_type_id)
        if any(name in contract.usages for contract in self.contracts.values()):
            raise SqlServerError(3716, "message type", name, "contract")
        self._remove(tx, self.message_types, name)
        self._write(tx, "message_type", message_type.message_type_id, None)

    def _store_message_type(self, tx: Transaction, message_type: MessageType) -> None:
        row = (message_type.name, message_type.validation.value, message_type.owner)
        self._write(tx, "message_type", message_type.message_type_id, row)

    @staticmethod
    def _require_user_object(identifier: int) -> None:
        if identifier < system.FIRST_USER_ID:
            raise SqlServerError(9663)

    # CONTRACT

    def create_contract(
        self, tx: Transaction, name: str, *, usages: Sequence[tuple[str, str]], owner: str = "dbo"
    ) -> None:
        """`usages`: (message type, INITIATOR | TARGET | ANY)."""
        self._refuse_existing(self.contracts, name)
        agreed: dict[str, MessageUsage] = {}
        for message_type, sent_by in usages:
            if message_type in agreed:
                raise SqlServerError(8403, message_type)
            found = self._find(self.message_types, "find", "message type", message_type)
            agreed[message_type] = MessageUsage(found, sent_by != "TARGET", sent_by != "INITIATOR")
        if not any(usage.is_sent_by_initiator for usage in agreed.values()):
            raise SqlServerError(8492, name)
        created = Contract(name, self._new_id("contract"), agreed, owner)
        self._add(tx, self.contracts, name, created)
        stored = tuple(
            (usage.message_type.name, _SENT_BY[usage.is_sent_by_initiator, usage.is_sent_by_target])
            for usage in agreed.values()
        )
        self._write(tx, "contract", created.service_contract_id, (name, stored, owner))
        self._refresh(tx)

    def drop_contract(self, tx: Transaction, name: str) -> None:
        contract = self._find(self.contracts, "drop", "service contract", name)
        self._require_user_object(contract.service_contract_id)
        if any(name in service.contracts for service in self.services.values()):
            raise SqlServerError(3716, "service contract", name, "service")
        if any(priority.contract == name for priority in self.priorities.values()):
            raise SqlServerError(3716, "service contract", name, "conversation priority")
        endpoints = [endpoint for endpoint in self._this.endpoints.values() if endpoint.contract is contract]
        self._break_off(tx, endpoints, 8487)
        self._remove(tx, self.contracts, name)
        self._write(tx, "contract", contract.service_contract_id, None)

    # QUEUE

    def create_queue(self, tx: Transaction, schema: str, name: str, options: QueueOptions) -> Queue:
        key = f"{schema}.{name}".lower()
        self._refuse_existing(self.queues, name, key=key)
        queue = Queue(self._this, schema, name, self.new_object_id(tx))
        queue.create_time_ns = self.engine.clock.utc_ns()
        self._set_options(tx, queue, options)
        self._add(tx, self.queues, key, queue)
        self._store_queue(tx, queue)
        self._refresh(tx)
        return queue

    def alter_queue(self, tx: Transaction, schema: str, name: str, options: QueueOptions) -> None:
        queue = self._find(self.queues, "alter", "service queue", name, f"{schema}.{name}".lower())
        self._set_options(tx, queue, options)
        self._store_queue(tx, queue)
        if options.status is not None:
            self._set(tx, queue, "rollbacks", 0)
            tx.on_commit(queue.wake_everybody)
        if options.status:
            tx.on_commit(queue.unblock)
        self._refresh(tx)

    def drop_queue(self, tx: Transaction, schema: str, name: str) -> None:
        key = f"{schema}.{name}".lower()
        queue = self._find(self.queues, "drop", "service queue", name, key)
        self._require_user_queue(queue)
        if any(service.queue is queue for service in self.services.values()):
            raise SqlServerError(3716, "service queue", name, "service")
        self._remove(tx, self.queues, key)
        self._set(tx, queue, "is_dropped", True)
        for row in queue.rows.values():
            tx.write(queue.table, row.queuing_order, None)
        self._write(tx, "queue", queue.object_id, None)
        tx.on_commit(queue.wake_everybody)
        tx.on_commit(partial(self.engine.stop_monitor, queue))

    @staticmethod
    def _require_user_queue(queue: Queue) -> None:
        if any(queue.object_id == identifier for identifier, _ in system.QUEUES):
            raise SqlServerError(9663)

    def _set_options(self, tx: Transaction, queue: Queue, options: QueueOptions) -> None:
        if options.status is not None:
            self._set(tx, queue, "is_receive_enabled", options.status)
            self._set(tx, queue, "is_enqueue_enabled", options.status)
        if options.retention is not None:
            self._set(tx, queue, "is_retention_enabled", options.retention)
        if options.poison_message_handling is not None:
            self._set(tx, queue, "is_poison_message_handling_enabled", options.poison_message_handling)
        if options.activation is not None:
            self._set_activation(tx, queue, options.activation)

    def _set_activation(self, tx: Transaction, queue: Queue, activation: ActivationOptions) -> None:
        if activation.drop:
            for attribute in ("activation_procedure", "max_readers", "execute_as"):
                self._set(tx, queue, attribute, None)
            self._set(tx, queue, "is_activation_enabled", False)
            return
        if activation.max_queue_readers == 0:
            raise SqlServerError(9648, queue.name)
        if any(notification.event == "QUEUE_ACTIVATION" for notification in queue.notifications.values()):
            raise SqlServerError(9717, queue.name)
        # "Adding an activation procedure by ALTER does not change activation status"; in CREATE it is ON by default.
        is_new = queue.object_id not in {other.object_id for other in self.queues.values()}
        status = True if activation.status is None and is_new else activation.status
        if status is not None:
            self._set(tx, queue, "is_activation_enabled", status)
        for attribute, value in (
            ("activation_procedure", activation.procedure),
            ("max_readers", activation.max_queue_readers),
            ("execute_as", activation.execute_as),
        ):
            if value is not None:
                self._set(tx, queue, attribute, value)

    def _store_queue(self, tx: Transaction, queue: Queue) -> None:
        row = (
            queue.schema,
            queue.name,
            queue.owner,
            queue.is_receive_enabled,
            queue.is_enqueue_enabled,
            queue.is_retention_enabled,
            queue.is_activation_enabled,
            queue.is_poison_message_handling_enabled,
            queue.activation_procedure,
            queue.max_readers,
            queue.execute_as,
            queue.create_time_ns,
        )
        self._write(tx, "queue", queue.object_id, row)

    # SERVICE

    def create_service(
        self, tx: Transaction, name: str, *, queue: str, contracts: Sequence[str] = (), owner: str = "dbo"
    ) -> None:
        """`queue`: 'schema.name'."""
        self._refuse_existing(self.services, name)
        on_queue = self._find(self.queues, "find", "service queue", queue, queue.lower())
        agreed: dict[str, Contract] = {}
        for contract in contracts:
            if contract in agreed:
                raise SqlServerError(8404, contract)
            agreed[contract] = self._find(self.contracts, "find", "service contract", contract)
        created = Service(name, self._new_id("service"), on_queue, agreed, owner)
        self._add(tx, self.services, name, created)
        self.store_service(tx, created)
        self._refresh(tx)

    def alter_service(
        self,
        tx: Transaction,
        name: str,
        *,
        queue: str | None = None,
        add_contracts: Sequence[str] = (),
        drop_contracts: Sequence[str] = (),
    ) -> None:
        service = self._find(self.services, "alter", "service", name)
        self._require_user_object(service.service_id)
        if queue is None and not add_contracts and not drop_contracts:
            raise SqlServerError(8493, name)
        contracts = dict(service.contracts)
        for contract in drop_contracts:
            self._find(contracts, "find", "service contract", contract)
            del contracts[contract]
        for contract in add_contracts:
            if contract in contracts:
                raise SqlServerError(8404, contract)
            contracts[contract] = self._find(self.contracts, "find", "service contract", contract)
        self._set(tx, service, "contracts", contracts)
        if queue is not None:
            self._move_to_queue(tx, service, self._find(self.queues, "find", "service queue", queue, queue.lower()))
        self.store_service(tx, service)
        self._refresh(tx)

    def _move_to_queue(self, tx: Transaction, service: Service, target: Queue) -> None:
        """ALTER SERVICE ... ON QUEUE takes the service's messages along."""
        source = service.queue
        if target is source:
            return
        endpoints = [endpoint for endpoint in self._this.endpoints.values() if endpoint.service is service]
        for endpoint in endpoints:
            self.engine.delivery.discard_rows(tx, endpoint, then=partial(self._requeue, tx, endpoint, target))
        self._set(tx, service, "queue", target)
        for endpoint in endpoints:
            source.withdraw(endpoint.group)
            self._set(tx, endpoint.group, "queue", target)
        tx.on_commit(source.wake_everybody)

    def _requeue(self, tx: Transaction, endpoint: ConversationEndpoint, target: Queue, rows: list) -> None:  # type: ignore[type-arg]
        for row in rows:
            copy = target.new_row(
                endpoint,
                row.message_sequence_number,
                row.message_type,
                row.message_body,
                row.message_enqueue_time,
                row.status,
            )
            tx.write(target.table, copy.queuing_order, copy.stored())
            tx.arrived.append(copy)

    def drop_service(self, tx: Transaction, name: str) -> None:
        service = self._find(self.services, "drop", "service", name)
        self._require_user_object(service.service_id)
        if any(priority.local_service == name for priority in self.priorities.values()):
            raise SqlServerError(3716, "service", name, "conversation priority")
        endpoints = [endpoint for endpoint in self._this.endpoints.values() if endpoint.service is service]
        self._break_off(tx, endpoints, 8470)
        self._remove(tx, self.services, name)
        self._write(tx, "service", service.service_id, None)
        self._refresh(tx)

    def store_service(self, tx: Transaction, service: Service) -> None:
        row = (service.name, service.queue.object_id, tuple(service.contracts), service.owner, tuple(service.senders))
        self._write(tx, "service", service.service_id, row)

    def _break_off(self, tx: Transaction, endpoints: Iterable[ConversationEndpoint], number: int) -> None:
        """Conversations lose what they stand on: removed here, an error at the far side."""
        text = SqlServerError(number).text
        for endpoint in endpoints:
            far = self.engine.conversations.get((endpoint.conversation_id, not endpoint.is_initiator))
            if far is not None:
                self.engine.delivery.raise_error(tx, far, -number, text)
            else:
                tx.on_commit(partial(self.engine.transmitter.send_error, endpoint, -number, text))
            self.engine.delivery.remove(tx, endpoint)
