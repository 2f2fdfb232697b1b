"""Table variables: their keys, and OUTPUT of their changes."""

import pytest

T = "DECLARE @t table ({}); DECLARE @h uniqueidentifier;"


@pytest.mark.parametrize(
    ("columns", "values", "number"),
    [
        ("a int PRIMARY KEY", "(1), (1)", 2627),
        ("a int, PRIMARY KEY (a)", "(1), (1)", 2627),
        ("a int PRIMARY KEY", "(NULL)", 515),
        ("a int, b int, PRIMARY KEY (a, b)", "(1, 1), (1, 1)", 2627),
        ("a int, b int, UNIQUE (b)", "(1, 1), (2, 1)", 2627),
        ("a int UNIQUE", "(1), (1)", 2627),
        ("a nvarchar(10) PRIMARY KEY", "(N'x'), (N'X')", 2627),
    ],
)
def test_a_key_of_a_table_variable_is_enforced(side, columns, values, number):
    error = side.error(f"{T.format(columns)} INSERT @t VALUES {values};")
    assert error.number == number
    if number == 2627:
        assert ("PRIMARY KEY" in error.text) == ("PRIMARY" in columns) and "dbo.@t" in error.text


@pytest.mark.in_process
def test_a_violation_undoes_the_statement_only(side):
    results = side.results(
        T.format("a int PRIMARY KEY, b int") + "INSERT @t VALUES (1, 10); INSERT @t VALUES (2, 20), (1, 30);"
        "UPDATE @t SET b = 11; INSERT @t VALUES (2, 20); UPDATE @t SET a = 1; SELECT a, b FROM @t ORDER BY a"
    )
    assert [error.number for error in results.errors] == [2627, 2627]
    assert results.sets[-1][1] == [(1, 11), (2, 20)]


def test_other_keys_are_allowed(side):
    text = (
        T.format("a int, b int, PRIMARY KEY (a, b), UNIQUE (b)")
        + "INSERT @t VALUES (1, 1), (1, 2); SELECT COUNT(*) FROM @t"
    )
    assert side.value(text) == 2
    assert side.error(T.format("a int, PRIMARY KEY (z)")).number == 1911


def test_receive_into_a_table_variable_obeys_its_constraints(side):
    side.run("CREATE QUEUE dbo.q; CREATE SERVICE s ON QUEUE dbo.q ([DEFAULT])")
    side.run(
        "DECLARE @h uniqueidentifier; BEGIN DIALOG @h FROM SERVICE s TO SERVICE 's' WITH ENCRYPTION = OFF;"
        "SEND ON CONVERSATION @h; SEND ON CONVERSATION @h (N'x')"
    )
    for column, number in (
        ("message_body varbinary(max) NOT NULL", 515),
        ("conversation_handle uniqueidentifier PRIMARY KEY", 2627),
    ):
        name = column.partition(" ")[0]
        assert side.error(f"{T.format(column)} RECEIVE {name} FROM dbo.q INTO @t;").number == number
    assert len(side.rows("RECEIVE message_body FROM dbo.q")) == 2


def test_changes_of_a_table_variable_have_output(side):
    results = side.run(
        T.format("a int, b int DEFAULT 5") + "INSERT @t (a) OUTPUT inserted.a, inserted.b VALUES (1), (2);"
        "UPDATE @t SET b = b + a OUTPUT deleted.b AS was, inserted.b WHERE a = 2; DELETE @t OUTPUT deleted.* WHERE a = 2;"
        "SELECT * FROM @t"
    )
    assert [rows for _, rows in results.sets] == [[(1, 5), (2, 5)], [(5, 7)], [(2, 7)], [(1, 5)]]
    assert results.counts[:3] == [2, 1, 1]


def test_no_constant_is_taken_for_the_name_of_a_table_variable(side):
    """A control character marked the name once."""
    assert side.rows(T.format("a int") + "INSERT @t VALUES (1); SELECT N'\x1e@t\x1e', a FROM @t") == [("\x1e@t\x1e", 1)]


