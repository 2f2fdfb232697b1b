"""What the manual has and this server has not is 50001 with its name, never an error of the user's."""

import pytest

from harness.embedded.tsql.catalog import VIEWS
from harness.embedded.tsql.instance import manual
from harness.embedded.tsql.statements.registry import GRAMMAR
from harness.embedded.tsql.translation.functions import FUNCTIONS


@pytest.fixture
def side(side):
    side.run("CREATE TABLE dbo.t2 (id int PRIMARY KEY, a int); CREATE USER u1 WITHOUT LOGIN")
    side.run("ALTER TABLE dbo.t ADD a int, b nvarchar(20), x nvarchar(max)")
    side.run("CREATE PROCEDURE dbo.p AS SELECT 1 AS a")
    side.run("CREATE QUEUE dbo.q")
    return side


@pytest.mark.parametrize("kind", sorted({entry.kind for entry in manual.entries()}))
def test_every_example_of_the_manual_is_refused_by_its_name(side, kind: str) -> None:
    wrong = []
    for entry in manual.entries():
        if entry.kind == kind and entry.example:
            side.run("IF @@TRANCOUNT > 0 ROLLBACK; USE db")
            errors = side.results(entry.example).errors
            if not errors or errors[0].number != 50001 or entry.name.lower() not in errors[0].text.lower():
                wrong.append((entry, errors[:1]))
    assert wrong == []


def test_nothing_in_the_list_is_supported() -> None:
    here = {
        "function": {name.rpartition(".")[2] for name in FUNCTIONS},
        "statement": {" ".join(words) for words in GRAMMAR},
        "view": VIEWS,
    }
    assert not [entry.name for entry in manual.entries() if entry.name in here.get(entry.kind, ())]


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("SELECT NOSUCH(1)", 195),
        ("SELECT 1 FROM", 102),
        ("SELECT 1 FROM nosuch", 208),
        ("EXEC nosuch", 2812),
        ("nosuch", 2812),
        ("SELECT rank FROM dbo.t", 207),
        ("SELECT nosuch FROM dbo.t, sys.tables", 207),
        ("SELECT nosuch FROM dbo.q", 207),
        ("SELECT @@nosuch", 137),
        ("SELECT * FROM dbo.nosuch('a', 'b')", 208),
        ("SELECT 'OPENJSON(' FROM -- OPENJSON(\n", 102),
    ],
)
def test_a_mistake_of_the_user_keeps_its_number(side, text: str, number: int) -> None:
    assert side.error(text).number == number


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("SELECT * FROM sys.table_types", "sys.table_types"),
        ("SELECT * FROM master.INFORMATION_SCHEMA.DOMAINS", "INFORMATION_SCHEMA.DOMAINS"),
        ("SELECT * FROM sys.dm_sql_referenced_entities('dbo.p', 'OBJECT')", "sys.dm_sql_referenced_entities"),
        ("SELECT is_schema_bound FROM sys.sql_modules", "the column is_schema_bound of sys.sql_modules"),
        ("SELECT m.is_schema_bound FROM sys.sql_modules m, dbo.t", "the column is_schema_bound of sys.sql_modules"),
    ],
)
def test_what_a_system_schema_lacks_is_no_mistake_of_the_user(side, text: str, what: str) -> None:
    error = side.error(text)
    assert (error.number, error.text) == (50001, f"The embedded Service Broker does not support {what}.")


def test_it_is_found_inside_strings_procedures_and_try(side) -> None:
    assert "the function ACOS" in side.error("EXEC ('SELECT ACOS(1)')").text
    assert side.rows("BEGIN TRY EXEC ('SELECT ACOS(1)') END TRY BEGIN CATCH SELECT ERROR_NUMBER() END CATCH") == [
        (50001,)
    ]
    error = side.error("SELECT 1;\nWITH r AS (SELECT 1 AS n UNION ALL SELECT n + 1 FROM r) SELECT n FROM r")
    assert error.number == 50001 and "r, a common table expression that refers to itself" in error.text
