"""Batches: NOEXEC and the cache."""

from __future__ import annotations


def test_noexec_compiles_and_does_not_run(side):
    side.run("SET NOEXEC ON; INSERT dbo.t (n) VALUES (1)")
    side.run("INSERT dbo.t (n) VALUES (2)")
    assert side.error("SELECT 1 FROM WHERE").number == 102
    side.run("INSERT dbo.t (n) VALUES (3); SET NOEXEC OFF; INSERT dbo.t (n) VALUES (4)")
    assert side.rows("SELECT n FROM dbo.t") == [(4,)]


def test_a_batch_is_compiled_once_and_follows_the_catalog(side):
    assert side.rows("SELECT * FROM dbo.t") == []
    compiled = len(side.instance.batches)
    side.run("DROP TABLE dbo.t; CREATE TABLE dbo.t (other int)")
    [(columns, _)] = side.run("SELECT * FROM dbo.t").sets
    assert [column.name for column in columns] == ["other"]
    assert len(side.instance.batches) == compiled + 1


def test_an_insert_has_at_most_1000_rows_of_values(side):
    values = ", ".join(["(1)"] * 1000)
    side.run(f"INSERT dbo.t (n) VALUES {values}")
    assert side.value("SELECT COUNT(*) FROM dbo.t") == 1000
    error = side.error(f"SELECT 1;\nINSERT dbo.t (n) VALUES {values}, (2)")
    assert (error.number, error.severity, error.line) == (10738, 15, 2)
