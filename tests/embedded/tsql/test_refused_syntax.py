"""Texts that look like T-SQL and are none: Microsoft's parser refuses each of them, and so does this one.

They were found by changing a token of texts that run, and asking both.
"""

import pytest

from harness.embedded.tsql.text.tokenizer import RESERVED

REFUSED = """\
SELECT CAST(123 AS varchar(3)
SELECT [key] FROM OPENJSON(N'{}'
SELECT ('2026-01-01' AS date)
SELECT CASE WHEN n = 1 1 ELSE 0 END FROM dbo.t
SELECT CASE n WHEN 1 THEN 'a' WHEN 2 'b' END FROM dbo.t
SELECT CASE n ELSE 0 END FROM dbo.t
SELECT 1 WHERE 3 BETWEEN 2 4
SELECT 1 WHERE 1 NOT IS NULL
SELECT 1 WHERE 1 IN (, 1)
SELECT OBJECT_ID(, N'P')
SELECT DISTINCT , n FROM dbo.t
SELECT TOP (1) FROM dbo.t
SELECT ()
SELECT ('a', 2)
DECLARE @a int; SELECT @a = n b FROM dbo.t
SELECT (*) FROM dbo.t
SELECT COUNT(*, 1) FROM dbo.t
SELECT AS n
SELECT n AS 2 FROM dbo.t
SELECT n FROM FROM dbo.t
SELECT n FROM VALUES (1) AS v (n)
SELECT v FROM (VALUES (1)) AS (v)
SELECT n FROM dbo.t 'a'
SELECT n FROM dbo.t AS N'a'
SELECT n FROM dbo.t AS @a
SELECT @@SPID @@SPID
SELECT NULL ALL
PRINT 'a' 'b'
SELECT 1 WHERE 'a' IN ('a' 'b')
SELECT 1)
SELECT 1 END
SELECT 1; foo bar
WHERE 1 = 1
SELECT n FROM dbo.t FOR XML
SELECT n FROM dbo.t FOR JSON
WITH c (SELECT 7 AS n) SELECT n FROM c
PRINT *
RECEIVE DISTINCT message_body FROM dbo.x
EXEC dbo.p (1)
EXEC dbo.p 1 + 1
EXEC dbo.p @table = KEY
OBJECT_ID('dbo.t')
RAISERROR('x' + 'y', 16, 1)
RAISERROR('%d', 16, 1, 1 + 1)
THROW 50001, N'a' + N'b', 1
DBCC TRACEON (1118 -1)
DECLARE @a int = 1, @b TABLE (n int)
DECLARE @b TABLE (n int), @a int
DECLARE @b TABLE (n int CONSTRAINT k PRIMARY KEY)
DECLARE @b TABLE (n int REFERENCES dbo.t (id))
CREATE TYPE dbo.x AS TABLE (n int, FOREIGN KEY (n) REFERENCES dbo.t (id))
CREATE VIEW dbo.x AS SELECT 1 AS n; SELECT 2
CREATE VIEW dbo.x AS SELECT 1 AS n PRINT 'y'
BEGIN TRAN TRAN
CREATE TABLE dbo.x (a int IDENTITY IDENTITY)
CREATE TABLE dbo.x (a int DEFAULT 7 DEFAULT 8)
CREATE TABLE dbo.x (a int DEFAULT 7 'yes')
CREATE TABLE dbo.x (a int CONSTRAINT PRIMARY KEY)
CREATE TABLE dbo.x (a int CONSTRAINT c, b int)
CREATE TRIGGER dbo.x ON dbo.t FOR UPDATE AS ;
CREATE SCHEMA x; SELECT 1
CREATE QUEUE dbo.x WITH STATUS = ON RETENTION = ON
CREATE QUEUE dbo.x WITH ACTIVATION ()
ALTER QUEUE dbo.x WITH ACTIVATION (STATUS = ON, )
ALTER QUEUE dbo.x WITH ACTIVATION (PROCEDURE_NAME = dbo.p MAX_QUEUE_READERS = 1, EXECUTE AS OWNER)
""".splitlines()


