"""Tables, columns, keys and procedures as tools look them up: INFORMATION_SCHEMA and the views of schema sys."""

from decimal import Decimal

import pytest

from harness.embedded.sqltypes import INT, Parameter
from harness.embedded.tsql.catalog import INFORMATION_SCHEMA, VIEWS


@pytest.fixture
def catalog(world):
    side = world.side("Here", "2022")
    side.run("CREATE DATABASE db;")
    side.run("USE db;")
    side.run(
        """CREATE TABLE dbo.people (
            id int IDENTITY(5, 1) NOT NULL CONSTRAINT PK_people PRIMARY KEY, name nvarchar(40) NOT NULL UNIQUE,
            age tinyint NOT NULL DEFAULT ((18)), born datetime2(3) NULL DEFAULT getdate(), wage decimal(10, 2) NULL,
            photo varbinary(max) NULL, UNIQUE (name, born)
        )"""
    )
    side.run("CREATE TABLE dbo.loose (a float NULL, b datetimeoffset NULL)")
    side.run("CREATE PROCEDURE dbo.hire @name nvarchar(40), @id int OUTPUT AS SET @id = 1")
    return side


@pytest.mark.parametrize("name", sorted(INFORMATION_SCHEMA))
def test_every_view_of_the_information_schema_can_be_read(catalog, name):
    [(columns, rows)] = catalog.run(f"SELECT * FROM INFORMATION_SCHEMA.{name}").sets
    assert [column.name for column in columns] == [member.name for member in INFORMATION_SCHEMA[name].members]
    assert all(column.name.isupper() for column in columns)
    assert bool(rows) == (name not in ("views", "sequences", "referential_constraints"))


def test_columns_have_types_lengths_and_defaults(catalog):
    columns = "column_name, ordinal_position, column_default, is_nullable, data_type, character_maximum_length, character_octet_length, numeric_precision, numeric_scale, datetime_precision"
    assert catalog.rows(f"SELECT {columns} FROM INFORMATION_SCHEMA.COLUMNS WHERE TABLE_NAME = 'people' ORDER BY 2") == [
        ("id", 1, None, "NO", "int", None, None, 10, 0, None),
        ("name", 2, None, "NO", "nvarchar", 40, 80, None, None, None),
        ("age", 3, "((18))", "NO", "tinyint", None, None, 3, 0, None),
        ("born", 4, "(getdate())", "YES", "datetime2", None, None, None, None, 3),
        ("wage", 5, None, "YES", "decimal", None, None, 10, 2, None),
        ("photo", 6, None, "YES", "varbinary", -1, -1, None, None, None),
    ]
    assert catalog.rows(
        "SELECT c.name, t.name, c.max_length, c.precision, c.scale, c.is_identity, dc.definition FROM sys.columns c JOIN sys.types t ON t.user_type_id = c.user_type_id LEFT JOIN sys.default_constraints dc ON dc.object_id = c.default_object_id WHERE c.object_id = OBJECT_ID('dbo.people') ORDER BY c.column_id"
    ) == [
        ("id", "int", 4, 10, 0, 1, None),
        ("name", "nvarchar", 80, 0, 0, 0, None),
        ("age", "tinyint", 1, 3, 0, 0, "((18))"),
        ("born", "datetime2", 7, 23, 3, 0, "(getdate())"),
        ("wage", "decimal", 9, 10, 2, 0, None),
        ("photo", "varbinary", -1, 0, 0, 0, None),
    ]
    assert catalog.rows("SELECT seed_value, increment_value, last_value FROM sys.identity_columns") == [(5, 1, None)]
    catalog.run("INSERT dbo.people (name) VALUES (N'a')")
    assert catalog.rows("SELECT last_value FROM sys.identity_columns") == [(5,)]
    shown = "SELECT COLUMNPROPERTY(OBJECT_ID('dbo.people'), 'NAME', 'charmaxlen'), COLUMNPROPERTY(OBJECT_ID('dbo.people'), 'id', 'IsIdentity'), COLUMNPROPERTY(OBJECT_ID('dbo.people'), 'x', 'IsIdentity')"
    assert catalog.rows(shown) == [(40, 1, None)]


