"""Variables and table variables."""

from __future__ import annotations

import sqlite3

import pytest

from harness.embedded.sqltypes import ResultSink
from harness.embedded.tsql.session.session import Frame


def test_select_assigns_the_last_row_and_without_rows_leaves_variables_alone(side):
    side.run("INSERT dbo.t (n) VALUES (1), (2), (3)")
    assert side.rows("DECLARE @a int = 9, @b int; SELECT @a = n, @b = id FROM dbo.t ORDER BY n; SELECT @a, @b") == [
        (3, 3)
    ]
    assert side.rows("DECLARE @a int = 9; SELECT @a = n FROM dbo.t WHERE n > 5; SELECT @a, @@ROWCOUNT") == [(9, 0)]
    assert side.error("DECLARE @a int = 0; SELECT @a = @a + n FROM dbo.t").number == 50001
    assert side.value("DECLARE @a int = 1; SELECT @a = @a + COUNT(*) FROM dbo.t; SELECT @a") == 4


def test_a_table_variable_belongs_to_its_run_and_outlives_a_rollback(side):
    side.run(
        "CREATE PROCEDURE dbo.p AS DECLARE @t table (a int, b nvarchar(5) DEFAULT N'x'); BEGIN TRAN; INSERT @t (a) VALUES (1); ROLLBACK; UPDATE @t SET a = a + 1; SELECT a, b FROM @t"
    )
    assert side.rows("EXEC dbo.p") == [(2, "x")]
    assert side.rows("EXEC dbo.p") == [(2, "x")]


def test_an_emptied_table_variable_frees_its_table_for_the_next(side):
    side.results("CREATE PROCEDURE dbo.p AS BEGIN DECLARE @t TABLE (i int); INSERT INTO @t VALUES (1); END;")
    assert side.rows(
        "DECLARE @t TABLE (i int); INSERT INTO @t VALUES (7), (8); DELETE FROM @t; DECLARE @deleted int = @@ROWCOUNT;"
        "EXEC dbo.p; DECLARE @left int = (SELECT COUNT(*) FROM @t); INSERT INTO @t VALUES (9);"
        "SELECT @deleted, @left, i FROM @t;"
    ) == [(2, 0, 9)]
    kept = side.instance.sqlite.rows("SELECT name FROM sqlite_temp_master WHERE name LIKE '@%'")
    assert len(kept) == 1


@pytest.mark.parametrize("before", [[], [(7,)]])
def test_rows_go_into_a_table_variable_all_or_none(side, before):
    frame = Frame(side.session, side.session.database, ResultSink(), "", 0)
    frame.declared = {"@t": "i INTEGER UNIQUE"}
    if before:
        frame.fill_table("@t", "?", before)
    with pytest.raises(sqlite3.IntegrityError):
        frame.fill_table("@t", "?", [(1,), (2,), (1,)])
    assert frame.sqlite.rows(f"SELECT i FROM temp.{frame.table('@t')}") == before
