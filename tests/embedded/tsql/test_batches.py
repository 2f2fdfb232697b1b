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


def test_columns_are_looked_up_before_anything_runs(side):
    for statement in (
        "ALTER TABLE dbo.t ADD extra int; SELECT\n extra FROM dbo.t",
        "IF 1 = 0\nSELECT bad FROM dbo.t",
        "IF 1 = 0\nINSERT dbo.t (n, bad) VALUES (2, 2)",
        "WHILE 1 = 0\nUPDATE dbo.t SET bad = 1",
        "IF 1 = 0\nDELETE dbo.t WHERE bad = 1",
        "RETURN;\nDECLARE @n int = (SELECT bad FROM dbo.t)",
        "BEGIN TRY\nSELECT * FROM dbo.missing; SELECT bad FROM dbo.t END TRY BEGIN CATCH END CATCH",
        "RETURN\nDECLARE c CURSOR FOR SELECT bad FROM dbo.t",
        "RETURN DECLARE @n int;\nSELECT @n = bad FROM dbo.t",
        "RETURN\nSELECT bad INTO dbo.made FROM dbo.t",
        "EXEC ('ALTER TABLE dbo.t ADD bad int');\nSELECT bad FROM dbo.t",
    ):
        error = side.error(f"INSERT dbo.t (n) VALUES (1); {statement}")
        assert (error.number, error.line) == (207, 1 + (not statement.startswith("ALTER"))), statement
    assert side.value("SELECT COUNT(*) FROM dbo.t") == 0
    assert side.value("SELECT COL_LENGTH('dbo.t', 'bad')") is None
    caught = "BEGIN TRY EXEC ('SELECT 1; SELECT bad FROM dbo.t') END TRY BEGIN CATCH SELECT ERROR_NUMBER() END CATCH"
    assert side.rows(caught) == [(207,)]


def test_tables_are_looked_up_when_a_statement_runs(side):
    text = (
        "IF 1 = 0 SELECT bad FROM dbo.missing ORDER BY other; IF OBJECT_ID('dbo.u') IS NULL CREATE TABLE dbo.u (a int)"
    )
    side.run(f"{text}; ALTER TABLE dbo.u ADD b int; SELECT b FROM dbo.u")
    assert side.error(f"{text}; SELECT c FROM dbo.u").number == 207
    side.run("CREATE DATABASE other; USE other; CREATE TABLE dbo.t (apart int)")
    assert side.rows("USE db; SELECT n FROM dbo.t; USE other; SELECT apart FROM dbo.t") == []


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
