"""The databases of an instance."""

from __future__ import annotations

from harness.embedded.broker.catalog import Catalog, Changes
from harness.embedded.broker.database import ConversationEndpoint, Database
from harness.embedded.broker.identifiers import random_guid
from harness.embedded.runtime.tasks import Clock, Entropy
from harness.embedded.store import Store

# The database's own part of its conversation handles.
HANDLE_PREFIX_BYTES = 10


class Databases(dict[str, Database]):
    """By name, in lower case."""

    def __init__(  # noqa: PLR0917
        self,
        server_version: str,
        clock: Clock,
        entropy: Entropy,
        store: Store,
        changes: Changes,
        conversations: dict[tuple[str, bool], ConversationEndpoint],
    ) -> None:
        super().__init__()
        self._server_version = server_version
        self._clock = clock
        self._entropy = entropy
        self._store = store
        self._changes = changes
        self._conversations = conversations

    def add(self, name: str, database_id: int, guid: str | None = None, handle_prefix: bytes | None = None) -> Database:
        """Adds a database with nothing but system objects, in memory."""
        prefix = handle_prefix or self._entropy.random_bytes(HANDLE_PREFIX_BYTES)
        catalog = Catalog(
            name,
            database_id,
            guid or random_guid(self._entropy),
            prefix,
            self._server_version,
            self._changes,
            self._clock,
            self._store,
        )
        database = self[name.lower()] = Database(catalog, self._conversations)
        self._changes.count()
        return database

    def by_id(self, database_id: int) -> Database | None:
        return next((database for database in self.values() if database.database_id == database_id), None)

    def of_broker(self, guid: str) -> Database | None:
        """The database whose broker has this service_broker_guid."""
        for database in self.values():
            if database.catalog.service_broker_guid == guid:
                return database
        return None
