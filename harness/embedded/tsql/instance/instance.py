"""The T-SQL side of an engine: its user tables, procedures and sessions, and the batches it has compiled."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache, partial
from itertools import chain
from pathlib import Path
from typing import Any, Protocol

from harness.embedded.broker.database import Database
from harness.embedded.broker.engine import Engine
from harness.embedded.broker.recovery import Asides
from harness.embedded.broker.transactions import Transaction
from harness.embedded.errors import SqlServerError
from harness.embedded.runtime.tasks import Task
from harness.embedded.store.group_commit import Key, Value
from harness.embedded.tsql.instance import system_procedures
from harness.embedded.tsql.instance.application_locks import ApplicationLocks
from harness.embedded.tsql.instance.defects import Defects
from harness.embedded.tsql.instance.modules import MODULES, Module, Procedure, Trigger, UserFunction, UserType, UserView
from harness.embedded.tsql.instance.properties import (
    CONFIGURATION_CATALOG,
    FILES_CATALOG,
    PROPERTIES_CATALOG,
    Configuration,
    DatabaseFiles,
    ExtendedProperties,
)
from harness.embedded.tsql.permissions import rights
from harness.embedded.tsql.permissions.guard import Guard
from harness.embedded.tsql.permissions.rights import Grants
from harness.embedded.tsql.storage import tables
from harness.embedded.tsql.storage.sqlite import Sqlite
from harness.embedded.tsql.storage.tables import Row, Table, void

# Ids of sessions: those below 51 are SQL Server's own. Activated procedures take higher ones if these are in use.
USER_SPIDS = range(51, 30_001)
SYSTEM_SPIDS: tuple[int, ...] = (*range(9, 51), *range(30_001, 32_768))
BATCHES_CACHED = 1000  # compiled batches; the oldest is dropped first
BATCHES_CACHED_LENGTH = 1024 * 1024  # characters of all of them; compiled, a character takes up to 100 bytes
BATCH_CACHED_LENGTH = 64 * 1024  # characters of one: a longer one is compiled each time


@dataclass(frozen=True, slots=True)
class Usage:
    """Facts about the process and its machine: sys.dm_os_sys_info, sys.dm_os_process_memory and the like."""

    cpu_count: int = 1
    physical_memory_kb: int = 0
    available_physical_memory_kb: int = 0
    process_memory_kb: int = 0
    host_platform: str = ""
    host_distribution: str = ""
    host_release: str = ""
    process_user_time_ms: int = 0
    process_kernel_time_ms: int = 0
    runnable_tasks: int = 0  # that wait for a modelled processor


class ConnectedSession(Protocol):
    """A session, as the instance and the views see it."""

    spid: int
    login: str
    guard: Guard | None
    database: Database
    is_user_process: bool
    is_administrative: bool
    is_running: bool
    task: Task | None  # that runs its request
    tx: Transaction | None  # the open one
    disconnect: Callable[[], None] | None

    @property
    def wait_type(self) -> str | None: ...

    def rollback(self) -> None: ...

    def close(self) -> None: ...


class Instance:
    """The T-SQL side of one engine. `Instance.of(engine)` returns it, and the first call reads it from the store."""

    @staticmethod
    def of(engine: Engine) -> Instance:
        instance: Instance | None = engine.statements
        if instance is None:
            instance = engine.statements = Instance(engine)
            instance.recover()
        return instance

    def __init__(self, engine: Engine) -> None:
        self.engine: Engine = engine
        self.sqlite = Sqlite()
        self.tables: dict[tuple[int, str], Table] = {}  # by database and schema.name, lower case
        self.procedures: dict[tuple[int, str], Procedure] = {}
        self.system_procedures: dict[tuple[int, str], Procedure] = {}  # that were called, by database and name
        self.triggers: dict[tuple[int, str], Trigger] = {}
        self.views: dict[tuple[int, str], UserView] = {}
        self.functions: dict[tuple[int, str], UserFunction] = {}
        self.types: dict[tuple[int, str], UserType] = {}
        self.extended_properties = ExtendedProperties()
        self.sessions: dict[int, ConnectedSession] = {}  # by spid
        self.grants = Grants(engine.databases.changes.count)
        self.contexts: dict[tuple[int, str], Guard] = {}  # of EXECUTE AS, by database and user
        self.batches: dict[tuple[Any, ...], Any] = {}  # compiled, by database and text
        self._batches_length = 0  # characters of all texts
        self.prepared_lengths: Counter[str] = Counter()  # for the handles of all sessions (`session.handles`)
        self.prepared_holders: Counter[Any] = Counter()
        self.sequential_ids = 0  # made by NEWSEQUENTIALID since the start
        self.row_versions: Counter[int] = Counter()  # the last value of rowversion columns, by database
        self.files = DatabaseFiles()
        self.version = 0  # of the catalog: plans of an older version are made again
        self._put_aside = 0  # tables, so far
        self.started_ns = engine.clock.utc_ns()
        self.usage: Callable[[], Usage] = Usage  # replaced by the server or the model of a machine
        self.data_folder: Path | None = None  # the same: where the store keeps its files
        self.configuration = Configuration()
        self.trace_flags: set[int] = set()  # global ones
        self.defects = Defects()
        self.application_locks = ApplicationLocks()
        engine.transactions.defect = lambda defect: self.defects.report(defect, "the end of a transaction")

    # -- recovery ----------------------------------------------------------------------------------------------------

    def recover(self) -> None:
        """Read tables, procedures, triggers, grants and options from the store. The broker reads its own objects."""
        rows: dict[str, list[tuple[Any, ...]]] = {}
        asides = Asides(self.engine.store, self.engine.error_log)
        for name, key, value in self.engine.store.load():
            try:
                self._recover(rows, name, key, value)
            except Exception as error:  # a defect of the row: what it is does not matter
                asides.put(name, key, value, repr(error))
        for module in self.modules():
            self.renew_signers(module)
        for table in self.tables.values():
            table.create(self.sqlite)
            self._fill(table, rows.get(table.stored_rows, []), asides)
        self.engine.rows_set_aside += asides.count

    def next_row_version(self, database_id: int) -> bytes:
        self.row_versions[database_id] += 1
        return self.row_versions[database_id].to_bytes(8, "big")

    def _fill(self, table: Table, rows: list[tuple[Any, ...]], asides: Asides) -> None:
        if table.rowversion is not None:
            versions = [int.from_bytes(row[table.rowversion + 1] or b"", "big") for row in rows]
            self.row_versions[table.database_id] = max(self.row_versions[table.database_id], *versions, 0)
        try:
            table.put(self.sqlite, rows)
        except Exception:
            stored = [(row[0], row[1:]) for row in rows]
            asides.each(table.stored_rows, stored, lambda rowid, row: table.put(self.sqlite, [(rowid, *row)]))

    def _recover(self, rows: dict[str, list[tuple[Any, ...]]], name: str, key: Key, value: Value) -> None:
        if name == tables.CATALOG and isinstance(key, tuple):
            table = Table.from_stored((int(key[0]), int(key[1])), value)
            self.tables[table.key] = table
        elif name in MODULES and isinstance(key, tuple):
            module = MODULES[name](int(key[0]), int(key[1]), *value)
            self._family(module)[module.key] = module
            module.find_type = partial(self.user_type, module.database_id)
        elif name == PROPERTIES_CATALOG and isinstance(key, tuple):
            self.extended_properties.recover(int(key[0]), str(key[1]), *value)
        elif name == FILES_CATALOG:
            self.files.recover(int(str(key)), value)
        elif name == CONFIGURATION_CATALOG:
            self.configuration.recover(str(key), int(value[0]))
        elif name == rights.GRANTS_CATALOG and isinstance(key, tuple):
            self.grants.recover(tuple(part for part in key if not isinstance(part, bytes)), value[0])
        elif name.startswith("tsql.rows."):
            rows.setdefault(name, []).append((key, *value))

    def renew(self, tx: Transaction) -> None:
        """After a change of the catalog, and again if it is undone: plans and answers of guards are made anew."""

        def count() -> None:
            self.version += 1

        count()
        tx.on_rollback(count)

    # -- tables and procedures ---------------------------------------------------------------------------------------

    def add_table(self, tx: Transaction, table: Table) -> None:
        table.create(self.sqlite)
        self._enter(tx, table)
        tx.on_rollback(lambda: self.sqlite.connection.execute(f"DROP TABLE {table.sql}"))

    def _enter(self, tx: Transaction, table: Table) -> None:
        self.tables[table.key] = table
        self.version += 1
        if not table.is_temporary:
            tx.write(tables.CATALOG, table.identifier, table.stored())
        tx.on_rollback(lambda: self._forget(table))

    def _forget(self, table: Table) -> None:
        del self.tables[table.key]
        self.version += 1

    def drop_temporary(self, key: tuple[int, str]) -> None:
        """Drop a temporary table outside transactions, if it is there."""
        if (table := self.tables.get(key)) is not None:
            self._forget(table)
            self.sqlite.run(f"DROP TABLE {table.sql}")

    def drop_table(self, tx: Transaction, table: Table) -> None:
        """Drop a table and its triggers."""
        for trigger in self.triggers_on(table):
            self.drop_module(tx, trigger)
        self._set_aside(tx, table)

    def _set_aside(self, tx: Transaction, table: Table) -> None:
        """Take a table out. Its SQLite table is only renamed until the commit, so that a rollback can restore it."""
        table.lock(tx)
        connection = self.sqlite.connection
        rowids = connection.execute(f"SELECT _rowid_ FROM {table.sql}").fetchall()
        table.stage_removal(tx, rowids)
        if not table.is_temporary:
            tx.write(tables.CATALOG, table.identifier, None)
        self._put_aside += 1
        aside = f'"dropped.{table.database_id}.{table.object_id}.{self._put_aside}"'
        connection.execute(f"ALTER TABLE {table.sql} RENAME TO {aside}")
        table.emptied(tx, aside)
        del self.tables[table.key]
        self.version += 1

        def undo() -> None:
            connection.execute(f"ALTER TABLE {aside} RENAME TO {table.sql}")
            self.tables[table.key] = table
            self.version += 1

        tx.on_rollback(undo)
        tx.on_commit(lambda: void(connection.execute(f"DROP TABLE {aside}")))

    def alter_table(self, tx: Transaction, table: Table, changed: Table, rows: list[Row]) -> None:
        """Put a table with more columns or keys, and these rows, in the place of another. They are not uncommitted
        changes: others read them, with NULL or a default in new columns, but cannot change them before the commit."""
        self._set_aside(tx, table)
        self.add_table(tx, changed)
        changed.lock(tx)
        if changed.identity == table.identity:
            changed.number_on_after(table.last_rowid)
        changed.fill(self.sqlite, rows)
        changed.take_changes(tx, table)
        changed.stage(tx, rows)

    def truncate_table(self, tx: Transaction, table: Table) -> None:
        """Empty a table and restart its identity, as if it was dropped and created again. Its plans stay valid."""
        row_count, last_rowid = table.row_count, table.last_rowid
        if row_count == 0:  # renaming would make SQLite prepare every statement again
            table.claim_whole(tx)
            table.start_numbering()
            tx.on_rollback(partial(table.number_on_after, last_rowid))
            return
        version = self.version
        self._set_aside(tx, table)
        self.version = version
        if not table.is_temporary:
            tx.writes.pop()  # the definition stays
        table.create(self.sqlite)
        self.tables[table.key] = table
        table.row_count = 0

        def undo() -> None:
            self.sqlite.connection.execute(f"DROP TABLE {table.sql}")
            table.row_count, table.last_rowid = row_count, last_rowid

        tx.on_rollback(undo)

    def put_module(self, tx: Transaction, module: Module) -> None:
        """CREATE or ALTER of a module: a changed one has lost its signatures."""
        module.find_type = partial(self.user_type, module.database_id)
        self.grants.forget_signatures(tx, module.securable)
        self._assign_module(tx, module, module)
        tx.write(module.CATALOG, (module.database_id, module.object_id), module.stored())

    def renew_signers(self, module: Module) -> None:
        """Let a module know the certificates of its signatures."""
        module.signers = tuple(self.grants.signatures(module.securable))

    def drop_module(self, tx: Transaction, module: Module) -> None:
        self._assign_module(tx, module, None)
        tx.write(module.CATALOG, (module.database_id, module.object_id), None)

    def _assign_module(self, tx: Transaction, module: Module, new: Module | None) -> None:
        family = self._family(module)

        def assign(value: Module | None) -> None:
            self.version += 1
            if value is None:
                family.pop(module.key, None)
            else:
                family[module.key] = value

        tx.on_rollback(partial(assign, family.get(module.key)))
        assign(new)

    def _family(self, module: Module) -> dict[tuple[int, str], Any]:
        families: dict[type[Module], dict[tuple[int, str], Any]] = {
            **{Procedure: self.procedures, Trigger: self.triggers, UserView: self.views, UserFunction: self.functions},
            UserType: self.types,
        }
        return families[type(module)]

    def modules(self) -> list[Module]:
        families = (self.procedures, self.triggers, self.views, self.functions, self.types)
        return [module for family in families for module in family.values()]

    def triggers_on(self, table: Table) -> list[Trigger]:
        """The triggers of a table, in the order in which they fire: the oldest first."""
        triggers = [
            trigger for trigger in self.triggers.values() if (trigger.database_id, trigger.table_id) == table.identifier
        ]
        return sorted(triggers, key=lambda trigger_: (trigger_.create_time_ns, trigger_.object_id))

    def drop_objects(self, tx: Transaction, database: Database) -> None:
        """DROP DATABASE: drop its tables with their triggers, its other modules and properties."""
        self.extended_properties.drop_all(tx, database.database_id)
        for table in [table for table in self.tables.values() if table.database_id == database.database_id]:
            self.drop_table(tx, table)
        for module in self.modules():
            if module.database_id == database.database_id:
                self.drop_module(tx, module)

    # -- names -------------------------------------------------------------------------------------------------------

    def database(self, name: str) -> Database:
        try:
            return self.engine.databases[name.lower()]
        except KeyError:
            raise SqlServerError(911, name) from None

    def located(
        self, parts: tuple[str, ...], current: Database, guard: Guard | None = None
    ) -> tuple[Database, str, str]:
        """The database, schema and name that `[[database.][schema].]name` means; 916 if the guard's principal may not
        enter the database."""
        if len(parts) > 3:
            raise SqlServerError(7202, parts[0])
        database = current
        if len(parts) == 3 and parts[-3]:
            database = self.database(parts[-3])
            if guard is not None:
                guard.enter(database)
        schema = parts[-2] if len(parts) > 1 and parts[-2] else "dbo"
        return database, schema, parts[-1]

    def schemas_of_objects(self, database: Database) -> dict[int, int]:
        """The id of the schema of each object of a database that is not the system's, by its object_id."""
        families: tuple[dict[Any, Any], ...] = (self.tables, self.procedures, self.triggers, self.views, self.functions)
        modules = (item for family in families for item in family.values() if item.database_id == database.database_id)
        items = chain(database.catalog.queues.values(), modules)
        return {item.object_id: database.catalog.schema_id(item.schema) for item in items}

    def named(self, parts: tuple[str, ...], current: Database) -> tuple[Database, str, str]:
        """The database, schema and name of a new object, whose schema must exist: 2760; and its name be free: 2714."""
        database, schema, name = self.located(parts, current)
        if schema.lower() not in database.catalog.schemas:
            raise SqlServerError(2760, schema)
        if self.is_taken(parts, current):
            raise SqlServerError(2714, name)
        return database, database.catalog.schemas[schema.lower()].name, name

    def table(self, parts: tuple[str, ...], current: Database) -> Table | None:
        database, schema, name = self.located(parts, current)
        return self.tables.get((database.database_id, f"{schema}.{name}".lower()))

    def trigger(self, parts: tuple[str, ...], current: Database) -> Trigger | None:
        database, schema, name = self.located(parts, current)
        return self.triggers.get((database.database_id, f"{schema}.{name}".lower()))

    def view(self, parts: tuple[str, ...], current: Database) -> UserView | None:
        database, schema, name = self.located(parts, current)
        return self.views.get((database.database_id, f"{schema}.{name}".lower()))

    def function(self, parts: tuple[str, ...], current: Database) -> UserFunction | None:
        database, schema, name = self.located(parts, current)
        return self.functions.get((database.database_id, f"{schema}.{name}".lower()))

    def user_type(self, database_id: int, parts: tuple[str, ...]) -> UserType | None:
        """The type of that name in a database."""
        return self.types.get((database_id, catalog_key(parts))) if len(parts) < 3 else None

    def procedure(self, parts: tuple[str, ...], current: Database, guard: Guard | None = None) -> Procedure | None:
        if len(parts) < 3:
            return self.procedures.get((current.database_id, catalog_key(parts)))
        database, schema, name = self.located(parts, current, guard)
        return self.procedures.get((database.database_id, catalog_key((schema, name))))

    def called(self, parts: tuple[str, ...], current: Database, guard: Guard | None) -> Procedure | None:
        """The procedure that a call means: one of the database, or a system procedure that is T-SQL itself."""
        procedure = self.procedure(parts, current, guard)
        text = None if procedure is not None else system_procedures.TEXTS.get(parts[-1].lower())
        if text is None:
            return procedure
        database, _, name = self.located(parts, current)
        procedure_ = Procedure(database.database_id, 0, "sys", name.lower(), text, 0)
        return self.system_procedures.setdefault((database.database_id, procedure_.name), procedure_)

    def is_taken(self, parts: tuple[str, ...], current: Database) -> bool:
        """Whether a table, module or queue has that name."""
        database, schema, name = self.located(parts, current)
        key = f"{schema}.{name}".lower()
        of_instance = (self.tables, self.procedures, self.triggers, self.views, self.functions)
        return key in database.catalog.queues or any((database.database_id, key) in family for family in of_instance)

    def owner(self, item: Module | Table) -> Database:
        """The database of a procedure, trigger or table."""
        for database in self.engine.databases.values():
            if database.database_id == item.database_id:
                return database
        raise AssertionError(f"{item.name} is in no database")

    def keep_batch(self, key: tuple[Any, ...], compiled: Any) -> None:
        """Keep a compiled batch for the next time, unless it is long."""
        batches, length = self.batches, len(key[1])
        if length > BATCH_CACHED_LENGTH:
            return
        while len(batches) >= BATCHES_CACHED or self._batches_length + length > BATCHES_CACHED_LENGTH:
            oldest = next(iter(batches))
            del batches[oldest]
            self._batches_length -= len(oldest[1])
        if key not in batches:
            self._batches_length += length
        batches[key] = compiled

    def forget_compiled(self) -> None:
        """Forget all that was compiled and would be compiled again when it is needed."""
        self.batches.clear()
        self._batches_length = 0
        self.sqlite.forget_statements()

    # -- sessions ----------------------------------------------------------------------------------------------------

    def others_in(self, database: Database, session: ConnectedSession | None) -> list[ConnectedSession]:
        """The sessions in a database but for one."""
        return [other for other in self.sessions.values() if other.database is database and other is not session]

    def is_closed_to(self, database: Database, session: ConnectedSession | None) -> bool:
        """Whether another client is in a database that is SINGLE_USER."""
        if database.catalog.shown_options["USER_ACCESS"] != "SINGLE_USER":
            return False
        return any(other.is_user_process for other in self.others_in(database, session))

    def system_spid(self) -> int:
        """An unused id for a system session; error 17300 if all are in use."""
        for spid in SYSTEM_SPIDS:
            if spid not in self.sessions:
                return spid
        raise SqlServerError(17300)


@lru_cache(maxsize=4096)
def catalog_key(parts: tuple[str, ...]) -> str:
    """The key of `[schema.]name` in the dictionaries of objects."""
    schema = parts[-2] if len(parts) > 1 and parts[-2] else "dbo"
    return f"{schema}.{parts[-1]}".lower()