def test_keys_are_constraints_with_indexes_and_columns(catalog):
    keys = "SELECT k.name, k.type, i.name, i.index_id, i.type_desc, c.name, ic.key_ordinal FROM sys.key_constraints k JOIN sys.indexes i ON i.object_id = k.parent_object_id AND i.index_id = k.unique_index_id JOIN sys.index_columns ic ON ic.object_id = i.object_id AND ic.index_id = i.index_id JOIN sys.columns c ON c.object_id = ic.object_id AND c.column_id = ic.column_id ORDER BY i.index_id, ic.key_ordinal"
    assert catalog.rows(keys) == [
        ("PK_people", "PK", "PK_people", 1, "CLUSTERED", "id", 1),
        ("UQ_people", "UQ", "UQ_people", 2, "NONCLUSTERED", "name", 1),
        ("UQ_people_1", "UQ", "UQ_people_1", 3, "NONCLUSTERED", "name", 1),
        ("UQ_people_1", "UQ", "UQ_people_1", 3, "NONCLUSTERED", "born", 2),
    ]
    assert catalog.rows(
        "SELECT tc.constraint_type, kcu.column_name, kcu.ordinal_position FROM INFORMATION_SCHEMA.TABLE_CONSTRAINTS tc JOIN INFORMATION_SCHEMA.KEY_COLUMN_USAGE kcu ON kcu.constraint_name = tc.constraint_name AND kcu.table_schema = tc.table_schema WHERE tc.table_name = 'people' AND tc.constraint_type = 'PRIMARY KEY'"
    ) == [("PRIMARY KEY", "id", 1)]
    # A violation names the same key.
    catalog.run("INSERT dbo.people (name) VALUES (N'a')")
    assert "'UQ_people_1'" in catalog.error("INSERT dbo.people (name) VALUES (N'a')").text


def test_a_table_without_a_primary_key_is_a_heap_with_its_partition(catalog):
    heap = "SELECT i.name, i.index_id, i.type_desc, p.rows FROM sys.indexes i JOIN sys.partitions p ON p.object_id = i.object_id AND p.index_id = i.index_id WHERE i.object_id = OBJECT_ID('dbo.loose')"
    assert catalog.rows(heap) == [(None, 0, "HEAP", 0)]


def test_objects_have_ids_of_their_own_and_constraints_their_table(catalog):
    rows = catalog.rows("SELECT object_id, name, type FROM sys.all_objects")
    assert len({object_id for object_id, _, _ in rows}) == len(rows)
    assert ("people", "U ") in {row[1:] for row in rows}
    assert ("all_columns", "V ") in {row[1:] for row in rows}
    children = "SELECT RTRIM(type) FROM sys.objects WHERE parent_object_id = OBJECT_ID('dbo.people') ORDER BY 1"
    assert catalog.rows(children) == [("D",), ("D",), ("PK",), ("UQ",), ("UQ",)]


def test_system_views_and_their_columns_are_listed(catalog):
    listed = {name for (name,) in catalog.rows("SELECT name FROM sys.system_views WHERE schema_id = 4")}
    assert listed == {name for name, view in VIEWS.items() if view.since <= 2022 and not view.is_base_table}
    assert catalog.rows(
        "SELECT name FROM sys.system_views WHERE name IN ('dm_exec_sessions', 'dm_pdw_nodes_exec_sessions')"
    ) == [("dm_exec_sessions",)]
    columns = "SELECT c.name FROM sys.all_columns c JOIN sys.all_objects o ON o.object_id = c.object_id WHERE o.name = 'schemas' ORDER BY c.column_id"
    assert catalog.rows(columns) == [("name",), ("schema_id",), ("principal_id",)]


def test_procedures_show_their_parameters_and_text(catalog):
    assert catalog.rows("SELECT routine_schema, routine_name, routine_type FROM INFORMATION_SCHEMA.ROUTINES") == [
        ("dbo", "hire", "PROCEDURE")
    ]
    parameters = "SELECT p.name, (SELECT t.name FROM sys.types t WHERE t.user_type_id = p.user_type_id), p.max_length, p.is_output FROM sys.all_parameters p WHERE p.object_id = OBJECT_ID('dbo.hire') ORDER BY p.parameter_id"
    assert catalog.rows(parameters) == [("@name", "nvarchar", 80, 0), ("@id", "int", 4, 1)]
    assert catalog.rows(
        "SELECT parameter_name, parameter_mode, data_type FROM INFORMATION_SCHEMA.PARAMETERS ORDER BY ordinal_position"
    ) == [("@name", "IN", "nvarchar"), ("@id", "INOUT", "int")]
    [(text,)] = catalog.rows("SELECT definition FROM sys.sql_modules WHERE object_id = OBJECT_ID('dbo.hire')")
    assert text.startswith("CREATE PROCEDURE dbo.hire")


