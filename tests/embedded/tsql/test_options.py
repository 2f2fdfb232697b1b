"""SET options."""

import pytest


def test_a_procedures_set_options_end_with_it(side):
    side.run("CREATE PROCEDURE dbo.quiet AS SET NOCOUNT ON; INSERT dbo.t (n) VALUES (1)")
    assert side.run("EXEC dbo.quiet; INSERT dbo.t (n) VALUES (2)").counts == [1]


def test_the_isolation_level_is_shown_and_changes_nothing(side):
    levels = {"READ UNCOMMITTED": 1, "READ COMMITTED": 2, "REPEATABLE READ": 3, "SERIALIZABLE": 4, "SNAPSHOT": 5}
    query = "SELECT transaction_isolation_level FROM sys.dm_exec_sessions WHERE session_id = @@SPID"
    for name, level in levels.items():
        assert side.value(f"SET TRANSACTION ISOLATION LEVEL {name}; {query}") == level


def test_text_in_double_quotes_is_a_string_while_quoted_identifier_is_off(side):
    assert side.value('SET QUOTED_IDENTIFIER OFF SELECT "it\'s" + \' "here"\'') == 'it\'s "here"'
    assert side.rows('SELECT "n" AS x, [n], "a""b" FROM (SELECT 1 AS n) AS t') == [("n", 1, 'a"b')]
    assert side.run('PRINT "x"').prints == ["x"]
    assert side.run("EXEC ('PRINT \"y\"')").prints == ["y"]
    assert side.value('SET QUOTED_IDENTIFIER ON SELECT "n" FROM (SELECT 1 AS n) AS t') == 1
    assert side.value('SELECT "n" FROM (SELECT 1 AS n) AS t') == 1


def test_a_procedure_keeps_quoted_identifier_on_or_is_refused(side):
    side.run('CREATE PROCEDURE dbo.p AS SET QUOTED_IDENTIFIER OFF; SELECT "n" FROM (SELECT 1 AS n) AS t')
    assert side.value("EXEC dbo.p") == 1
    side.run("SET QUOTED_IDENTIFIER OFF")
    assert side.value("EXEC dbo.p") == 1
    refused = side.error('CREATE PROCEDURE dbo.q AS PRINT "x"')
    assert refused.number == 50001 and "QUOTED_IDENTIFIER" in refused.text
    side.run("CREATE PROCEDURE dbo.q AS -- \"x\"\nPRINT 'x'")


@pytest.mark.parametrize(
    "option",
    [
        *("DATEFORMAT dmy", "DATEFORMAT 'ydm'", "LANGUAGE French", "LANGUAGE N'Deutsch'", "DATEFIRST 1"),
        *("ANSI_DEFAULTS ON", "ANSI_NULL_DFLT_OFF ON", "ANSI_NULL_DFLT_ON OFF"),
    ],
)
def test_a_value_that_would_change_what_statements_mean_is_refused(side, option):
    assert side.error(f"SET {option}").number == 50001


@pytest.mark.parametrize(
    "option",
    [
        "DATEFORMAT mdy",
        "DATEFORMAT 'ymd'",
        "LANGUAGE us_english",
        "LANGUAGE 'English'",
        "DATEFIRST 7",
        "TEXTSIZE 2147483647",
        "CURSOR_CLOSE_ON_COMMIT ON",
    ],
)
def test_a_value_that_drivers_send_is_accepted(side, option):
    assert side.run(f"SELECT 1 SET {option} SELECT @@ROWCOUNT").sets[1][1] == [(0,)]


def test_a_cursor_that_a_commit_would_close_is_refused(side):
    side.run("DECLARE c CURSOR FOR SELECT 1; OPEN c; SET CURSOR_CLOSE_ON_COMMIT ON")
    assert side.error("FETCH c").number == 50001
    assert side.rows("SET CURSOR_CLOSE_ON_COMMIT OFF; FETCH c") == [(1,)]


def test_textsize_cuts_values_of_max_types(side):
    query = "SELECT CAST('abcdef' AS {}(max)), CAST('abcdef' AS {}(6))"
    for type_, cut, whole in (
        ("varchar", "abc", "abcdef"),
        ("nvarchar", "a", "abcdef"),
        ("varbinary", b"abc", b"abcdef"),
    ):
        assert side.rows(f"SET TEXTSIZE 3; {query.format(type_, type_)}") == [(cut, whole)]
    [[row]] = side.rows("SET TEXTSIZE 0; SELECT REPLICATE(CAST('a' AS varchar(max)), 5000)")
    assert len(row) == 4096
    assert side.value("SET TEXTSIZE -1; SELECT CAST('abcdef' AS varchar(max))") == "abcdef"
