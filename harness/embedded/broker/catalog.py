"""A database's catalog: the broker objects, and what all statements that change them have in common.

Every statement takes the transaction it runs in: what it did in memory is undone at rollback, what is durable is
staged. Objects are rows `catalog.<kind>` with key (database_id, id) in the store; recovery makes them again from those
rows. Names are compared byte by byte, except those of queues, users and certificates, which are ordinary identifiers
(any case). The statements are in `ddl_services`, `ddl_links` and `ddl_security`.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

from harness.embedded.broker import system
from harness.embedded.broker.identifiers import object_id
from harness.embedded.broker.objects import (
    Contract,
    MessageType,
    MessageUsage,
    Priority,
    RemoteServiceBinding,
    Route,
    Service,
    Validation,
)
from harness.embedded.broker.queues import Queue
from harness.embedded.broker.security import Principals
from harness.embedded.broker.transactions import Transaction
from harness.embedded.errors import SqlServerError

if TYPE_CHECKING:
    from harness.embedded.broker.database import Database
    from harness.embedded.broker.engine import Engine
    from harness.embedded.store import Value

Name = TypeVar("Name")
Thing = TypeVar("Thing")


class Catalog:
    """The objects of one database; `Database` adds the statements and the conversations."""

    store: Callable[[Transaction], None]

    def __init__(self, engine: Engine, name: str, database_id: int) -> None:
        self.engine = engine
        self.name = name
        self.database_id = database_id
        self.create_time_ns = engine.clock.utc_ns()
        self.object_ordinal = 0  # object ids given out
        # Each kind counts by itself: message types, contracts, services, routes, bindings, priorities.
        self._last_ids: defaultdict[str, int] = defaultdict(lambda: system.FIRST_USER_ID - 1)
        self.message_types: dict[str, MessageType] = {}
        self.contracts: dict[str, Contract] = {}
        self.queues: dict[str, Queue] = {}  # by 'schema.name', lower case
        self.services: dict[str, Service] = {}
        self.routes: dict[str, Route] = {}
        self.remote_service_bindings: dict[str, RemoteServiceBinding] = {}
        self.priorities: dict[str, Priority] = {}
        self.principals = Principals()

    @property
    def _this(self) -> Database:
        return self.engine.databases[self.name.lower()]

    def add_system_objects(self, database: Database) -> None:
        """What every database has from the start; made anew at every start, never stored (the route is)."""
        for identifier, name, validation in system.MESSAGE_TYPES:
            self.message_types[name] = MessageType(name, identifier, Validation(validation))
        for identifier, name, usages in system.CONTRACTS:
            self.contracts[name] = Contract(name, identifier, self._usages(usages))
        queues = {}
        for identifier, name in system.QUEUES:
            queue = self.queues[f"dbo.{name.lower()}"] = Queue(database, "dbo", name, identifier)
            queue.create_time_ns = self.create_time_ns
            queues[name] = queue
        for identifier, name, queue_name, contracts in system.SERVICES:
            agreed = {contract: self.contracts[contract] for contract in contracts}
            self.services[name] = Service(name, identifier, queues[queue_name], agreed)

    def _usages(self, usages: Any) -> dict[str, MessageUsage]:
        return {
            name: MessageUsage(self.message_types[name], sent_by != "TARGET", sent_by != "INITIATOR")
            for name, sent_by in usages
        }

    # What statements are made of

    def new_object_id(self, tx: Transaction) -> int:
        """The next object id; sys.objects of queues, tables and procedures share them."""
        taken = {identifier for identifier, _ in system.QUEUES}
        while True:
            identifier = object_id(self.object_ordinal)
            self.object_ordinal += 1
            if identifier not in taken:
                self.store(tx)
                return identifier

    def _new_id(self, kind: str) -> int:
        """Ids are not given back: a rolled back statement leaves a gap."""
        self._last_ids[kind] += 1
        return self._last_ids[kind]

    def seen_id(self, kind: str, identifier: int) -> None:
        """An id from before the restart: what comes next is above it."""
        self._last_ids[kind] = max(self._last_ids[kind], identifier)

    def _add(self, tx: Transaction, objects: dict[Name, Thing], name: Name, thing: Thing) -> None:
        objects[name] = thing
        tx.on_rollback(partial(objects.pop, name, None))

    def _remove(self, tx: Transaction, objects: dict[Name, Thing], name: Name) -> None:
        tx.on_rollback(partial(objects.__setitem__, name, objects[name]))
        del objects[name]

    def _set(self, tx: Transaction, thing: object, attribute: str, value: object) -> None:
        tx.on_rollback(partial(setattr, thing, attribute, getattr(thing, attribute)))
        setattr(thing, attribute, value)

    def _write(self, tx: Transaction, kind: str, identifier: int, row: Value | None) -> None:
        tx.write(f"catalog.{kind}", (self.database_id, identifier), row)

    @staticmethod
    def _find(objects: dict[Any, Thing], verb: str, kind: str, name: str, key: str | None = None) -> Thing:
        thing = objects.get(name if key is None else key)
        if thing is None:
            raise SqlServerError(15151, verb, kind, name)
        return thing

    @staticmethod
    def _refuse_existing(objects: dict[str, Thing], name: str, number: int = 2714, key: str | None = None) -> None:
        if (name if key is None else key) in objects:
            raise SqlServerError(number, name)

    def _refresh(self, tx: Transaction) -> None:
        """Routing, monitors and waiting messages take notice of what the statement changed."""
        self.engine.router.changed()
        tx.on_rollback(self.engine.router.changed)
        tx.on_commit(partial(self.engine.refresh, self._this))