@pytest.mark.parametrize("text", REFUSED)
def test_it_is_an_error_of_syntax(side, text: str) -> None:
    assert side.error(text).number in (102, 156)


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("SELECT 1 CREATE SCHEMA x", 111),
        ("SELECT 1 CREATE VIEW dbo.x AS SELECT 1 AS a", 111),
        ("PRINT 'x' WITH c AS (SELECT 1 AS n) SELECT n FROM c", 319),
        ("SELECT 1\nWITH XMLNAMESPACES ('u' AS p) SELECT 1 AS n", 319),
        ("BEGIN SELECT 1 END WITH c AS (SELECT 1 AS n) SELECT n FROM c", 319),
    ],
)
def test_a_statement_that_must_be_the_first_or_needs_a_semicolon_before_it(side, text: str, number: int) -> None:
    assert side.error(text).number == number


@pytest.mark.parametrize(
    "statement", ["CREATE MESSAGE TYPE {0}", "SELECT 1 AS {0}", "SELECT n FROM dbo.t AS {0}", "EXEC {0}"]
)
def test_a_reserved_word_is_a_name_in_brackets_alone(side, statement: str) -> None:
    taken = [word for word in sorted(RESERVED) if side.error(statement.format(word)).number not in (102, 156, 50001)]
    assert taken == []
    for word in ("KEY", "in"):
        errors = side.results(statement.format(f"[{word}]")).errors
        assert [error.number for error in errors] in ([], [2812])


@pytest.mark.parametrize(
    ("text", "number", "near"),
    [
        ("CREATE MESSAGE TYPE in VALIDATION = NONE", 156, "the keyword 'in'."),
        ("SELECT * FROM SELECT 'ok'", 156, "the keyword 'SELECT'."),
        ("INSERT dbo.t (n, id VALUES (1, 2)", 156, "the keyword 'VALUES'."),
        ("UPDATE dbo.t SET n = 1 where", 102, "'where'."),  # the last word, whatever it is
        ("UPDATE dbo.t SET n = 1 WHERE n = 1 foo", 102, "'foo'."),
        ("SELECT 1 AS n\n@zz", 102, "'@zz'."),
        ("SELECT 1 + [select] [from] [where]", 102, "'where'."),
    ],
)
def test_the_error_names_the_word_at_which_nothing_fits(side, text, number, near) -> None:
    error = side.error(text)
    assert (error.number, error.text) == (number, f"Incorrect syntax near {near}")


def test_a_string_behind_a_string_names_it(side) -> None:
    [(columns, rows)] = side.run("SELECT N'a' 'b', 'c' 'd'").sets
    assert ([column.name for column in columns], rows) == (["b", "d"], [("a", "c")])


def test_words_that_are_not_reserved_are_names(side) -> None:
    side.run("CREATE MESSAGE TYPE PRECISION; CREATE MESSAGE TYPE message; GRANT SELECT ON dbo.t TO public;")
    assert side.rows("SELECT CAST(1 AS double precision) AS load, USER AS disk") == [(1.0, "dbo")]
    assert side.rows("IF 1 = 1 WITH c AS (SELECT 1 AS n) SELECT n FROM c") == [(1,)]


@pytest.mark.parametrize("argument", ["n", "-1", "NULL", "DEFAULT", "@@SPID", "N'x'", "0x01", "[in]", "@x OUTPUT"])
def test_an_argument_of_exec_is_a_constant_a_variable_or_a_word(side, argument: str) -> None:
    assert side.error(f"DECLARE @x int; EXEC nothing {argument} PRINT 'x'").number == 2812


def test_what_t_sql_has_and_this_server_has_not_is_named(side) -> None:
    for text, name in {
        "SELECT 1; again: SELECT 2": "labels",
        "KILL 5": "the statement KILL",
        "BULK INSERT t FROM 'f'": "BULK INSERT",
    }.items():
        assert name in side.error(text).text
    assert (
        side.error("SELECT n FROM dbo.t CROSS APPLY .numbers(n) AS a").number == 102
    )  # Microsoft's parser takes the point
    assert side.error("foo bar").number == 2812, "a call of foo, whose argument is a word"
