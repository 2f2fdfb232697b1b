"""Shares of the memory: what needs more of one that is used up fails with 701, what frees some goes on."""

import asyncio
import gc
import weakref
from collections.abc import Iterator

import pytest

from harness.embedded.errors import SqlServerError, let_go
from harness.embedded.server import memory
from harness.embedded.tsql.storage import sqlite
from tests.embedded.tsql.sides import Side, World

MIB = 2**20
FILL = (
    "SET NOCOUNT ON; DECLARE @i int = 0; WHILE @i < {} BEGIN INSERT {} VALUES (REPLICATE('a', 8000)); SET @i += 1 END"
)


@pytest.fixture
def side() -> Side:
    side = World().side("Here", "2022")
    side.run("CREATE DATABASE db; USE db; CREATE TABLE dbo.t (s varchar(8000)); CREATE QUEUE q; ")
    side.run("CREATE SERVICE s ON QUEUE q ([DEFAULT])")
    return side


@pytest.fixture
def watch(side: Side, monkeypatch: pytest.MonkeyPatch) -> Iterator[memory.MemoryWatch]:
    """A watch of whose memory tables may take 8 MiB, table variables 4 MiB and the rest any."""
    loop = asyncio.new_event_loop()
    watch = memory.MemoryWatch(loop, side.instance)
    total_bytes = 2**40
    watch._memory_bytes = total_bytes
    monkeypatch.setattr(memory, "TABLES_SHARE", 8 * MIB / total_bytes)
    monkeypatch.setattr(memory, "TABLE_VARIABLES_SHARE", 4 * MIB / total_bytes)
    yield watch
    watch.stop()
    loop.close()


def test_a_full_share_of_tables_is_free_again_after_truncate(side, watch):
    side.run(FILL.format(1500, "dbo.t"))
    watch._look()
    for text in ("INSERT dbo.t VALUES ('a')", "UPDATE dbo.t SET s = 'b'"):
        refused = side.error(text)
        assert (refused.number, refused.severity) == (701, 17)
    side.run("DECLARE @t TABLE (s varchar(8000)); INSERT @t VALUES ('a')")
    assert side.value("SELECT COUNT(*) FROM dbo.t") == 1500
    side.run("TRUNCATE TABLE dbo.t")
    side.run("INSERT dbo.t VALUES ('a')")  # before the next look


def test_a_full_share_of_table_variables_is_free_again_after_the_batch(side, watch, monkeypatch):
    monkeypatch.setattr(side.instance.sqlite, "look_again", lambda: None)
    side.instance.sqlite.table_variables_are_full = True
    assert side.error("DECLARE @t TABLE (s varchar(8000)); INSERT @t VALUES ('a')").number == 701
    side.run("INSERT dbo.t VALUES ('a')")
    watch._look()
    side.run("DECLARE @t TABLE (s varchar(8000)); INSERT @t VALUES ('a')")


@pytest.mark.parametrize(
    "text",
    [
        "DECLARE @v varchar(max) = 'x'",
        "DECLARE @v varchar(max); SET @v = 'x'",
        "DECLARE @v varchar(max); SELECT @v = 'x'",
        "INSERT dbo.t VALUES ('a')",
        "BEGIN TRAN; SAVE TRAN s; ROLLBACK",
        "DECLARE @h uniqueidentifier; BEGIN DIALOG @h FROM SERVICE s TO SERVICE 's' WITH ENCRYPTION = OFF; "
        "SEND ON CONVERSATION @h ('x')",
    ],
)
def test_where_the_rest_is_used_up_what_needs_more_is_refused(side, watch, monkeypatch, text):
    monkeypatch.setattr(memory, "REST_SHARE", 0)
    watch._look()
    assert side.error(text).number == 701
    side.run("DECLARE @i int = 1; DELETE dbo.t; RECEIVE * FROM q")
    monkeypatch.setattr(memory, "REST_SHARE", 1)
    watch._look()
    side.run(text)


