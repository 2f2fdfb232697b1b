"""OUTPUT of INSERT, UPDATE and DELETE: what it may show, and the tables that it may fill."""

import pytest

from tests.embedded.tsql.sides import TABLE

SET_UP = f"""{TABLE}
CREATE TABLE dbo.source (id int IDENTITY PRIMARY KEY, a int, b nvarchar(10));
INSERT dbo.source (a, b) VALUES (1, N'x'), (2, N'y'), (3, N'zz');
CREATE TABLE dbo.kept (id bigint PRIMARY KEY, b varchar(5), n int IDENTITY(5, 1));
"""


def test_values_that_are_the_same_for_all_rows(side):
    text = "DECLARE @w date = '2026-01-02'; DELETE dbo.source OUTPUT deleted.a, @w AS at, N'gone', NULL AS nothing;"
    assert side.rows(text) == [(n, "2026-01-02", "gone", None) for n in (1, 2, 3)]


def test_a_table_and_a_temporary_table_are_filled(side):
    side.run("DELETE TOP (2) FROM dbo.source OUTPUT deleted.id, deleted.b INTO dbo.kept;")
    assert side.rows("SELECT id, b, n FROM dbo.kept;") == [(1, "x", 5), (2, "y", 6)]
    side.run("CREATE TABLE #changed (was int, b nvarchar(10));")
    side.run("UPDATE dbo.source SET a = 9 OUTPUT deleted.a INTO #changed (was);")
    assert side.rows("SELECT was, b FROM #changed;") == [(3, None)]


def test_a_table_variable_with_identity_is_filled(side):
    text = "DECLARE @t TABLE (n int IDENTITY(10, 1), a nvarchar(9)); UPDATE dbo.source SET a = 7 OUTPUT inserted.a INTO @t;"
    assert side.rows(f"{text} SELECT n, a FROM @t;") == [(10, "7"), (11, "7"), (12, "7")]


def test_what_a_table_variable_loses_is_put_into_a_table(side):
    text = "DECLARE @t TABLE (id int, b nvarchar(9)); INSERT @t VALUES (7, N'q'); DELETE @t OUTPUT deleted.* INTO dbo.kept (id, b);"
    side.run(text)
    assert side.rows("SELECT id, b FROM dbo.kept;") == [(7, "q")]
    side.run(f"BEGIN TRAN; {text.replace('7', '8')} ROLLBACK;")
    assert side.rows("SELECT id, b FROM dbo.kept;") == [(7, "q")]


def test_newid_is_another_one_in_each_row(side):
    identifiers = side.rows("UPDATE dbo.source SET a = 1 OUTPUT NEWID();")
    assert len(set(identifiers)) == 3


@pytest.mark.parametrize(
    ("output", "number"),
    [
        ("deleted.id, deleted.b INTO dbo.kept", 2627),
        ("deleted.id, N'too long' INTO dbo.kept", 8152),
        ("deleted.id INTO dbo.kept", 213),
        ("deleted.id, deleted.b, 1 INTO dbo.kept (id, b)", 121),
        ("deleted.a INTO dbo.checked", 333),
        ("deleted.id INTO dbo.child", 332),
        ("deleted.id INTO dbo.fires", 331),
        ("deleted.id INTO dbo.defaulted (id)", 50001),
        ("deleted.id INTO dbo.missing", 208),
        ("deleted.a + 1", 50001),
    ],
)
def test_what_cannot_be_put_undoes_the_change(side, output, number):
    side.run("""
        INSERT dbo.kept (id) VALUES (3);
        CREATE TABLE dbo.checked (a int CHECK (a > 0));
        CREATE TABLE dbo.child (id bigint REFERENCES dbo.kept (id));
        CREATE TABLE dbo.fires (id int);
        CREATE TABLE dbo.defaulted (id int, at datetime DEFAULT GETDATE());
    """)
    side.run("CREATE TRIGGER dbo.on_fires ON dbo.fires AFTER INSERT AS SET NOCOUNT ON")
    assert side.error(f"DELETE dbo.source OUTPUT {output};").number == number
    assert side.value("SELECT COUNT(*) FROM dbo.source;") == 3
    assert side.value("SELECT COUNT(*) FROM dbo.kept;") == 1
