"""Catalog procedures: their columns are the manual's, their values those of SQLColumns and its kin.

https://learn.microsoft.com/sql/relational-databases/system-stored-procedures/catalog-stored-procedures-transact-sql and
https://learn.microsoft.com/sql/relational-databases/native-client-odbc-date-time/metadata-catalog
"""

import pytest

from harness.embedded.tsql.text.tokens import Tokens
from tests.embedded.tsql.sides import Side, World

PEOPLE = """
CREATE TABLE dbo.people (
    id int IDENTITY CONSTRAINT PK_people PRIMARY KEY, name nvarchar(40) NOT NULL UNIQUE, age int NOT NULL DEFAULT 18,
    born date, wage decimal(9, 2), clock time(3), stamp datetime, face varbinary(max), code varchar(10), size float
);
"""
KEY = "TABLE_QUALIFIER sysname, TABLE_OWNER sysname, TABLE_NAME sysname, "
COLUMNS = {
    "sp_tables": KEY + "TABLE_TYPE varchar(32), REMARKS varchar(254)",
    "sp_columns people": KEY
    + "COLUMN_NAME sysname, DATA_TYPE smallint, TYPE_NAME sysname, PRECISION int, LENGTH int, SCALE smallint, "
    "RADIX smallint, NULLABLE smallint, REMARKS varchar(254), COLUMN_DEF nvarchar(4000), SQL_DATA_TYPE smallint, "
    "SQL_DATETIME_SUB smallint, CHAR_OCTET_LENGTH int, ORDINAL_POSITION int, IS_NULLABLE varchar(254), "
    "SS_DATA_TYPE tinyint",
    "sp_pkeys people": KEY + "COLUMN_NAME sysname, KEY_SEQ smallint, PK_NAME sysname",
    "sp_statistics people": KEY
    + "NON_UNIQUE smallint, INDEX_QUALIFIER sysname, INDEX_NAME sysname, TYPE smallint, SEQ_IN_INDEX smallint, "
    "COLUMN_NAME sysname, COLLATION char(1), CARDINALITY int, PAGES int, FILTER_CONDITION varchar(128)",
}


@pytest.fixture
def side() -> Side:
    side = World().side("Target", "2022")
    side.run("CREATE DATABASE db; USE db;" + PEOPLE)
    return side


@pytest.mark.parametrize("call", COLUMNS)
def test_a_catalog_procedure_returns_the_columns_of_the_manual(side, call):
    [(columns, _)] = side.run(f"EXEC {call}").sets
    expected = [column.split(" ") for column in COLUMNS[call].split(", ")]
    assert [(column.name, column.type) for column in columns] == [
        (name, Tokens(type_).data_type()) for name, type_ in expected
    ]


def test_columns_have_the_sizes_and_numbers_of_odbc_3(side):
    rows = side.rows("EXEC sp_columns_100 N'peop%', N'dbo', @ODBCVer = 3")
    assert [(row[3], *row[4:11], row[12], *row[13:18]) for row in rows] == [
        ("id", 4, "int identity", 10, 4, 0, 10, 0, None, 4, None, None, 1, "NO"),
        ("name", -9, "nvarchar", 40, 80, None, None, 0, None, -9, None, 80, 2, "NO"),
        ("age", 4, "int", 10, 4, 0, 10, 0, "((18))", 4, None, None, 3, "NO"),
        ("born", 91, "date", 10, 6, 0, None, 1, None, 9, 1, None, 4, "YES"),
        ("wage", 3, "decimal", 9, 11, 2, 10, 1, None, 3, None, None, 5, "YES"),
        ("clock", -154, "time", 12, 10, 3, None, 1, None, -154, None, None, 6, "YES"),
        ("stamp", 93, "datetime", 23, 16, 3, None, 1, None, 9, 3, None, 7, "YES"),
        ("face", -3, "varbinary", 0, 0, None, None, 1, None, -3, None, 0, 8, "YES"),
        ("code", 12, "varchar", 10, 10, None, None, 1, None, 12, None, 10, 9, "YES"),
        ("size", 6, "float", 53, 8, None, 2, 1, None, 6, None, None, 10, "YES"),
    ]


def test_dates_have_other_numbers_in_odbc_2(side):
    assert [row[4] for row in side.rows("EXEC sp_columns people") if row[3] in ("born", "stamp")] == [9, 11]


