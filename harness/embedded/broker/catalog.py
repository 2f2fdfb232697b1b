"""A database's catalog: the broker objects and the statements that change them.

Every statement takes the transaction it runs in: what it did in memory is undone at rollback, what is durable is staged.
Objects are rows `catalog.<kind>` with key (database_id, name) in the store; recovery makes them again from those rows.
Names are compared byte by byte, except those of queues, users and certificates, which are ordinary identifiers (any case).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from harness.embedded.broker.objects import (
    Contract,
    EventNotification,
    MessageType,
    Priority,
    QueueOptions,
    RemoteServiceBinding,
    Route,
    Service,
)
from harness.embedded.broker.queues import Queue
from harness.embedded.broker.security import Certificate, Principals, User
from harness.embedded.broker.transactions import Transaction

if TYPE_CHECKING:
    from harness.embedded.broker.engine import Engine


class Catalog:
    """The objects of one database; `Database` adds the conversations."""

    def __init__(self, engine: Engine, name: str, database_id: int) -> None:
        self.engine = engine
        self.name = name
        self.database_id = database_id
        self.message_types: dict[str, MessageType] = {}
        self.contracts: dict[str, Contract] = {}
        self.queues: dict[str, Queue] = {}  # by 'schema.name', lower case
        self.services: dict[str, Service] = {}
        self.routes: dict[str, Route] = {}
        self.remote_service_bindings: dict[str, RemoteServiceBinding] = {}
        self.priorities: dict[str, Priority] = {}
        self.principals = Principals()

    def new_object_id(self, tx: Transaction) -> int:
        """The next object id; sys.objects of queues, tables and procedures share them."""
        raise NotImplementedError

    def create_message_type(self, tx: Transaction, name: str, *, validation: str = "NONE", owner: str = "dbo") -> None:
        """`validation`: NONE, EMPTY, WELL_FORMED_XML or VALID_XML."""
        raise NotImplementedError

    def alter_message_type(self, tx: Transaction, name: str, *, validation: str) -> None:
        raise NotImplementedError

    def drop_message_type(self, tx: Transaction, name: str) -> None:
        raise NotImplementedError

    def create_contract(
        self, tx: Transaction, name: str, *, usages: Sequence[tuple[str, str]], owner: str = "dbo"
    ) -> None:
        """`usages`: (message type, INITIATOR | TARGET | ANY)."""
        raise NotImplementedError

    def drop_contract(self, tx: Transaction, name: str) -> None:
        raise NotImplementedError

    def create_queue(self, tx: Transaction, schema: str, name: str, options: QueueOptions) -> Queue:
        raise NotImplementedError

    def alter_queue(self, tx: Transaction, schema: str, name: str, options: QueueOptions) -> None:
        raise NotImplementedError

    def drop_queue(self, tx: Transaction, schema: str, name: str) -> None:
        raise NotImplementedError

    def create_service(
        self, tx: Transaction, name: str, *, queue: str, contracts: Sequence[str] = (), owner: str = "dbo"
    ) -> None:
        """`queue`: 'schema.name'."""
        raise NotImplementedError

    def alter_service(
        self,
        tx: Transaction,
        name: str,
        *,
        queue: str | None = None,
        add_contracts: Sequence[str] = (),
        drop_contracts: Sequence[str] = (),
    ) -> None:
        raise NotImplementedError

    def drop_service(self, tx: Transaction, name: str) -> None:
        raise NotImplementedError

    def create_route(
        self,
        tx: Transaction,
        name: str,
        *,
        service_name: str | None = None,
        broker_instance: str | None = None,
        lifetime_s: int | None = None,
        address: str,
        mirror_address: str | None = None,
        owner: str = "dbo",
    ) -> None:
        raise NotImplementedError

    def alter_route(
        self,
        tx: Transaction,
        name: str,
        *,
        service_name: str | None = None,
        broker_instance: str | None = None,
        lifetime_s: int | None = None,
        address: str | None = None,
        mirror_address: str | None = None,
    ) -> None:
        """None leaves a clause as it is."""
        raise NotImplementedError

    def drop_route(self, tx: Transaction, name: str) -> None:
        raise NotImplementedError

    def create_remote_service_binding(
        self, tx: Transaction, name: str, *, to_service: str, user: str, anonymous: bool = False, owner: str = "dbo"
    ) -> None:
        raise NotImplementedError

    def alter_remote_service_binding(
        self, tx: Transaction, name: str, *, user: str | None = None, anonymous: bool | None = None
    ) -> None:
        raise NotImplementedError

    def drop_remote_service_binding(self, tx: Transaction, name: str) -> None:
        raise NotImplementedError

    def create_priority(
        self,
        tx: Transaction,
        name: str,
        *,
        contract: str | None = None,
        local_service: str | None = None,
        remote_service: str | None = None,
        level: int = 5,
    ) -> None:
        """None stands for ANY."""
        raise NotImplementedError

    def drop_priority(self, tx: Transaction, name: str) -> None:
        raise NotImplementedError

    def create_event_notification(
        self, tx: Transaction, name: str, *, queue: str, event: str, service: str, broker_instance: str | None = None
    ) -> EventNotification:
        """`broker_instance` None stands for 'current database'."""
        raise NotImplementedError

    def drop_event_notification(self, tx: Transaction, name: str, *, queue: str) -> None:
        raise NotImplementedError

    def create_master_key(self, tx: Transaction) -> None:
        raise NotImplementedError

    def drop_master_key(self, tx: Transaction) -> None:
        raise NotImplementedError

    def create_user(self, tx: Transaction, name: str, *, login: str | None = None) -> User:
        """`login` None: WITHOUT LOGIN."""
        raise NotImplementedError

    def drop_user(self, tx: Transaction, name: str) -> None:
        raise NotImplementedError

    def create_certificate(
        self,
        tx: Transaction,
        name: str,
        *,
        owner: str = "dbo",
        subject: str = "",
        blob: bytes | None = None,
        private_key: bytes | None = None,
        has_password: bool = False,
        start_ns: int | None = None,
        expiry_ns: int | None = None,
        active_for_begin_dialog: bool = True,
    ) -> Certificate:
        """Self-signed without a `blob`; with one it is FROM BINARY. 15581 without a master key and without a password."""
        raise NotImplementedError

    def drop_certificate(self, tx: Transaction, name: str) -> None:
        raise NotImplementedError

    def certificate(self, name: str) -> Certificate | None:
        return self.principals.certificates.get(name.lower())

    def grant(self, tx: Transaction, permission: str, securable_class: str, securable: str, principal: str) -> None:
        """GRANT permission ON class::securable TO principal: SEND ON SERVICE matters to the broker, the rest is checked
        for existence and otherwise has no effect."""
        raise NotImplementedError

    def revoke(self, tx: Transaction, permission: str, securable_class: str, securable: str, principal: str) -> None:
        raise NotImplementedError
