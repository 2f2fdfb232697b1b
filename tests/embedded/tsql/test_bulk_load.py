"""INSERT BULK and the rows behind it: defaults, numbers, triggers and transactions, as the options say."""

from typing import Any

import pytest

from harness.embedded.sqltypes import INT, Column, SqlType
from harness.embedded.tsql.requests import ClientSession
from tests.embedded.tsql.sides import Message, Results, Side, World

COLUMNS = [Column("", SqlType("nvarchar", length=20)), Column("", INT)]
STATEMENT = "INSERT BULK dbo.t ([name] nvarchar(20) COLLATE SQL_Latin1_General_CP1_CI_AS, [age] int NULL)"
ROWS = [("a", 1), ("b", None)]


@pytest.fixture
def side() -> Side:
    side = World().side("Target", "2022")
    side.run("CREATE DATABASE db; USE db; CREATE TABLE dbo.log (n int)")
    side.run("CREATE TABLE dbo.t (id int IDENTITY, name nvarchar(20) NOT NULL UNIQUE, age smallint DEFAULT 18)")
    side.run("CREATE TRIGGER dbo.tr ON dbo.t AFTER INSERT AS INSERT dbo.log SELECT COUNT(*) FROM inserted")
    return side


def load(side: Side, rows: list[Any] = ROWS, session: ClientSession | None = None) -> Results:
    results = Results()
    side.finish((session or side.session).bulk_load(COLUMNS, iter(rows), results))
    if results.errors:
        raise results.errors[0]
    return results


def error(side: Side, *arguments: Any) -> int:
    with pytest.raises(Message) as caught:
        load(side, *arguments)
    return caught.value.number


@pytest.mark.parametrize(
    "options, ages, logged",
    [
        ("", [1, 18], []),
        (" WITH (KEEP_NULLS, TABLOCK, ORDER(name ASC), ROWS_PER_BATCH = 7)", [1, None], []),
        (" WITH (FIRE_TRIGGERS, CHECK_CONSTRAINTS)", [1, 18], [(2,)]),
    ],
)
def test_options_decide_about_defaults_and_triggers(side, options, ages, logged):
    side.run(STATEMENT + options)
    assert load(side).counts[-1:] == [2]
    assert side.rows("SELECT id, name, age FROM dbo.t ORDER BY id") == [(1, "a", ages[0]), (2, "b", ages[1])]
    assert side.rows("SELECT n FROM dbo.log") == logged
    side.crash()
    assert side.value("USE db; SELECT COUNT(*) FROM dbo.t") == 2


def test_all_rows_are_inserted_or_none(side):
    for rows, number in (([*ROWS, ("a", 2)], 2627), ([*ROWS, (None, 2)], 515), ([*ROWS, ("c", 99999)], 220)):
        side.run(STATEMENT)
        assert error(side, rows) == number
    assert side.value("SELECT COUNT(*) FROM dbo.t") == 0


def test_a_load_is_part_of_the_open_transaction(side):
    side.run("BEGIN TRANSACTION")
    side.run(STATEMENT)
    load(side)
    assert side.rows("SELECT @@TRANCOUNT, COUNT(*) FROM dbo.t") == [(1, 2)]
    side.run("ROLLBACK")
    assert side.value("SELECT COUNT(*) FROM dbo.t") == 0


def test_many_rows_are_one_statement(side):
    side.run(STATEMENT)
    load(side, [(str(number), number) for number in range(5000)])
    assert side.rows("SELECT COUNT(*), SUM(age), MAX(id) FROM dbo.t") == [(5000, 12497500, 5000)]


def test_rows_that_no_statement_announced_are_refused(side):
    assert error(side) == 4002
    side.run("INSERT BULK dbo.t ([name] nvarchar(20))")
    assert error(side) == 4002
    side.run(STATEMENT)
    side.session.reset()
    side.run("USE db")
    assert error(side) == 4002


@pytest.mark.parametrize(
    "statement, number",
    [
        ("INSERT BULK dbo.nowhere ([name] nvarchar(20), [age] int)", 208),
        ("INSERT BULK dbo.t ([name] nvarchar(20)) WITH (SORTED)", 102),
        ("INSERT BULK dbo.t ([name] geography)", 50001),
        ("INSERT BULK dbo.t ([name] nvarchar(20) COLLATE Latin1_General_BIN)", 50001),
    ],
)
def test_a_wrong_statement_is_refused_before_the_rows(side, statement, number):
    assert side.error(statement).number == number


@pytest.mark.parametrize("columns, number", [("[nothing] nvarchar(20), [age] int", 207), ("[name] int, [id] int", 544)])
def test_columns_that_cannot_be_loaded_are_refused(side, columns, number):
    side.run(f"INSERT BULK dbo.t ({columns})")
    assert error(side) == number


def test_insert_on_the_table_is_needed(side):
    side.run("CREATE LOGIN plain WITH PASSWORD = 'Secret-word-1'; CREATE USER plain FOR LOGIN plain")
    plain = side.connect("db")
    plain.login = "plain"
    plain.reset()
    side.run(STATEMENT, plain)
    assert error(side, ROWS, plain) == 229


def test_results_say_which_column_is_the_identity(side):
    [(columns, _)] = side.run("SELECT *, id AS again, id + 1 AS more FROM dbo.t").sets
    assert [column.name for column in columns if column.is_identity] == ["id", "again"]
