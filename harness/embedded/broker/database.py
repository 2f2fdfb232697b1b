"""A database as Service Broker sees it: its catalog, its conversations, and the statements on them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from harness.embedded.broker.catalog import Catalog
from harness.embedded.broker.conversations import ConversationEndpoint, ConversationGroup, TransmissionRow
from harness.embedded.broker.queues import Queue, QueueRow
from harness.embedded.broker.transactions import Transaction
from harness.embedded.runtime.tasks import Waiting

if TYPE_CHECKING:
    from harness.embedded.broker.engine import Engine


class Database(Catalog):
    """One database; its broker is known to others by `service_broker_guid`."""

    def __init__(self, engine: Engine, name: str, database_id: int, service_broker_guid: str) -> None:
        super().__init__(engine, name, database_id)
        self.service_broker_guid = service_broker_guid
        self.is_broker_enabled = True
        self.is_honor_broker_priority_on = False
        self.create_time_ns = engine.clock.utc_ns()
        self.endpoints: dict[str, ConversationEndpoint] = {}  # sys.conversation_endpoints, by handle
        self.groups: dict[str, ConversationGroup] = {}  # sys.conversation_groups, by id
        self.transmission_queue: dict[tuple[str, int], TransmissionRow] = {}  # by handle and sequence

    def transmission_rows(self) -> Iterator[TransmissionRow]:
        """sys.transmission_queue."""
        return iter(self.transmission_queue.values())

    def set_broker(self, tx: Transaction, option: str) -> None:
        """ALTER DATABASE ... SET ENABLE_BROKER | DISABLE_BROKER | NEW_BROKER | ERROR_BROKER_CONVERSATIONS."""
        raise NotImplementedError

    def set_honor_broker_priority(self, tx: Transaction, on: bool) -> None:
        raise NotImplementedError

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
        raise NotImplementedError

    def send(
        self, tx: Transaction, handles: Sequence[str], message_type: str | None, body: bytes | None
    ) -> Waiting[None]:
        """SEND ON CONVERSATION; `message_type` None is DEFAULT, `body` None an empty message."""
        raise NotImplementedError

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
        raise NotImplementedError

    def get_conversation_group(
        self, tx: Transaction, queue: Queue, *, wait: bool = False, timeout_ms: int | None = None
    ) -> Waiting[str | None]:
        raise NotImplementedError

    def end_conversation(
        self, tx: Transaction, handle: str, *, error: tuple[int, str] | None = None, cleanup: bool = False
    ) -> Waiting[None]:
        raise NotImplementedError

    def move_conversation(self, tx: Transaction, handle: str, group_id: str) -> Waiting[None]:
        raise NotImplementedError

    def begin_conversation_timer(self, tx: Transaction, handle: str, timeout_s: int) -> Waiting[None]:
        raise NotImplementedError

    def transmission_status(self, handle: str) -> str:
        """GET_TRANSMISSION_STATUS; empty for an unknown handle."""
        endpoint = self.endpoints.get(handle)
        return endpoint.transmission_status if endpoint is not None else ""