def test_names_of_parameters_keep_the_case_of_their_declaration(side):
    side.run("CREATE PROCEDURE dbo.P @MyId int, @Total int OUTPUT AS SET @total = @myID")
    names = [("@MyId",), ("@Total",)]
    for query in (
        "SELECT name FROM sys.parameters ORDER BY parameter_id",
        "SELECT name FROM sys.all_parameters ORDER BY parameter_id",
        "SELECT parameter_name FROM INFORMATION_SCHEMA.PARAMETERS ORDER BY ordinal_position",
    ):
        assert side.rows(query) == names
    output = Parameter("@TOTAL", INT, None, True)
    assert side.rpc("dbo.p", [Parameter("@MYID", INT, 3, False), output]).values == {
        "@TOTAL": 3
    }  # as the client has it
    assert "'@MyId'" in side.error("EXEC dbo.p").text
    assert "'@MyId'" in side.error("EXEC sp_executesql N'RETURN', N'@MyId int'").text
    assert side.error("EXEC sp_executesql N'RETURN', N'@MyId int, @myId int', 1, 2").number == 134


def test_the_version_names_its_number_where_clients_look_for_it(catalog):
    [(version,)] = catalog.rows("SELECT @@VERSION")
    assert version == "Microsoft SQL Server 2022, imitated by the Embedded Service Broker - 16.0.1000.6"


def test_constraints_keep_their_names(side):
    side.run(
        "CREATE TABLE dbo.named (a int CONSTRAINT DF_a DEFAULT 3, b int CONSTRAINT UQ_b UNIQUE, c int UNIQUE, d int DEFAULT 4, CONSTRAINT UQ_ac UNIQUE (a, c))"
    )
    side.crash()
    defaults = (
        "SELECT name, is_system_named FROM sys.default_constraints WHERE parent_object_id = OBJECT_ID('dbo.named')"
    )
    assert side.rows(f"USE db; {defaults}") == [("DF_a", 0), ("DF_named_d", 1)]
    keys = "SELECT name, is_system_named FROM sys.key_constraints WHERE parent_object_id = OBJECT_ID('dbo.named')"
    assert side.rows(keys) == [("UQ_b", 0), ("UQ_named_1", 1), ("UQ_ac", 0)]
    found = "SELECT name FROM sys.objects WHERE object_id = OBJECT_ID(name, type) AND OBJECT_NAME(object_id) = name"
    assert side.rows(
        f"{found} AND parent_object_id = OBJECT_ID('dbo.named') AND OBJECTPROPERTY(object_id, 'IsConstraint') = 1"
    ) == [*(("UQ_b",), ("UQ_named_1",), ("UQ_ac",), ("DF_a",), ("DF_named_d",))]
    assert side.rows("SELECT OBJECT_DEFINITION(OBJECT_ID('DF_a')), OBJECT_ID('UQ_b', 'PK')") == [("((3))", None)]
    side.run("INSERT dbo.named (b, c) VALUES (1, 1)")
    assert "'UQ_b'" in side.error("INSERT dbo.named (b, c) VALUES (1, 2)").text
    assert "'UQ_ac'" in side.error("INSERT dbo.named (b, c) VALUES (2, 1)").text


def test_objects_of_the_system_are_known_by_name_and_id(side):
    known = "OBJECT_ID(SCHEMA_NAME(schema_id) + '.' + name, type) = object_id AND OBJECT_NAME(object_id) = name"
    schema = "OBJECT_SCHEMA_NAME(object_id) = SCHEMA_NAME(schema_id)"
    unknown = f"SELECT name FROM sys.all_objects WHERE type <> 'IT' AND NOT ({known} AND {schema})"
    assert side.rows(f"{unknown} AND SCHEMA_NAME(schema_id) IN ('sys', 'INFORMATION_SCHEMA')") == []
    assert side.rows("SELECT OBJECT_ID('databases'), OBJECT_ID('sys.nosuch'), OBJECT_ID('sys.databases', 'U')") == [
        (None, None, None)
    ]


