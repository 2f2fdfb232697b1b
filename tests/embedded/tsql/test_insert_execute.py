"""INSERT ... EXECUTE: the rows of a procedure or a string go into a table."""

import pytest

SET_UP = """
CREATE TABLE dbo.r (id int IDENTITY, b nvarchar(10) DEFAULT N'd', c int NOT NULL)
CREATE TABLE dbo.pairs (b nvarchar(10), n int)
GO
CREATE PROCEDURE dbo.p @n int = 5 AS
    SET NOCOUNT ON; PRINT 'in p'; SELECT N'x', @n UNION ALL SELECT N'y', @n + 1; SELECT N'z', 9; RETURN 3
GO
CREATE PROCEDURE dbo.nested AS
    DECLARE @t table (b nvarchar(10), n int); INSERT @t EXEC dbo.p; SELECT * FROM @t
GO
CREATE PROCEDURE dbo.back AS BEGIN TRANSACTION; ROLLBACK
"""
ROWS = [("x", 5), ("y", 6), ("z", 9)]


@pytest.mark.parametrize(
    "statement",
    [
        "INSERT INTO dbo.pairs EXEC dbo.p",
        "INSERT dbo.pairs (b, n) EXECUTE dbo.p @n = 5",
        "INSERT dbo.pairs EXEC ('EXEC dbo.p')",
        "INSERT dbo.pairs EXEC sp_executesql N'EXEC dbo.p @a', N'@a int', @a = 5",
        "DECLARE @t table (b nvarchar(10), n int); INSERT @t EXEC dbo.p; INSERT dbo.pairs SELECT * FROM @t",
        "CREATE TABLE #t (b nvarchar(10), n int); INSERT #t EXEC dbo.p; INSERT dbo.pairs SELECT * FROM #t",
        "EXEC ('INSERT dbo.pairs EXEC dbo.nested'); DELETE dbo.pairs; INSERT dbo.pairs EXEC dbo.p",
    ],
)
def test_the_rows_of_all_results_are_inserted(side, statement):
    side.results(statement)
    assert side.rows("SELECT b, n FROM dbo.pairs") == ROWS


def test_it_counts_its_rows_and_shows_only_what_is_printed(side):
    results = side.run("DECLARE @s int; INSERT dbo.r (b, c) EXEC @s = dbo.p; SELECT @@ROWCOUNT, @s, SCOPE_IDENTITY()")
    assert results.prints == ["in p"] and [rows for _, rows in results.sets] == [[(3, 3, 3)]]
    assert side.rows("INSERT dbo.r (c) EXEC ('SELECT 1 WHERE 1 = 0'); SELECT @@ROWCOUNT") == [(0,)]
    side.run("INSERT dbo.r (c) EXEC ('SELECT 7')")
    assert side.rows("SELECT id, b FROM dbo.r WHERE c = 7") == [(4, "d")]


def test_received_messages_are_inserted(side):
    side.run("CREATE QUEUE dbo.q; CREATE SERVICE s ON QUEUE dbo.q ([DEFAULT])")
    dialog = "BEGIN DIALOG @h FROM SERVICE s TO SERVICE 's' WITH ENCRYPTION = OFF"
    side.run(f"DECLARE @h uniqueidentifier; {dialog}; SEND ON CONVERSATION @h (N'a')")
    table = "DECLARE @m table (h uniqueidentifier, t sysname, b varbinary(max), n decimal(9, 2), d datetime2)"
    receive = (
        "RECEIVE conversation_handle, message_type_name, message_body, 1.25 AS n, SYSUTCDATETIME() AS d FROM dbo.q"
    )
    shown = "SELECT t, CAST(b AS nvarchar(9)), n, COUNT(h) OVER (), COUNT(d) OVER () FROM @m"
    assert side.rows(f"{table}; INSERT @m EXEC (N'{receive}'); {shown}") == [("DEFAULT", "a", 1.25, 1, 1)]


@pytest.mark.parametrize(
    ("statement", "number"),
    [
        ("INSERT dbo.pairs EXEC dbo.nested", 8164),
        ("INSERT dbo.r EXEC ('SELECT 1')", 213),
        ("INSERT dbo.r (c) EXEC ('SELECT NULL')", 515),
        ("INSERT dbo.r (c) EXEC ('SELECT 1; SELECT ''x''')", 245),
        ("INSERT dbo.r (c) OUTPUT inserted.id EXEC ('SELECT 1')", 483),
        ("INSERT dbo.nowhere EXEC dbo.p", 208),
        ("INSERT dbo.pairs EXEC dbo.nosuch", 2812),
    ],
)
def test_what_cannot_be_inserted_is_an_error(side, statement, number):
    assert side.error(statement).number == number
    side.run("INSERT dbo.pairs EXEC dbo.p")
    assert side.rows("SELECT b, n FROM dbo.pairs") == ROWS


@pytest.mark.parametrize(("constant", "type_"), [("'x'", "varchar"), ("N'x'", "nvarchar")])
def test_a_failed_conversion_names_the_type_of_the_text(side, constant, type_):
    expected = f"Conversion failed when converting the {type_} value 'x' to data type int."
    assert side.error(f"INSERT dbo.r (c) EXEC (N'SELECT {constant.replace(chr(39), chr(39) * 2)}')").text == expected
    assert side.error(f"SELECT CAST({constant} AS int)").text == expected


@pytest.mark.parametrize(("executed", "caught"), [("('SELECT NULL')", (515, 2)), ("dbo.back", (3915, 1))])
def test_an_error_is_caught_with_its_line(side, executed, caught):
    text = f"BEGIN TRY\nINSERT dbo.r (c)\nEXEC {executed} END TRY BEGIN CATCH SELECT ERROR_NUMBER(), ERROR_LINE() END CATCH"
    assert side.rows(text) == [caught]
