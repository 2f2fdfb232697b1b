"""Files and extended properties of databases, options of an instance, and the scripts that change them."""

import pytest

from harness.embedded.tsql.instance.instance import Usage
from tests.embedded.tsql.sides import Side, World

FILES = "SELECT name, type_desc, size, growth, is_percent_growth FROM sys.database_files ORDER BY file_id;"


@pytest.fixture
def side() -> Side:
    side = World().side("Target")
    side.run("CREATE DATABASE db; USE db;")
    return side


def test_a_new_database_has_a_data_file_and_a_log_file(side):
    assert side.rows(FILES) == [("db", "ROWS", 1024, 8192, False), ("db_log", "LOG", 1024, 8192, False)]
    assert side.value("SELECT COUNT(*) FROM sys.master_files WHERE database_id = DB_ID('db');") == 2


def test_added_and_modified_files_survive_a_crash(side):
    side.run("USE tempdb; ALTER DATABASE tempdb MODIFY FILE (NAME = N'tempdev', SIZE = 16MB, FILEGROWTH = 10%);")
    side.run("ALTER DATABASE tempdb ADD FILE (NAME = more, FILENAME = '/tmp/more.ndf', SIZE = 64KB);")
    side.run("ALTER DATABASE tempdb ADD LOG FILE (NAME = [more log], FILENAME = '/tmp/more.ldf', SIZE = 1GB);")
    files = side.rows(FILES)
    assert files[0] == ("tempdev", "ROWS", 2048, 10, True)
    assert [(name, size) for name, _, size, _, _ in files[2:]] == [("more", 8), ("more log", 131072)]
    side.crash()
    side.run("USE tempdb;")
    assert side.rows(FILES) == files


@pytest.mark.parametrize(
    "statement, number",
    [
        ("ALTER DATABASE db MODIFY FILE (NAME = db, SIZE = 8MB);", 5039),
        ("ALTER DATABASE db MODIFY FILE (NAME = db);", 5038),
        ("ALTER DATABASE db MODIFY FILE (NAME = other, SIZE = 80MB);", 5041),
        ("ALTER DATABASE tempdb ADD FILE (NAME = TEMPDEV, FILENAME = 'x');", 1828),
        ("ALTER DATABASE db ADD FILE (NAME = x, FILENAME = 'x');", 50001),
        ("ALTER DATABASE CURRENT ADD LOG FILE (NAME = x, FILENAME = 'x');", 50001),
        ("ALTER DATABASE db ADD FILE (NAME = x);", 102),
        ("BEGIN TRANSACTION; ALTER DATABASE db MODIFY FILE (NAME = db, SIZE = 80MB);", 226),
        ("EXEC sp_configure 'clr enabled', 1;", 50001),
        ("EXEC sp_configure 'remote', 1;", 50001),
        ("EXEC sp_configure 'remote admin', 2;", 15129),
        ("BEGIN TRANSACTION; RECONFIGURE;", 574),
    ],
)
def test_invalid_changes_have_sql_servers_error_numbers(side, statement, number):
    assert side.error(statement).number == number


def test_dropping_a_database_drops_its_files(side):
    side.run("ALTER DATABASE db MODIFY FILE (NAME = db, SIZE = 16MB);")
    side.run("USE master; DROP DATABASE db; CREATE DATABASE db; USE db;")
    assert side.rows(FILES)[0][2] == 1024


def test_an_option_takes_effect_after_reconfigure_and_after_a_restart(side):
    text = "SELECT value, value_in_use FROM sys.configurations WHERE name = 'remote admin connections';"
    assert side.rows(text) == [(0, 0)]
    messages = side.run("EXEC sp_configure 'remote admin connections', 1;").messages
    assert [(one.number, one.severity) for one in messages] == [(15457, 0)]
    assert side.rows(text) == [(1, 0)]
    side.run("RECONFIGURE;")
    assert side.rows(text) == [(1, 1)]
    side.crash()
    assert side.rows(text) == [(1, 1)]
    option = ("remote admin connections", 0, 1, 1, 1)
    assert side.rows("EXEC sp_configure 'remote admin connections';") == [option]
    assert option in side.rows("EXEC sp_configure;")