def test_output_has_the_values_of_its_types(side):
    text = "DECLARE @t TABLE (a decimal(5, 2), b char(4)); INSERT @t OUTPUT inserted.a, inserted.b VALUES (1.5, 'a')"
    assert side.rows(text) == [(Decimal("1.50"), "a   ")]


@pytest.mark.parametrize(
    ("name", "what", "value"),
    [
        ("dbo.people", "IsTable", 1),
        ("dbo.people", "isusertable", 1),
        ("dbo.people", "IsProcedure", 0),
        ("dbo.people", "IsMSShipped", 0),
        ("dbo.people", "TableHasPrimaryKey", 1),
        ("dbo.people", "TableHasIdentity", 1),
        ("dbo.people", "TableHasInsertTrigger", 1),
        ("dbo.people", "TableHasDeleteTrigger", 0),
        ("dbo.people", "ExecIsInsertTrigger", None),
        ("dbo.p", "IsProcedure", 1),
        ("dbo.p", "IsTable", 0),
        ("dbo.p", "OwnerId", 1),
        ("dbo.p", "nothing", None),
        ("dbo.tr", "IsTrigger", 1),
        ("dbo.tr", "IsProcedure", 0),
        ("dbo.tr", "ExecIsInsertTrigger", 1),
        ("dbo.tr", "ExecIsTriggerDisabled", 0),
        ("dbo.q", "IsQueue", 1),
        ("dbo.q", "IsMSShipped", 0),
        ("dbo.v", "IsView", 1),
        ("dbo.v", "IsTable", 0),
        ("dbo.f", "IsScalarFunction", 1),
        ("dbo.f", "IsTableFunction", 0),
        ("PK_people", "IsPrimaryKey", 1),
        ("dbo.people", "TableHasForeignKey", 0),
        ("dbo.missing", "IsTable", None),
    ],
)
def test_objectproperty(catalog, name, what, value):
    catalog.run("CREATE QUEUE dbo.q")
    catalog.run("CREATE PROCEDURE dbo.p AS SELECT 1")
    catalog.run("CREATE VIEW dbo.v AS SELECT 1 AS one")
    catalog.run("CREATE FUNCTION dbo.f () RETURNS int AS BEGIN RETURN 1 END")
    catalog.run("CREATE TRIGGER dbo.tr ON dbo.people AFTER INSERT AS PRINT 'inserted'")
    assert catalog.value(f"SELECT OBJECTPROPERTY(OBJECT_ID('{name}'), '{what}')") == value


def test_dbeaver_finds_tables_columns_keys_and_triggers(catalog):
    """Queries of its driver for SQL Server, as it puts them together for one schema."""
    catalog.run("CREATE TRIGGER dbo.noted ON dbo.people AFTER INSERT, DELETE AS RETURN")
    described = (
        "LEFT OUTER JOIN [db].[sys].[extended_properties] ep ON ep.class=1 AND ep.major_id={}.object_id "
        "AND ep.minor_id={} AND ep.name='MS_Description'"
    )
    tables = catalog.rows(
        f"SELECT o.name,ep.value as description FROM [db].[sys].[all_objects] o {described.format('o', 0)} "
        "WHERE o.type IN ('U','S','V','TT') AND o.schema_id = 1 ORDER BY o.name"
    )
    assert tables == [("loose", None), ("people", None)]
    columns = catalog.rows(
        "SELECT c.name,t.name as table_name,cc.is_persisted,COLUMNPROPERTY(c.object_id, c.name, 'charmaxlen'),dc.definition,"
        "ep.value FROM [db].[sys].[all_columns] c JOIN [db].[sys].[all_objects] t ON t.object_id=c.object_id "
        "LEFT OUTER JOIN [db].[sys].[default_constraints] dc ON dc.parent_object_id=t.object_id "
        f"AND dc.parent_column_id=c.column_id {described.format('t', 'c.column_id')} "
        "LEFT OUTER JOIN [db].[sys].[computed_columns] cc ON cc.object_id=t.object_id AND cc.column_id=c.column_id "
        "WHERE t.schema_id=1 ORDER BY c.object_id,c.column_id"
    )
    assert ("age", "people", None, None, "((18))", None) in columns
    assert ("name", "people", None, 40, None, None) in columns
    keys = catalog.rows(
        "SELECT i.is_primary_key,ic.key_ordinal,t.name FROM [db].[sys].[indexes] i, [db].[sys].[index_columns] ic, "
        "[db].[sys].[all_objects] t WHERE t.object_id = i.object_id AND ic.object_id=i.object_id AND ic.index_id=i.index_id "
        "AND t.schema_id = 1 ORDER BY i.object_id,i.index_id,ic.key_ordinal"
    )
    assert keys == [(True, 1, "people"), (False, 1, "people"), (False, 1, "people"), (False, 2, "people")]
    triggers = catalog.rows(
        "SELECT t.name, (SELECT STRING_AGG(te.type_desc, ', ') FROM [db].[sys].[trigger_events] te "
        "WHERE t.object_id = te.object_id) as trigger_type FROM [db].[sys].[triggers] t,[db].[sys].[all_objects] o "
        "WHERE o.object_id=t.object_id AND o.schema_id=1 ORDER BY t.name"
    )
    assert triggers == [("noted", "INSERT, DELETE")]


