"""Tables, databases and DROP, compiled."""

from __future__ import annotations

from harness.embedded.broker.database import Database
from harness.embedded.broker.transactions import Transaction
from harness.embedded.errors import SqlServerError, UnsupportedSyntax
from harness.embedded.tsql.execution.transactions import writing
from harness.embedded.tsql.permissions.grants import Securable
from harness.embedded.tsql.session.frame import Frame
from harness.embedded.tsql.session.steps import Scope, Step
from harness.embedded.tsql.storage.tables import Table
from harness.embedded.tsql.syntax import schema as nodes
from harness.embedded.tsql.translation.binding import Binding


def create_table(node: nodes.CreateTable, scope: Scope) -> Step:
    def work(frame: Frame, tx: Transaction) -> None:
        instance = frame.instance
        database, schema, name = instance.located(node.name, frame.database)
        if instance.table(node.name, frame.database) or instance.procedure(node.name, frame.database):
            raise SqlServerError(2714, name)
        if f"{schema}.{name}".lower() in database.queues:
            raise SqlServerError(2714, name)
        now_ns = instance.engine.clock.utc_ns()
        object_id = database.new_object_id(tx)
        table = Table.from_body(database.database_id, object_id, schema, name, database.name, node.body, now_ns)
        instance.add_table(tx, table)

    return writing(work)


def alter_table(node: nodes.AlterTable, scope: Scope) -> Step:
    """Done as a new table under the old name, with the old rows."""
    if node.drop:
        raise UnsupportedSyntax("ALTER TABLE DROP COLUMN", node.line)

    def work(frame: Frame, tx: Transaction) -> None:
        instance = frame.instance
        table = Binding(scope, frame).user_table(node.name)
        rows = frame.sqlite.rows(f"SELECT {table.all_columns} FROM {table.sql}")
        for column in node.add:
            if rows and not column.nullable:
                raise SqlServerError(4901, column.name, table.name)
            if column.identity or (column.default is not None and not column.nullable):
                raise UnsupportedSyntax("ALTER TABLE ADD of such a column", node.line)
        instance.drop_table(tx, table)
        altered = Table(
            table.database_id,
            table.object_id,
            table.schema,
            table.name,
            table.database_name,
            [*table.definitions, *node.add],
            table.primary_key,
            table.primary_key_name,
            table.unique,
            table.create_time_ns,
        )
        instance.add_table(tx, altered)
        wider = [(*row, *(None for _ in node.add)) for row in rows]
        altered.insert(frame.sqlite, tx, wider)

    return writing(work)


def create_index(node: nodes.CreateIndex, scope: Scope) -> Step:
    def work(frame: Frame, tx: Transaction) -> None:
        table = Binding(scope, frame).user_table(node.table)
        for name in node.columns:
            table.place(name)

    return writing(work)


def drop_object(node: nodes.DropObject, scope: Scope) -> Step:
    def work(frame: Frame, tx: Transaction) -> None:
        instance = frame.instance
        for name in node.names:
            found = (
                instance.table(name, frame.database)
                if node.kind == "TABLE"
                else instance.procedure(name, frame.database)
            )
            if found is None and not node.if_exists:
                raise SqlServerError(3701, node.kind.lower(), ".".join(name))
            if isinstance(found, Table):
                instance.drop_table(tx, found)
            elif found is not None:
                instance.drop_procedure(tx, found)

    return writing(work)


# -- databases ---------------------------------------------------------------------------------------------------------


def _outside_transactions(frame: Frame, statement: str) -> None:
    if frame.session.tx is not None:
        raise SqlServerError(226, statement)


def create_database(node: nodes.CreateDatabase, scope: Scope) -> Step:
    def work(frame: Frame, tx: Transaction) -> None:
        _outside_transactions(frame, "CREATE DATABASE")
        if node.name.lower() in frame.instance.engine.databases:
            raise SqlServerError(1801, node.name)
        created = frame.instance.engine.create_database(tx, node.name)
        if frame.session.guard is not None:
            owner = frame.session.guard.login.lower()
            frame.instance.grants.set_owner(tx, Securable(created.database_id, "DATABASE", 0), owner)
        frame.instance.version += 1

    return writing(work)


def alter_database(node: nodes.AlterDatabase, scope: Scope) -> Step:
    def work(frame: Frame, tx: Transaction) -> None:
        instance = frame.instance
        database = instance.database(node.name) if node.name else frame.database
        if node.rollback_immediate:
            _roll_back_others(frame, database)
        if node.option in nodes.BROKER_OPTIONS:
            database.set_broker(tx, node.option)
            instance.version += 1
        elif node.option == "HONOR_BROKER_PRIORITY":
            database.set_honor_broker_priority(tx, node.value == "ON")

    return writing(work)


def _roll_back_others(frame: Frame, database: Database) -> None:
    """WITH ROLLBACK IMMEDIATE: SQL Server disconnects the other sessions of the database; here those that are idle in
    a transaction lose it, and those in the middle of a statement finish it."""
    for session in frame.instance.sessions.values():
        if session.database is database and session is not frame.session and not session.is_running:
            session.rollback()


def drop_database(node: nodes.DropDatabase, scope: Scope) -> Step:
    def work(frame: Frame, tx: Transaction) -> None:
        _outside_transactions(frame, "DROP DATABASE")
        instance = frame.instance
        for name in node.names:
            database = instance.engine.databases.get(name.lower())
            if database is None:
                if node.if_exists:
                    continue
                raise SqlServerError(3701, "database", name)
            # Activated tasks of the database end with their queues.
            if any(s.database is database and s.is_user_process for s in instance.sessions.values()):
                raise SqlServerError(3702, name)
            instance.drop_objects(tx, database)
            instance.files.forget(tx, database)
            instance.grants.forget_database(tx, database.database_id)
            instance.engine.drop_database(tx, name)
            instance.version += 1

    return writing(work)