# -- extended properties ------------------------------------------------------------------------------------------------

PROPERTIES = "SELECT name, value FROM sys.extended_properties WHERE class = 0 ORDER BY name;"


def test_a_property_belongs_to_one_database_and_can_be_added_once(side):
    side.run("EXEC sys.sp_addextendedproperty @name = N'mark', @value = N'made';")
    assert side.rows(PROPERTIES) == [("mark", "made")]
    assert side.rows("USE master; " + PROPERTIES) == []
    side.run("USE db;")
    assert side.error("EXEC sp_addextendedproperty N'MARK', N'again';").number == 15233


def test_a_rollback_removes_an_added_property(side):
    side.run("BEGIN TRAN; EXEC sys.sp_addextendedproperty N'a', N'1'; ROLLBACK;")
    assert side.rows(PROPERTIES) == []


def test_a_property_can_be_dropped_once_and_a_rollback_keeps_it(side):
    side.run("EXEC sys.sp_addextendedproperty N'mark', N'made';")
    side.run("BEGIN TRAN; EXEC sys.sp_dropextendedproperty @name = N'MARK'; ROLLBACK;")
    assert side.rows(PROPERTIES) == [("mark", "made")]
    side.run("EXEC sys.sp_dropextendedproperty @name = N'MARK';")
    assert side.rows(PROPERTIES) == []
    error = side.error("EXEC sys.sp_dropextendedproperty N'mark';")
    assert (error.number, error.text) == (
        15217,
        "Property cannot be updated or deleted. Property 'mark' does not exist for 'object specified'.",
    )
    side.crash()
    assert side.rows("USE db; " + PROPERTIES) == []


def test_a_property_survives_a_crash_and_is_dropped_with_its_database(side):
    side.run("EXEC sys.sp_addextendedproperty N'a', N'1';")
    side.crash()
    assert side.rows("USE db; " + PROPERTIES) == [("a", "1")]
    side.run("USE master; DROP DATABASE db; CREATE DATABASE db; USE db;")
    assert side.rows(PROPERTIES) == []


def test_the_modules_and_properties_of_other_databases_outlive_a_dropped_one(side):
    side.run("EXEC sys.sp_addextendedproperty N'a', N'1'; EXEC(N'CREATE PROCEDURE dbo.kept AS SELECT 1');")
    side.run("CREATE DATABASE spare; EXEC(N'USE spare; EXEC(N''CREATE PROCEDURE dbo.gone AS SELECT 2'')');")
    side.run("DROP DATABASE spare; CREATE DATABASE spare;")
    assert side.error("EXEC spare.dbo.gone").number == 2812
    assert side.value("EXEC dbo.kept") == 1 and side.rows(PROPERTIES) == [("a", "1")]


def test_a_property_may_be_given_as_a_number(side):
    side.run("EXEC sys.sp_addextendedproperty 1.5, 2")
    assert side.rows(PROPERTIES) == [("1.5", "2")]
    side.run("EXEC sys.sp_dropextendedproperty 1.5")
    assert side.rows(PROPERTIES) == []


def test_parts_of_a_database_cannot_have_properties(side):
    error = side.error("EXEC sys.sp_addextendedproperty N'a', N'1', N'SCHEMA', N'dbo';")
    assert "sp_addextendedproperty with more than 2 parameters" in error.text


def test_one_batch_can_create_a_database_and_add_a_property_to_it(side):
    side.run("CREATE DATABASE made; EXECUTE (N'USE made; EXEC sys.sp_addextendedproperty N''mark'', N''made'';');")
    assert side.value("SELECT DB_NAME();") == "db"
    assert side.rows("USE made; " + PROPERTIES) == [("mark", "made")]


# -- scripts -----------------------------------------------------------------------------------------------------------


def test_the_files_of_a_lab_only_grow(side):
    for size in ("32", "16"):
        side.script("common/files.sql", Database="db", DataSizeMb=size, LogSizeMb="64")
        assert [(row[2], row[3]) for row in side.rows(FILES)] == [(4096, 32768), (8192, 32768)]


