"""SQLAlchemy with three drivers: version, types, reflection, isolation levels, pool."""

import datetime
import uuid
from collections.abc import Iterator
from decimal import Decimal
from typing import Any

import pytest

from harness.lab import drivers
from tests.clients.server import DATABASE, HOST, PASSWORD, Server

pytestmark = pytest.mark.process

sqlalchemy = pytest.importorskip("sqlalchemy", reason="SQLAlchemy is not installed: make clients")

DRIVERS = ("pyodbc", "pymssql", "mssqlpython")


@pytest.fixture(params=DRIVERS)
def dialect(request: pytest.FixtureRequest) -> str:
    module = {"mssqlpython": "mssql_python"}.get(request.param, request.param)
    pytest.importorskip(module, reason=f"{module} is not installed: make clients")
    return request.param


def engine_of(dialect: str, server: Server, *, encrypted: bool = False, **more: Any) -> Any:
    query: dict[str, str] = {}
    if dialect == "pyodbc":
        query = {"driver": drivers.choose().name, "TrustServerCertificate": "yes"}
        query["Encrypt"] = "yes" if encrypted else "optional"
    elif dialect == "mssqlpython":
        query = {"Encrypt": "yes" if encrypted else "no", "TrustServerCertificate": "yes"}
    else:
        query = {"encryption": "require" if encrypted else "off"}
    url = sqlalchemy.URL.create(f"mssql+{dialect}", "sa", PASSWORD, HOST, server.port, DATABASE, query)
    return sqlalchemy.create_engine(url, **more)


@pytest.fixture
def engine(dialect: str, server: Server) -> Iterator[Any]:
    made = engine_of(dialect, server)
    yield made
    made.dispose()


@pytest.mark.parametrize("encrypted", [False, True], ids=["plain", "TLS"])
def test_it_logs_in_and_reads_the_version(dialect, server, encrypted):
    engine = engine_of(dialect, server, encrypted=encrypted)
    with engine.connect() as connection:
        assert connection.scalar(sqlalchemy.text("SELECT DB_NAME()")) == DATABASE
    assert engine.dialect.server_version_info[:2] == (16, 0)
    engine.dispose()


def test_it_reads_and_sets_the_isolation_level(engine):
    with engine.connect() as connection:
        assert connection.get_isolation_level() == "READ COMMITTED"
    for level in ("READ UNCOMMITTED", "REPEATABLE READ", "SERIALIZABLE"):
        with engine.connect().execution_options(isolation_level=level) as connection:
            assert connection.get_isolation_level() == level
    with engine.connect() as connection:
        assert connection.get_isolation_level() == "READ COMMITTED"


def test_it_reflects_a_table(engine):
    inspector = sqlalchemy.inspect(engine)
    assert {"big", "kinds", "people"} <= set(inspector.get_table_names())
    assert inspector.has_table("people") and not inspector.has_table("nobody")
    assert inspector.get_schema_names()
    assert inspector.get_view_names() == []
    assert inspector.get_pk_constraint("people")["constrained_columns"] == ["id"]
    assert inspector.get_pk_constraint("people")["name"] == "PK_people"
    assert inspector.get_foreign_keys("people") == []
    [index] = inspector.get_indexes("people")
    assert (index["column_names"], bool(index["unique"])) == (["name"], True)
    columns = {column["name"]: column for column in inspector.get_columns("people")}
    assert {
        name: (str(column["type"].compile(engine.dialect)), column["nullable"]) for name, column in columns.items()
    } == {
        "id": ("INTEGER", False),
        "name": ("NVARCHAR(40) COLLATE SQL_Latin1_General_CP1_CI_AS", False),
        "age": ("INTEGER", False),
        "born": ("DATE", True),
    }
    assert columns["age"]["default"] == "((18))"
    assert columns["id"]["identity"]["start"] == 1
    table = sqlalchemy.Table("people", sqlalchemy.MetaData(), autoload_with=engine)
    assert [column.name for column in table.primary_key] == ["id"]


