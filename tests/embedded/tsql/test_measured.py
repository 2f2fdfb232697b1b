"""What others have measured on SQL Server 2022 and 2025: statuses of procedures, savepoints, triggers, WAITFOR, errors.

Source: https://github.com/mirek/msduck, reference/ (gaps-procedures, gaps-transactions, gaps-triggers, savepoint,
error-continuation, gaps-rpc-procedures, gaps-constraints, for-xml-path).
"""

import pytest

from harness.embedded.sqltypes import INT, Parameter, SqlType
from tests.embedded.tsql.sides import Message

OBJECTS = """
CREATE TABLE dbo.s (id int IDENTITY(1,1) CONSTRAINT pk_s PRIMARY KEY, v int NOT NULL CONSTRAINT ck_s CHECK (v > 0))
GO
CREATE TABLE dbo.log (msg varchar(50))
GO
CREATE TABLE dbo.u (id int PRIMARY KEY)
GO
CREATE TRIGGER dbo.u_divides ON dbo.u AFTER UPDATE AS DECLARE @x int = (SELECT 1 / MIN(id - id) FROM inserted)
GO
CREATE PROCEDURE dbo.p_in @a int AS SELECT @a AS a
GO
CREATE PROCEDURE dbo.p_raises AS BEGIN RAISERROR('boom', 16, 1); SELECT 'after' END
GO
CREATE PROCEDURE dbo.p_raises_twice AS BEGIN RAISERROR('a', 16, 1); RAISERROR('b', 11, 1) END
GO
CREATE PROCEDURE dbo.p_returns_0 AS BEGIN RAISERROR('a', 16, 1); RETURN 0 END
GO
CREATE PROCEDURE dbo.p_divides AS BEGIN SELECT 1/0 AS x; SELECT 2 AS y END
GO
CREATE PROCEDURE dbo.p_catches AS BEGIN TRY RAISERROR('in', 16, 1) END TRY BEGIN CATCH SELECT ERROR_PROCEDURE() END CATCH
GO
CREATE PROCEDURE dbo.p_calls AS BEGIN EXEC p_raises; SELECT 'outer' END
GO
CREATE PROCEDURE dbo.p_misses AS BEGIN SELECT 'first'; SELECT * FROM no_such_table END
GO
CREATE PROCEDURE dbo.p_duplicate AS BEGIN INSERT dbo.u VALUES (1); INSERT dbo.u VALUES (1) END
GO
CREATE PROCEDURE dbo.p_goes_on AS BEGIN INSERT dbo.u VALUES (1); INSERT dbo.u VALUES (1); SELECT 'after' END
GO
CREATE PROCEDURE dbo.p_returns AS RETURN
GO
CREATE PROCEDURE dbo.p_returns_null AS RETURN NULL
GO
CREATE PROCEDURE dbo.p_saves AS BEGIN SAVE TRAN z; INSERT dbo.s (v) VALUES (0); RETURN 11 END
"""


@pytest.fixture
def measured(side):
    for text in OBJECTS.split("GO\n"):
        side.run(text)
    return side


LONG = "a" * 33