def test_tempdb_gets_a_data_file_of_the_same_size_for_each_core(side):
    side.instance.usage = lambda: Usage(cpu_count=4)
    for _ in range(2):
        side.script("container/tempdb.sql", TempdbSizeMb="512")
        files = side.rows(FILES)
        assert [(kind, size) for _, kind, size, _, _ in files] == [
            ("ROWS", 16384),
            ("LOG", 32768),
            *[("ROWS", 16384)] * 3,
        ]


def test_the_other_container_scripts_can_run_twice(side):
    for _ in range(2):
        side.script("container/remote_admin_connections.sql")
        assert side.script("container/ready.sql")[-1].sets[0][1] == [(0,)]
        side.script("container/drop_database.sql", Database="db")
    assert side.value("SELECT DB_ID('db');") is None


def test_a_database_shows_its_properties(side):
    side.run("ALTER DATABASE db SET RECOVERY FULL")
    names = ("Recovery", "Status", "updateability", "UserAccess", "IsAutoClose", "nosuch")
    values = [side.value(f"SELECT DATABASEPROPERTYEX('db', '{name}')") for name in names]
    assert values == ["FULL", "ONLINE", "READ_WRITE", "MULTI_USER", "0", None]
    assert side.value("SELECT DATABASEPROPERTYEX('nosuch', 'Status')") is None
    assert side.value("SELECT FULLTEXTSERVICEPROPERTY('IsFullTextInstalled')") == 0


# What SSMS writes behind CREATE DATABASE, as it stands in many published scripts
SSMS = """
    ANSI_NULL_DEFAULT OFF, ANSI_NULLS OFF, ANSI_PADDING OFF, ANSI_WARNINGS OFF, ARITHABORT OFF, AUTO_CLOSE OFF,
    AUTO_CREATE_STATISTICS ON, AUTO_SHRINK OFF, AUTO_UPDATE_STATISTICS ON, CURSOR_CLOSE_ON_COMMIT OFF, CURSOR_DEFAULT GLOBAL,
    CONCAT_NULL_YIELDS_NULL OFF, NUMERIC_ROUNDABORT OFF, QUOTED_IDENTIFIER OFF, RECURSIVE_TRIGGERS OFF, DISABLE_BROKER,
    AUTO_UPDATE_STATISTICS_ASYNC OFF, DATE_CORRELATION_OPTIMIZATION OFF, TRUSTWORTHY OFF, ALLOW_SNAPSHOT_ISOLATION OFF,
    PARAMETERIZATION SIMPLE, READ_COMMITTED_SNAPSHOT OFF, HONOR_BROKER_PRIORITY OFF, READ_WRITE, RECOVERY FULL, MULTI_USER,
    PAGE_VERIFY CHECKSUM, DB_CHAINING OFF, FILESTREAM( NON_TRANSACTED_ACCESS = OFF ), TARGET_RECOVERY_TIME = 60 SECONDS,
    DELAYED_DURABILITY = DISABLED, QUERY_STORE = OFF
"""


def test_what_ssms_writes_of_a_database_is_accepted_shown_and_kept(side):
    side.run("CREATE DATABASE shown")
    for option in SSMS.split(","):
        side.run(f"ALTER DATABASE [shown] SET {option.strip()}")
    side.run("ALTER DATABASE shown SET ARITHABORT ON, PARAMETERIZATION FORCED")
    side.crash()
    columns = (
        "is_arithabort_on, is_parameterization_forced, is_ansi_nulls_on, is_auto_create_stats_on, is_db_chaining_on"
    )
    assert side.rows(f"SELECT {columns} FROM sys.databases WHERE name = 'shown'") == [(1, 1, 0, 1, 0)]
    for option in ("NUMERIC_ROUNDABORT ON", "CURSOR_DEFAULT LOCAL", "DB_CHAINING ON", "RECURSIVE_TRIGGERS ON"):
        assert side.error(f"ALTER DATABASE shown SET {option}").number == 50001