def test_it_creates_fills_and_drops_a_table(engine):
    kinds = {
        "flag": (sqlalchemy.Boolean(), True),
        "small": (sqlalchemy.SmallInteger(), -1),
        "big": (sqlalchemy.BigInteger(), 2**62),
        "real": (sqlalchemy.Float(), 2.5),
        "exact": (sqlalchemy.Numeric(10, 3), Decimal("-1.250")),
        "words": (sqlalchemy.Unicode(20), "\N{GRINNING FACE} Жизнь"),
        "text": (sqlalchemy.UnicodeText(), "long " * 2000),
        "body": (sqlalchemy.LargeBinary(), bytes(range(256)) * 40),
        "day": (sqlalchemy.Date(), datetime.date(2026, 2, 28)),
        "clock": (sqlalchemy.Time(), datetime.time(1, 2, 3)),
        "moment": (sqlalchemy.DateTime(), datetime.datetime(2026, 11, 22, 1, 2, 3)),
        "handle": (sqlalchemy.Uuid(), uuid.UUID("01B241A8-4CDE-45ED-9CC6-EAA548A341F3")),
    }
    columns = [sqlalchemy.Column(name, type_, nullable=True) for name, (type_, _) in kinds.items()]
    table = sqlalchemy.Table(
        "made", sqlalchemy.MetaData(), sqlalchemy.Column("id", sqlalchemy.Integer, primary_key=True), *columns
    )
    values = {name: value for name, (_, value) in kinds.items()}
    table.create(engine)
    try:
        with engine.begin() as connection:
            first = connection.execute(table.insert(), values).inserted_primary_key
            assert tuple(first) == (1,)
            connection.execute(table.insert(), dict.fromkeys(kinds))
            rows = connection.execute(table.select().order_by(table.c.id)).all()
        assert [tuple(row)[1:] for row in rows] == [tuple(values.values()), (None,) * len(kinds)]
        with pytest.raises(sqlalchemy.exc.IntegrityError), engine.begin() as connection:
            connection.execute(sqlalchemy.text("INSERT dbo.people (name) VALUES (N'twice'), (N'twice')"))
        with engine.connect() as connection:
            connection.execute(table.delete())
            connection.rollback()
            assert connection.scalar(sqlalchemy.select(sqlalchemy.func.count()).select_from(table)) == 2
    finally:
        table.drop(engine)


def test_its_pool_gives_a_connection_out_again(dialect, server):
    engine = engine_of(dialect, server, pool_size=1, max_overflow=0)
    seen = set()
    for _ in range(3):
        with engine.connect() as connection:
            seen.add(connection.scalar(sqlalchemy.text("SELECT @@SPID")))
            connection.execute(sqlalchemy.text("UPDATE dbo.people SET age = 1"))
    assert len(seen) == 1
    engine.dispose()


def test_alembic_adds_columns_and_keys(engine):
    migration = pytest.importorskip("alembic.migration", reason="alembic is not installed: make clients")
    operations = pytest.importorskip("alembic.operations")
    column, names = sqlalchemy.Column, sqlalchemy.table("added", sqlalchemy.column("name"))
    with engine.begin() as connection:
        change = operations.Operations(migration.MigrationContext.configure(connection))
        change.create_table("added", column("name", sqlalchemy.Unicode(20), nullable=False))
        change.bulk_insert(names, [{"name": "a"}, {"name": "b"}])
        change.add_column("added", column("id", sqlalchemy.Integer, sqlalchemy.Identity(start=5), nullable=False))
        change.add_column("added", column("level", sqlalchemy.Integer, server_default="4", nullable=False))
        change.add_column("added", column("born", sqlalchemy.Date))
        change.create_primary_key("PK_added", "added", ["id"])
        change.create_unique_constraint("UQ_added", "added", ["name", "level"])
    try:
        with engine.connect() as connection:
            rows = connection.execute(sqlalchemy.text("SELECT * FROM added ORDER BY id")).all()
        assert [tuple(row) for row in rows] == [("a", 5, 4, None), ("b", 6, 4, None)]
        assert sqlalchemy.inspect(engine).get_pk_constraint("added")["name"] == "PK_added"
    finally:
        sqlalchemy.Table("added", sqlalchemy.MetaData()).drop(engine)