def test_schemas_are_created_shown_kept_and_dropped(side):
    for create in ("TABLE app.t2 (a int)", "QUEUE app.q", "PROCEDURE app.p AS SELECT 1"):
        error = side.error(f"CREATE {create}")
        assert (error.number, "app" in error.text) == (2760, True)
    side.run("CREATE USER u WITHOUT LOGIN")
    side.run("CREATE SCHEMA App AUTHORIZATION u")
    assert side.error("CREATE SCHEMA app").number == 2714
    side.run("CREATE TABLE app.t2 (a int); CREATE QUEUE app.q")
    side.run("CREATE PROCEDURE app.p AS SELECT SCHEMA_NAME(SCHEMA_ID('app'))")
    side.crash()
    side.run("USE db")
    assert side.value("EXEC app.p") == "App"
    shown = "SELECT s.name, o.name FROM sys.objects o JOIN sys.schemas s ON s.schema_id = o.schema_id WHERE s.schema_id > 4 ORDER BY 2"
    assert side.rows(shown) == [("App", "p"), ("App", "q"), ("App", "t2")]
    assert side.rows("SELECT table_schema FROM INFORMATION_SCHEMA.TABLES WHERE table_name = 't2'") == [("App",)]
    assert side.rows("SELECT schema_owner FROM INFORMATION_SCHEMA.SCHEMATA WHERE schema_name = 'app'") == [("u",)]
    assert side.error("DROP SCHEMA app").number == 3729
    side.run("DROP TABLE app.t2; DROP QUEUE app.q; DROP PROCEDURE app.p; DROP SCHEMA app; DROP SCHEMA IF EXISTS app")
    assert [side.error(f"DROP SCHEMA {name}").number for name in ("app", "sys")] == [15151, 15150]


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("CREATE TABLE dbo.other (a int) ON nosuch", 1921),
        ("CREATE QUEUE dbo.q ON nosuch", 1921),
        ("CREATE TABLE dbo.other (a int, CONSTRAINT k UNIQUE (a) WITH (IGNORE_DUP_KEY = ON))", 50001),
        ("CREATE TABLE dbo.other (a int, INDEX i (a) WITH (DROP_EXISTING = ON))", 50001),
        ("CREATE TABLE dbo.other (a int PRIMARY KEY WITH (FILFACTOR = 80))", 155),
        ("CREATE TABLE dbo.other (a int PRIMARY KEY WITH (FILLFACTOR = 101))", 129),
        ("CREATE TABLE dbo.other (a int PRIMARY KEY WITH (FILLFACTOR = 80 PAD_INDEX = ON))", 102),
        ("CREATE TABLE dbo.other (a int PRIMARY KEY WITH (MAXDOP = ON))", 156),
    ],
)
def test_what_would_change_a_table_is_not_ignored(side, text, number):
    assert side.error(text).number == number
    side.run(
        "CREATE TABLE dbo.other (a int PRIMARY KEY WITH (IGNORE_DUP_KEY = OFF, PAD_INDEX = ON), b int UNIQUE WITH FILLFACTOR = 80) ON [PRIMARY] TEXTIMAGE_ON [PRIMARY]"
    )