@pytest.mark.parametrize(
    ("columns", "change", "key"),
    [
        ("a int PRIMARY KEY, b nvarchar(10)", "INSERT {} VALUES (1, 'x'), (2, 'y'), (1, 'z')", "(1)"),
        ("a int, b varchar(10), PRIMARY KEY (b, a)", "INSERT {} VALUES (1, 'X'), (2, 'x'), (1, 'x')", "(x, 1)"),
        ("a int PRIMARY KEY, b int", "INSERT {} VALUES (1, 1), (2, 2), (3, 3); UPDATE {} SET a = 7 WHERE b > 1", "(7)"),
        ("a datetime, b varbinary(9), UNIQUE (a, b)", "INSERT {} VALUES (0, 0x1F), (0, 0x1F)", "(Jan  1 1900 12:00AM, 0x1f)"),
        ("a uniqueidentifier UNIQUE", "INSERT {} SELECT '0F8FAD5B-D9CB-469F-A165-70867728950E' FROM (VALUES (1), (2)) v (n)",
         "(0f8fad5b-d9cb-469f-a165-70867728950e)"),
    ],
)  # fmt: skip
def test_a_violation_of_a_key_shows_its_value(side, columns, change, key):
    side.run(f"CREATE TABLE dbo.keyed ({columns})")
    for text in (change.replace("{}", "dbo.keyed"), f"DECLARE @t TABLE ({columns}); " + change.replace("{}", "@t")):
        assert side.error(text).text.endswith(f" The duplicate key value is {key}.")
    assert side.value("SELECT COUNT(*) FROM dbo.keyed") in (0, 3)


def test_what_is_stored_in_a_table_variable_beside_a_statement_shows_its_key_too(side):
    side.run("CREATE TABLE dbo.plain (a int)")
    shown = " The duplicate key value is (2)."
    output = "DECLARE @k TABLE (b int, a int PRIMARY KEY); INSERT dbo.plain OUTPUT inserted.a INTO @k (a) VALUES (1), (2), (2)"
    assert side.error(output).text.endswith(shown)
    side.run(
        "CREATE QUEUE dbo.q; CREATE SERVICE s ON QUEUE dbo.q ([DEFAULT]); DECLARE @h uniqueidentifier; "
        "BEGIN DIALOG @h FROM SERVICE s TO SERVICE 's' WITH ENCRYPTION = OFF; "
        "SEND ON CONVERSATION @h (N'x'); SEND ON CONVERSATION @h (N'x')"
    )
    received = side.error("DECLARE @m TABLE (b varbinary(9) PRIMARY KEY); RECEIVE message_body FROM dbo.q INTO @m")
    assert received.text.endswith(" The duplicate key value is (0x7800).")


@pytest.mark.parametrize(
    ("columns", "values"),
    [
        ("a int NULL UNIQUE", "(1), (NULL), (NULL)"),
        ("a varchar(9), b varbinary(9), UNIQUE (a, b)", "('x', NULL), (NULL, 0x), ('X', NULL)"),
    ],
)
def test_a_unique_key_has_null_only_once(side, columns, values):
    """ "As with any value participating in a UNIQUE constraint, only one null value is allowed per column.\""""
    side.run(f"CREATE TABLE dbo.keyed ({columns})")
    assert side.error(f"INSERT dbo.keyed VALUES {values}").number == 2627
    assert side.error(f"DECLARE @t TABLE ({columns}); INSERT @t VALUES {values}").number == 2627
    side.run("INSERT dbo.keyed DEFAULT VALUES")
    side.crash()
    side.run("USE db")
    refused = side.error("INSERT dbo.keyed DEFAULT VALUES")
    assert refused.number == 2627 and "<NULL>" in refused.text


def test_an_identity_column_of_a_table_variable_numbers_its_rows(side):
    declared = T.format("n int IDENTITY(5, 1), a int")
    rows = "INSERT @t VALUES (1), (2); DELETE @t WHERE n = 6; INSERT @t (a) SELECT 3; SELECT n, a, @@IDENTITY FROM @t"
    assert side.rows(declared + rows) == [(5, 1, 7), (7, 3, 7)]
    assert side.error(declared + "INSERT @t (n, a) VALUES (1, 2)").number == 544
    assert side.error(declared + "UPDATE @t SET n = 1").number == 8102
    assert side.error(T.format("n tinyint IDENTITY(255, 1), a int") + "INSERT @t VALUES (1), (2)").number == 8115
    assert side.error("UPDATE dbo.t SET id = 5").number == 8102
