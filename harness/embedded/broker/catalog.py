"""The catalog of a database: its broker objects and principals, and its own row of sys.databases.

The store keeps objects as rows `catalog.<kind>` with key (database_id, id), from which recovery makes them again. Names
are compared byte by byte, except those of queues, users and certificates, ordinary identifiers in any case. The
modules `ddl_*` change a catalog.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from operator import attrgetter

from harness.embedded.broker import definitions, system_objects
from harness.embedded.broker.environment import Environment
from harness.embedded.broker.queues import Queue
from harness.embedded.store.group_commit import Value

DEFAULT_PRIORITY = 5

# Options of a database that are kept and shown, and on which nothing depends; those of a new one.
SHOWN_OPTIONS: Mapping[str, str] = {
    "RECOVERY": "SIMPLE",
    "DELAYED_DURABILITY": "DISABLED",
    "QUERY_STORE": "OFF",
    "ACCELERATED_DATABASE_RECOVERY": "OFF",
    "ALLOW_SNAPSHOT_ISOLATION": "OFF",
    "AUTO_CLOSE": "OFF",
    "AUTO_SHRINK": "OFF",
    "PAGE_VERIFY": "CHECKSUM",
    "USER_ACCESS": "MULTI_USER",
    # What SSMS writes at the head of a script. Drivers set most of them for their sessions.
    "ANSI_NULL_DEFAULT": "OFF",
    "ANSI_NULLS": "OFF",
    "ANSI_PADDING": "OFF",
    "ANSI_WARNINGS": "OFF",
    "ARITHABORT": "OFF",
    "AUTO_CREATE_STATISTICS": "ON",
    "AUTO_UPDATE_STATISTICS": "ON",
    "AUTO_UPDATE_STATISTICS_ASYNC": "OFF",
    "CONCAT_NULL_YIELDS_NULL": "OFF",
    "DATE_CORRELATION_OPTIMIZATION": "OFF",
    "PARAMETERIZATION": "SIMPLE",
    "QUOTED_IDENTIFIER": "OFF",
}


# Those that every database has, each with its own owner; sys.schemas of SQL Server also has one for each fixed role.
SCHEMAS: Mapping[str, int] = {"dbo": 1, "INFORMATION_SCHEMA": 3, "sys": 4}

# The classes of what has an owner: where a catalog has them, and their identifiers.
OWNED: Mapping[str, tuple[str, str]] = {
    "MESSAGE TYPE": ("message_types", "message_type_id"),
    "CONTRACT": ("contracts", "service_contract_id"),
    "SERVICE": ("services", "service_id"),
    "ROUTE": ("routes", "route_id"),
    "REMOTE SERVICE BINDING": ("remote_service_bindings", "remote_service_binding_id"),
    "CERTIFICATE": ("principals.certificates", "certificate_id"),
    "SCHEMA": ("schemas", "schema_id"),
}


@dataclass(slots=True, eq=False)
class Service:
    name: str
    service_id: int
    queue: Queue
    contracts: dict[str, definitions.Contract]
    owner: str = "dbo"
    senders: set[str] = field(default_factory=set)  # users with SEND; `public` for everybody


class Changes:
    """Counts changes in all databases on which routing depends, and announces them when they are committed."""

    def __init__(self, committed: Callable[[Catalog], None]) -> None:
        self.version = 0
        self.committed = committed

    def count(self) -> None:
        self.version += 1


class Catalog:
    def __init__(  # noqa: PLR0917
        self,
        name: str,
        database_id: int,
        service_broker_guid: str,
        handle_prefix: bytes,
        server_version: str,
        changes: Changes,
        environment: Environment,
    ) -> None:
        self.name = name
        self.database_id = database_id
        self.service_broker_guid = service_broker_guid  # identifies its broker to others
        self.handle_prefix = handle_prefix
        self.create_time_ns = environment.clock.utc_ns()
        self.server_version = server_version
        self.changes = changes
        self.clock = environment.clock
        self.store = environment.store
        self.is_broker_enabled = True
        self.is_honor_broker_priority_on = False
        self.is_trustworthy_on = False
        self.is_read_committed_snapshot_on = False
        self.compatibility_level = 0  # 0: that of the server's version
        self.shown_options = dict(SHOWN_OPTIONS)
        self.object_ordinal = 0  # number of object ids assigned
        # Each kind has its own count: message types, contracts, services, routes, bindings, priorities.
        self._last_ids: defaultdict[str, int] = defaultdict(lambda: system_objects.FIRST_USER_ID - 1)
        self.message_types: dict[str, definitions.MessageType] = {}
        self.contracts: dict[str, definitions.Contract] = {}
        self.queues: dict[str, Queue] = {}  # by 'schema.name', lower case
        self.services: dict[str, Service] = {}
        self.routes: dict[str, definitions.Route] = {}
        self.remote_service_bindings: dict[str, definitions.RemoteServiceBinding] = {}
        self.priorities: dict[str, definitions.Priority] = {}
        self.principals = definitions.Principals()
        self.schemas = {name.lower(): definitions.Schema(name, number, name) for name, number in SCHEMAS.items()}
        self.xml_schema_collections: dict[str, definitions.XmlSchemaCollection] = {}  # by 'schema.name', lower case
        self.watched = definitions.WatchedWhole(0)
        self.watched_server = definitions.WatchedWhole(-1)  # used in one database: `event_notifications.OF_SERVER`
        self.keys = environment.keys
        self._add_system_objects()

    def owners(self, class_: str) -> dict[int, str]:
        """The owner in lower case, a user, of each thing of a class of `OWNED`, by its identifier."""
        collection, identifier = OWNED[class_]
        things = attrgetter(collection)(self).values()
        return {getattr(thing, identifier): thing.owner.lower() for thing in things}

    def _add_system_objects(self) -> None:
        """Add the system objects, which every start makes anew and which are never stored."""
        for identifier, name, validation in system_objects.MESSAGE_TYPES:
            self.message_types[name] = definitions.MessageType(name, identifier, definitions.Validation(validation))
        for identifier, name, usages in system_objects.CONTRACTS:
            self.contracts[name] = definitions.Contract(name, identifier, self.usages(usages))
        queues = {}
        for identifier, name in system_objects.QUEUES:
            queue = self.queues[f"dbo.{name.lower()}"] = Queue(self.store, self.database_id, "dbo", name, identifier)
            queue.create_time_ns = self.create_time_ns
            queues[name] = queue
        for identifier, name, queue_name, contracts in system_objects.SERVICES:
            agreed = {contract: self.contracts[contract] for contract in contracts}
            self.services[name] = Service(name, identifier, queues[queue_name], agreed)

    def usages(self, usages: Iterable[tuple[str, str]]) -> dict[str, definitions.MessageUsage]:
        """The message types of a contract, from (message type, INITIATOR | TARGET | ANY)."""
        return {
            name: definitions.MessageUsage(self.message_types[name], sent_by != "TARGET", sent_by != "INITIATOR")
            for name, sent_by in usages
        }

    def stored(self) -> Value:
        """The database's own row as the store keeps it."""
        return (
            self.name,
            self.service_broker_guid,
            self.is_broker_enabled,
            self.is_honor_broker_priority_on,
            self.handle_prefix,
            self.principals.master_key,
            self.create_time_ns,
            self.object_ordinal,
            self.is_trustworthy_on,
            self.is_read_committed_snapshot_on,
            self.compatibility_level,
            # None where all are the usual ones: the length of the row counts as bytes of log, also in virtual time.
            *(self.shown_options.values() if self.shown_options != SHOWN_OPTIONS else ()),
            self.principals.locked_master_key,
        )

    def master_key_error(self) -> int | None:
        """Return the code in message 28054 if the server cannot use the master key: 25 where there is none, 32 where
        the key of the server does not open it."""
        if not self.principals.has_master_key:
            return 25
        master_key = self.principals.master_key
        return None if master_key is not None and self.keys.opens(master_key) else 32

    def schema_id(self, name: str) -> int:
        return self.schemas[name.lower()].schema_id

    def schema_name(self, schema_id: int | None) -> str | None:
        return next((schema.name for schema in self.schemas.values() if schema.schema_id == schema_id), None)

    def new_id(self, kind: str) -> int:
        """Assign the next id of a kind of object. A rolled back statement leaves a gap."""
        self._last_ids[kind] += 1
        return self._last_ids[kind]

    def seen_id(self, kind: str, identifier: int) -> None:
        """Keep new ids above one that was assigned before the restart."""
        self._last_ids[kind] = max(self._last_ids[kind], identifier)

    def binding_for(self, service: str) -> definitions.RemoteServiceBinding | None:
        for binding in self.remote_service_bindings.values():
            if binding.remote_service_name == service:
                return binding
        return None

    def priority_for(self, contract: str, local_service: str, remote_service: str) -> int:
        """Find the priority of a new endpoint: the most specific match wins, contract before local before remote."""
        best: tuple[tuple[bool, bool, bool], int] | None = None
        for priority in self.priorities.values():
            names = (priority.contract, priority.local_service, priority.remote_service)
            identity = (contract, local_service, remote_service)
            if all(name is None or name == other for name, other in zip(names, identity, strict=True)):
                rank = (names[0] is not None, names[1] is not None, names[2] is not None)
                if best is None or rank > best[0]:
                    best = (rank, priority.level)
        return DEFAULT_PRIORITY if best is None else best[1]