def test_the_memory_of_deleted_rows_goes_back_where_few_are_left(side, watch, monkeypatch):
    tables = side.instance.sqlite
    monkeypatch.setattr(memory, "GROWTH_BYTES", MIB)
    side.run("CREATE TABLE dbo.kept (n int, s varchar(8000)); INSERT dbo.kept VALUES (1, REPLICATE('k', 8000))")
    side.run("CREATE TABLE dbo.dropped (s varchar(8000))")
    side.run(FILL.format(300, "dbo.t"))
    side.run(FILL.format(300, "dbo.dropped"))
    side.run("DECLARE @t TABLE (s varchar(8000)); " + FILL.format(300, "@t"))
    held = sum(tables.sizes_bytes(schema)[0] for schema in ("main", "temp"))
    assert held > 7 * MIB
    side.run("DELETE dbo.t; DROP TABLE dbo.dropped")
    watch._look()
    assert sum(tables.sizes_bytes(schema)[0] for schema in ("main", "temp")) < MIB
    side.run("INSERT dbo.t VALUES ('a'); BEGIN TRANSACTION; INSERT dbo.t VALUES ('b'); ROLLBACK")
    assert side.rows("SELECT k.n, LEN(k.s), t.s FROM dbo.kept k CROSS JOIN dbo.t t") == [(1, 8000, "a")]


def test_what_was_in_use_at_a_peak_is_freed_after_it(watch, monkeypatch):
    class Used:
        def __init__(self):
            self.itself = self  # only a collection frees it

    monkeypatch.setattr(memory, "FREE_AGAIN_S", 0)
    monkeypatch.setattr(memory, "resident_bytes", lambda: 2**40)
    used = Used()
    is_freed = weakref.ref(used)
    gc.disable()
    try:
        watch._look()
        del used
        watch._look()
    finally:
        gc.enable()
    assert is_freed() is None


def test_tables_of_table_variables_are_kept_for_some_kinds_alone(side, monkeypatch):
    monkeypatch.setattr(sqlite, "POOLS_MAX", 3)
    for n in range(10):
        assert side.value(f"DECLARE @t TABLE (c{n} int); INSERT @t VALUES ({n}); SELECT * FROM @t") == n
    kept = side.instance.sqlite.rows("SELECT COUNT(*) FROM sqlite_temp_schema WHERE name LIKE '@%'")
    assert kept == [(3,)]


@pytest.mark.parametrize(
    "text",
    [
        "{fails}",
        "BEGIN TRY {fails} END TRY BEGIN CATCH PRINT 'caught' END CATCH",
        "SET XACT_ABORT ON; {fails}",
        "EXEC ('{quoted}')",
    ],
)
def test_a_failed_statement_leaves_its_values_to_no_collection_of_garbage(monkeypatch, text):
    """Half of the largest value is made, and the statement that doubles it fails."""
    monkeypatch.setattr(sqlite, "VALUE_BYTES_MAX", 64 * MIB)
    side = World().side("Here", "2022")
    fails = "DECLARE @s varchar(max) = REPLICATE(CAST('x' AS varchar(max)), 40000000); SET @s = @s + @s;"
    before = memory.resident_bytes()
    gc.disable()
    try:
        results = side.results(text.format(fails=fails, quoted=fails.replace("'", "''")))
        assert memory.resident_bytes() < before + 30 * MIB
        assert results.errors or results.prints == ["caught"]
    finally:
        gc.enable()


def test_an_error_that_is_its_own_cause_is_let_go():
    """As that of an activated procedure is, which passes through two handlers."""
    one, other = SqlServerError(8134), SqlServerError(701, "default")
    one.__cause__, other.__context__ = other, one
    let_go(one)
    other.__cause__ = other
    let_go(other)
    assert (one.__cause__, other.__cause__, other.__context__) == (None, None, None)