@pytest.mark.parametrize(
    ("batch", "errors", "rows"),
    [
        # the status of a procedure
        ("DECLARE @r int; EXEC @r = p_raises; SELECT @r, @@ERROR", [50000], [[("after",)], [(-6, 0)]]),
        ("DECLARE @r int; EXEC @r = p_raises_twice; SELECT @r", [50000, 50000], [[(-6,)]]),
        ("DECLARE @r int; EXEC @r = p_returns_0; SELECT @r", [50000], [[(0,)]]),
        ("DECLARE @r int; EXEC @r = p_divides; SELECT @r", [8134], [[], [(2,)], [(-6,)]]),
        ("DECLARE @r int; EXEC @r = p_duplicate; SELECT @r, @@ERROR", [2627], [[(-4, 2627)]]),  # @@ERROR: inferred
        ("DECLARE @r int; EXEC @r = p_goes_on; SELECT @r, @@ERROR", [2627], [[("after",)], [(-4, 0)]]),
        ("DECLARE @r int; EXEC @r = p_catches; SELECT @r", [], [[("p_catches",)], [(-6,)]]),
        ("DECLARE @r int; EXEC @r = p_calls; SELECT @r", [50000], [[("after",)], [("outer",)], [(0,)]]),
        ("DECLARE @r int = 99; EXEC @r = p_misses; SELECT @r, @@ERROR", [208], [[("first",)], [(99, 208)]]),
        ("DECLARE @r int = 9; EXEC @r = p_returns_null; SELECT @r", [], [[(0,)]]),
        ("SELECT 1 UNION ALL SELECT 2; EXEC p_returns; SELECT @@ROWCOUNT", [], [[(1,), (2,)], [(0,)]]),
        ("EXEC ('RAISERROR(''r'', 16, 1)'); SELECT @@ERROR", [50000], [[(50000,)]]),
        # of sp_executesql it is the number of the error
        ("DECLARE @r int; EXEC @r = sp_executesql N'RAISERROR(''x'', 16, 1)'; SELECT @r", [50000], [[(50000,)]]),
        ("DECLARE @r int; EXEC @r = sp_executesql N'SELECT * FROM none'; SELECT @r, @@ERROR", [208], [[(208, 208)]]),
        ("DECLARE @r int; EXEC @r = sp_executesql N'RETURN 7', N'@a int', 4; SELECT @r", [178], [[(178,)]]),
        ("EXEC sp_executesql N'SELECT 1', N'@p int', @q = 1", [8178], []),
        ("EXEC sp_executesql N'SELECT @p', N'@p int', @p = 1, @q = 2; SELECT 3", [8144], []),
        ("SELECT 1; EXEC p_in 1, 2; SELECT 2", [8144], []),
        # columns come before the error of a row
        ("SELECT 1/0 AS bad; SELECT @@ERROR, @@ROWCOUNT, 42", [8134], [[], [(8134, 0, 42)]]),
        ("SELECT CAST('bad' AS int) AS bad; SELECT 1", [245], [[]]),
        ("BEGIN TRY SELECT 1/0 AS x END TRY BEGIN CATCH SELECT ERROR_NUMBER() END CATCH", [], [[], [(8134,)]]),
        # savepoints
        ("BEGIN TRAN; SAVE TRAN a; ROLLBACK TRAN A; ROLLBACK TRAN a; SELECT @@TRANCOUNT; ROLLBACK", [6401], [[(1,)]]),
        ("BEGIN TRAN; SAVE TRAN a; SAVE TRAN b; ROLLBACK TRAN a; ROLLBACK TRAN b; ROLLBACK", [6401], []),
        ("BEGIN TRAN; SAVE TRAN d; SAVE TRAN d; ROLLBACK TRAN d; ROLLBACK TRAN d; ROLLBACK TRAN d; ROLLBACK", [6401], []),
        ("BEGIN TRAN; BEGIN TRAN; SAVE TRAN s; COMMIT; ROLLBACK TRAN s; SELECT @@TRANCOUNT; ROLLBACK", [], [[(1,)]]),
        ("BEGIN TRAN x; SAVE TRAN x; ROLLBACK TRAN x; SELECT @@TRANCOUNT; ROLLBACK TRAN x; SELECT @@TRANCOUNT", [],
         [[(1,)], [(0,)]]),
        ("BEGIN TRAN Tx; ROLLBACK TRAN tx; SELECT @@TRANCOUNT; ROLLBACK", [6401], [[(1,)]]),
        ("BEGIN TRAN; DECLARE @n varchar(64) = REPLICATE('a', 40); SAVE TRAN @n; "
         f"ROLLBACK TRAN {LONG[:32]}; SELECT @@TRANCOUNT; ROLLBACK", [], [[(1,)]]),
        ("BEGIN TRAN; DECLARE @n char(5) = 'pad'; SAVE TRAN @n; ROLLBACK TRAN pad; SELECT @@TRANCOUNT; ROLLBACK", [],
         [[(1,)]]),
        ("BEGIN TRAN; DECLARE @n char(5) = ''; SAVE TRAN @n; ROLLBACK TRAN @n; SELECT @@TRANCOUNT; ROLLBACK", [6401],
         [[(1,)]]),
        ("BEGIN TRAN; BEGIN TRAN; DECLARE @n char(5); SAVE TRAN @n; ROLLBACK TRAN @n; SELECT @@TRANCOUNT", [], [[(0,)]]),
        ("SELECT 1; SAVE TRAN x; SELECT 2", [628], [[(1,)]]),
        ("BEGIN TRY SAVE TRAN x END TRY BEGIN CATCH SELECT ERROR_NUMBER(), XACT_STATE() END CATCH SELECT 2", [],
         [[(628, 0)], [(2,)]]),
        ("DECLARE @n int = 1; BEGIN TRAN; SAVE TRAN @n", [3914], []),
        (f"SELECT 1; SAVE TRAN {LONG}", [103], []),
        ("BEGIN TRAN; DECLARE @r int; EXEC @r = p_saves; ROLLBACK TRAN z; SELECT @r, @@TRANCOUNT; ROLLBACK", [547],
         [[(11, 1)]]),
        # triggers and modules
        ("INSERT dbo.u VALUES (1); UPDATE dbo.u SET id = 2; SELECT 'not reached'", [8134], []),
        ("CREATE TRIGGER other.tr ON dbo.u AFTER INSERT AS SELECT 1", [2103], []),
        ("CREATE TRIGGER tr ON dbo.u AFTER INSERT, INSERT AS SELECT 1", [1034], []),
        ("ALTER TABLE dbo.u ENABLE TRIGGER none", [4920], []),
        ("CREATE PROCEDURE p_uses AS USE master", [154], []),
        ("CREATE PROCEDURE p_outer AS CREATE PROCEDURE p_inner AS SELECT 1", [156], []),
        ("DROP PROCEDURE dbo.u", [3705], []),
        # tables
        ("CREATE TABLE dbo.c (id int, CONSTRAINT dup CHECK (id > 0), CONSTRAINT Dup CHECK (id > 1))", [8168], []),
        ("CREATE TABLE dbo.c (id int, v int, INDEX ix (v, V))", [1909], []),
        ("CREATE INDEX ix ON dbo.s (v, id, V)", [1909], []),
        ("CREATE TABLE dbo.c (id int, v int DEFAULT id)", [128], []),
        ("ALTER TABLE dbo.s ADD DEFAULT (id + 1) FOR v", [128], []),
        # identities, cursors, temporary tables
        ("INSERT dbo.s (v) VALUES (1); INSERT dbo.log VALUES ('x'); SELECT SCOPE_IDENTITY(), @@IDENTITY", [], [[(None, None)]]),
        ("INSERT dbo.s (v) VALUES (1); INSERT dbo.log SELECT 'x' WHERE 1 = 0; SELECT SCOPE_IDENTITY(), @@IDENTITY", [],
         [[(None, None)]]),
        ("INSERT dbo.s (v) VALUES (1); INSERT dbo.s (v) SELECT 1 WHERE 1 = 0; DELETE dbo.log; SELECT SCOPE_IDENTITY()", [],
         [[(1,)]]),
        ("SELECT @@FETCH_STATUS", [], [[(0,)]]),
        ("FETCH none; SELECT @@FETCH_STATUS", [16916], [[(-1,)]]),
        ("DECLARE c CURSOR LOCAL FOR SELECT 1; OPEN c; DECLARE @a int, @b int; FETCH c INTO @a, @b; SELECT @@FETCH_STATUS, @a",
         [16924], [[(-1, None)]]),
        ("CREATE TABLE #t (n int); SELECT OBJECT_ID('#t'), COL_LENGTH('tempdb..#t', 'n')", [], [[(None, 4)]]),
        # FOR XML
        ("SELECT 1 AS [value] FOR XML PATH('row'), ROOT('a'), ROOT('b')", [102], []),
        ("SELECT 1 AS [@id], 2 AS [value], 3 AS [@late] FOR XML PATH('row')", [6852], []),
        # WAITFOR
        ("SELECT 1; WAITFOR DELAY 'abc'", [148], []),
        ("WAITFOR DELAY '24:00'", [148], []),
        ("WAITFOR DELAY '00:60'", [148], []),
        ("WAITFOR DELAY '00:00:00.1234'", [148], []),
        ("WAITFOR DELAY '2024-01-01 00:00'", [148], []),
        ("WAITFOR DELAY 1", [102], []),
        ("WAITFOR DELAY ''; WAITFOR DELAY ' 0:0:1:5 '; WAITFOR DELAY '12:00 AM'", [], []),
        ("DECLARE @d varchar(9) = 'abc'; WAITFOR DELAY @d", [241], []),
        ("DECLARE @d varchar(max) = '00:00'; WAITFOR DELAY @d", [241], []),
        ("DECLARE @d bigint = 1; WAITFOR DELAY @d", [9815], []),
        ("DECLARE @d int = 0, @n float, @t datetime = '20240101'; WAITFOR DELAY @d; WAITFOR DELAY @n; WAITFOR DELAY @t", [],
         []),
    ],
)  # fmt: skip
def test_answers_are_those_that_others_have_measured(measured, batch, errors, rows) -> None:
    results = measured.results(batch)
    assert [error.number for error in results.errors] == errors, results.errors
    assert [set_ for _, set_ in results.sets] == rows


def test_3621_follows_the_error_of_a_statement_in_a_trigger_and_282_a_status_of_null(measured) -> None:
    results = measured.results("INSERT dbo.u VALUES (1); UPDATE dbo.u SET id = 2")
    assert [message.number for message in results.messages] == [8134, 3621]
    results = measured.results("SET XACT_ABORT ON; UPDATE dbo.u SET id = 2")
    assert [message.number for message in results.messages] == [8134]  # inferred from that of a statement in no trigger
    results = measured.results("EXEC p_returns_null")
    assert [(message.number, message.severity) for message in results.messages] == [(282, 0)]


def test_an_output_parameter_has_the_type_of_the_client(measured) -> None:
    measured.run("CREATE PROCEDURE dbo.p_out @a int, @c int OUTPUT AS SET @c = @a + 1")
    call = [Parameter("", INT, 5, False), Parameter("", SqlType("nvarchar", length=10), None, True)]
    assert measured.rpc("dbo.p_out", call).values == {"": "6"}
    call[1] = Parameter("", SqlType("tinyint"), None, True)
    call[0] = Parameter("", INT, 500, False)
    with pytest.raises(Message, match="Msg 8114"):
        measured.rpc("dbo.p_out", call)