def test_a_name_is_a_pattern_unless_the_caller_says_that_it_is_none(side):
    side.run("CREATE TABLE dbo.peopl_ (id int)")
    for use, names in ((1, ["peopl_", "people"]), (0, ["peopl_"])):
        assert [row[2] for row in side.rows(f"EXEC sp_tables 'peopl_', @fUsePattern = {use}")] == names


@pytest.mark.parametrize(
    "arguments, place, values",
    [
        ("'', '', '%'", 0, ["db", "master", "msdb", "tempdb"]),
        ("'', '%', ''", 1, ["dbo", "INFORMATION_SCHEMA", "sys"]),
        ("'', '', '', '%'", 3, ["SYSTEM TABLE", "TABLE", "VIEW"]),
        (
            "@table_type = N'''TABLE'',''SYSTEM TABLE'''",
            2,
            ["sysconvgroup", "sysdercv", "sysdesend", "sysxmitqueue", "people"],
        ),
    ],
)
def test_sp_tables_lists_databases_schemas_and_types_too(side, arguments, place, values):
    assert [row[place] for row in side.rows(f"EXEC sp_tables {arguments}")] == values


def test_keys_and_indexes_are_those_of_the_table(side):
    side.run("INSERT people (name) VALUES (N'a'), (N'b')")
    assert side.rows("EXEC sp_pkeys people, dbo, db") == [("db", "dbo", "people", "id", 1, "PK_people")]
    assert [row[3:11] for row in side.rows("EXEC sp_statistics people, @is_unique = 'Y'")] == [
        (None, None, None, 0, None, None, None, 2),
        (0, "people", "PK_people", 1, 1, "id", "A", 2),
        (0, "people", "UQ_people", 3, 1, "name", "A", 2),
    ]
    assert side.rows("EXEC sp_fkeys @pktable_name = people") == []


def test_a_procedure_of_the_system_runs_in_the_database_of_its_name(side):
    side.run("USE master")
    for name in ("db..sp_pkeys", "[db].[sys].[sp_pkeys]"):
        assert side.rows(f"EXEC {name} people")[0][:3] == ("db", "dbo", "people")
    assert side.rows("EXEC sp_pkeys people") == []
    assert side.error("EXEC sp_columns people, dbo, db").number == 15250


def test_a_procedure_of_the_system_cannot_be_dropped_and_may_be_called_by_everybody(side):
    assert side.error("DROP PROCEDURE sp_tables").number == 3701
    side.run("CREATE LOGIN plain WITH PASSWORD = 'Secret-word-1'; CREATE USER plain FOR LOGIN plain")
    plain = side.connect("db")
    plain.login, plain.guard = "plain", None
    plain.reset()
    assert side.rows("EXEC sp_tables people", plain) == []
    side.run("GRANT SELECT ON people TO plain")
    assert [row[2] for row in side.rows("EXEC sp_tables people", plain)] == ["people"]


def test_the_collations_of_a_table_have_the_bytes_of_the_wire(side):
    rows = side.rows("EXEC ..sp_tablecollations_100 N'.[people]'")
    assert rows[:2] == [(1, "id", None, None), (2, "name", b"\t\x04\xd0\x004", "SQL_Latin1_General_CP1_CI_AS")]


def test_types_and_columns_have_names_and_schemas_ids(side):
    names = "SELECT c.name, TYPE_NAME(c.user_type_id) FROM sys.columns AS c WHERE COL_NAME(c.object_id, c.column_id) = c.name"
    assert side.rows(names)[:4] == [("id", "int"), ("name", "nvarchar"), ("age", "int"), ("born", "date")]
    nothing = "SELECT TYPE_NAME(1), COL_NAME(OBJECT_ID('people'), 11), COL_NAME(1, 1), SCHEMA_ID('no')"
    assert side.rows(nothing) == [(None,) * 4]
    assert side.rows("SELECT SCHEMA_ID(), SCHEMA_ID('sys'), TYPE_NAME(256)") == [(1, 4, "sysname")]


def test_a_procedure_of_another_database_knows_its_own_name(side):
    side.run("CREATE DATABASE other; USE other")
    side.run("CREATE PROCEDURE dbo.here AS SELECT DB_NAME(), DB_ID(), OBJECT_ID('dbo.here') - @@PROCID + @@PROCID")
    side.run("USE db")
    assert side.rows("EXEC other.dbo.here")[0][:2] == ("other", side.value("SELECT DB_ID('other')"))
