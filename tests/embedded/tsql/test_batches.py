"""Batches: NOEXEC and the cache."""


def test_noexec_compiles_and_does_not_run(side):
    side.run("SET NOEXEC ON; INSERT dbo.t (n) VALUES (1)")
    side.run("INSERT dbo.t (n) VALUES (2)")
    assert side.error("SELECT 1 FROM WHERE").number == 102
    side.run("INSERT dbo.t (n) VALUES (3); SET NOEXEC OFF; INSERT dbo.t (n) VALUES (4)")
    assert side.rows("SELECT n FROM dbo.t") == [(4,)]


def test_noexec_ends_and_begins_inside_a_batch(side):
    def selected(text: str) -> list:
        return [rows for _, rows in side.run(text).sets]

    assert selected("SET NOEXEC ON; SELECT 1; SET NOEXEC OFF; SELECT 2; SELECT 3") == [[(2,)], [(3,)]]
    assert selected("SELECT 1; IF 1 = 1 BEGIN SET NOCOUNT, NOEXEC ON; SELECT 2 END; SELECT 3") == [[(1,)]]
    assert selected("SELECT 4; SET NOEXEC OFF; SELECT 5; SET NOEXEC ON; SELECT 6; SET NOEXEC OFF") == [[(5,)]]
    assert selected("SET NOEXEC ON; SELECT 1; SET NOEXEC OFF; RETURN; SET NOEXEC OFF; SELECT 2") == []
    assert side.error("SET NOEXEC ON; SELECT nosuch FROM; SET NOEXEC OFF").number == 102
    assert side.error("IF 1 = 1 SET NOEXEC OFF").number == 50001


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


def test_fmtonly_shows_columns_and_does_nothing_else(side):
    side.run("CREATE QUEUE dbo.q")
    side.run("CREATE PROCEDURE dbo.p AS INSERT dbo.t (n) VALUES (1); SELECT id, n FROM dbo.t; SELECT 1 AS one")
    text = """
    SET FMTONLY ON
    INSERT dbo.t (n) VALUES (1)
    CREATE TABLE dbo.made (a int)
    DECLARE @n int = 1
    SELECT @n = 2
    IF @n = 3 SELECT 1 AS first ELSE SELECT 2 AS second
    WHILE 1 = 1 SELECT 3 AS third
    BEGIN TRY RECEIVE status FROM dbo.q; THROW 50000, 'x', 1 END TRY BEGIN CATCH SELECT 4 AS fourth END CATCH
    EXEC dbo.p
    EXEC sp_executesql N'SELECT 5 AS fifth'
    EXEC sp_addextendedproperty 'p', 'v'
    SET FMTONLY OFF
    SELECT COUNT(*) AS rows FROM dbo.t
    """
    sets = side.run(text).sets
    names = ["first", "second", "third", "status", "id", "one", "fifth", "rows"]
    assert [columns[0].name for columns, _ in sets] == names
    assert [rows for _, rows in sets] == [[]] * 7 + [[(0,)]]
    assert side.value("SELECT OBJECT_ID('dbo.made')") is None
    assert side.value("SELECT COUNT(*) FROM sys.extended_properties") == 0


def test_parseonly_finds_errors_of_syntax_and_runs_nothing(side):
    def selected(text: str) -> list:
        return [rows for _, rows in side.run(text).sets]

    assert selected("SELECT 1; SET PARSEONLY ON; INSERT dbo.t (n) VALUES (1); SELECT nosuch(1)") == [[(1,)]]
    assert selected("SELECT 2; INSERT dbo.t (n) VALUES (1)") == []
    assert side.error("SELECT 1 FROM WHERE").number == 102
    assert selected("SELECT 3; SET PARSEONLY OFF; SELECT COUNT(*) FROM dbo.t") == [[(0,)]]
    assert selected("SELECT 4") == [[(4,)]]
    assert side.error("CREATE PROCEDURE dbo.p AS SET PARSEONLY ON").number == 50001
