"""Shares of the memory: what needs more of one that is used up fails with 701, what frees some goes on."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest

from harness.embedded.server import memory
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
    side.world.run_for(1)
    watch._look()
    side.run("INSERT dbo.t VALUES ('a')")


def test_a_full_share_of_table_variables_is_free_again_after_the_batch(side, watch):
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
