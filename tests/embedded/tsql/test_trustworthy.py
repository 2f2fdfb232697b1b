"""TRUSTWORTHY: what a database user may do outside its database, and dialogs from one database to another."""

import pytest

from harness.embedded.tsql.statements.databases import DATABASE_OPTIONS
from tests.embedded.tsql.sides import Side, World
from tests.embedded.tsql.test_permissions import as_login

SET_UP = """
CREATE DATABASE here;
GO
CREATE DATABASE there;
GO
USE there; CREATE TABLE dbo.called (body nvarchar(100) NULL);
CREATE QUEUE dbo.target; CREATE SERVICE Target ON QUEUE dbo.target ([DEFAULT]);
GO
CREATE PROCEDURE dbo.note AS INSERT dbo.called (body) VALUES (N'called');
GO
USE here; CREATE TABLE dbo.reached (body nvarchar(100) NULL);
CREATE QUEUE dbo.initiator; CREATE SERVICE Initiator ON QUEUE dbo.initiator ([DEFAULT]);
GO
CREATE PROCEDURE dbo.reader AS
BEGIN
    BEGIN TRANSACTION;
    DECLARE @body varbinary(max);
    RECEIVE TOP (1) @body = message_body FROM dbo.initiator;
    INSERT dbo.reached (body) VALUES (N'received');
    EXEC there..note;
    INSERT dbo.reached (body) VALUES (N'after the call');
    COMMIT TRANSACTION;
END;
GO
ALTER QUEUE dbo.initiator WITH ACTIVATION
    (STATUS = ON, PROCEDURE_NAME = dbo.reader, MAX_QUEUE_READERS = 1, EXECUTE AS OWNER);
"""
SEND = """
DECLARE @h uniqueidentifier;
BEGIN DIALOG @h FROM SERVICE Initiator TO SERVICE '%s' ON CONTRACT [DEFAULT] WITH ENCRYPTION = OFF;
SEND ON CONVERSATION @h (N'x');
"""
NOT_ABLE = 'The server principal "sa" is not able to access the database "there" under the current security context.'


@pytest.fixture
def side() -> Side:
    return World().side("Here", set_up=SET_UP)


def test_the_options_of_a_database_are_shown_and_survive_a_crash(world, side):
    options = "SELECT is_trustworthy_on, is_read_committed_snapshot_on, compatibility_level FROM sys.databases"
    assert side.rows(f"{options} WHERE name = 'here'") == [(0, 0, 170)]
    assert side.rows(f"{options} WHERE name = 'msdb'") == [(1, 0, 170)]
    for option in ("TRUSTWORTHY ON", "READ_COMMITTED_SNAPSHOT ON", "COMPATIBILITY_LEVEL = 100"):
        side.run(f"ALTER DATABASE here SET {option}")
    side.world.run_for(1)
    side.crash()
    assert side.rows(f"{options} WHERE name = 'here'") == [(1, 1, 100)]
    refused = side.error("ALTER DATABASE here SET COMPATIBILITY_LEVEL = 90")
    assert (refused.number, refused.severity) == (15048, 16)
    assert (
        refused.text == "Valid values of the database compatibility level are 100, 110, 120, 130, 140, 150, 160 or 170."
    )
    refused = world.side("Old", "2008").error("ALTER DATABASE msdb SET COMPATIBILITY_LEVEL = 110")
    assert refused.text == "Valid values of the database compatibility level are 80, 90, or 100."
    side.run("ALTER DATABASE here SET TRUSTWORTHY OFF; ALTER DATABASE here SET READ_COMMITTED_SNAPSHOT OFF")
    assert side.rows(f"{options} WHERE name = 'here'") == [(0, 0, 100)]


def test_options_on_which_nothing_depends_are_shown_as_they_were_set_and_survive_a_crash(side):
    shown = (
        "SELECT recovery_model, recovery_model_desc, delayed_durability, delayed_durability_desc, is_query_store_on, "
        "is_accelerated_database_recovery_on, snapshot_isolation_state_desc, is_auto_close_on, is_auto_shrink_on "
        "FROM sys.databases WHERE name = 'here'"
    )
    assert side.rows(shown) == [(3, "SIMPLE", 0, "DISABLED", 0, 0, "OFF", 0, 0)]
    side.run(
        "ALTER DATABASE here SET RECOVERY FULL; ALTER DATABASE here SET DELAYED_DURABILITY = FORCED;"
        "ALTER DATABASE here SET QUERY_STORE = ON, ACCELERATED_DATABASE_RECOVERY = ON;"
        "ALTER DATABASE here SET ALLOW_SNAPSHOT_ISOLATION ON, AUTO_CLOSE ON, AUTO_SHRINK ON"
    )
    side.world.run_for(1)
    side.crash()
    assert side.rows(shown) == [(1, "FULL", 2, "FORCED", 1, 1, "ON", 1, 1)]
    side.run("ALTER DATABASE here SET ACCELERATED_DATABASE_RECOVERY = OFF WITH ROLLBACK IMMEDIATE")
    assert side.rows(shown) == [(1, "FULL", 2, "FORCED", 1, 0, "ON", 1, 1)]


OTHER_VALUES = {
    **dict.fromkeys(("DISABLE_BROKER", "NEW_BROKER", "SINGLE_USER"), ""),
    **dict.fromkeys(("ALLOW_SNAPSHOT_ISOLATION", "AUTO_CLOSE", "AUTO_SHRINK", "HONOR_BROKER_PRIORITY"), "ON"),
    **dict.fromkeys(("READ_COMMITTED_SNAPSHOT", "TRUSTWORTHY"), "ON"),
    **dict.fromkeys(("ANSI_NULL_DEFAULT", "ANSI_NULLS", "ANSI_PADDING", "ANSI_WARNINGS", "ARITHABORT"), "ON"),
    **dict.fromkeys(("CONCAT_NULL_YIELDS_NULL", "DATE_CORRELATION_OPTIMIZATION", "QUOTED_IDENTIFIER"), "ON"),
    **dict.fromkeys(("AUTO_CREATE_STATISTICS", "AUTO_UPDATE_STATISTICS"), "OFF"),
    "AUTO_UPDATE_STATISTICS_ASYNC": "ON",
    "PARAMETERIZATION": "FORCED",
    "ACCELERATED_DATABASE_RECOVERY": "= ON",
    "COMPATIBILITY_LEVEL": "= 100",
    "DELAYED_DURABILITY": "= FORCED",
    "PAGE_VERIFY": "NONE",
    "QUERY_STORE": "= ON",
    "RECOVERY": "FULL",
}
USUAL = {
    "CURSOR_CLOSE_ON_COMMIT",
    "CURSOR_DEFAULT",
    "DB_CHAINING",
    "ENABLE_BROKER",
    "ERROR_BROKER_CONVERSATIONS",
    "FILESTREAM",
    "MULTI_USER",
    "NUMERIC_ROUNDABORT",
    "READ_WRITE",
    "RECURSIVE_TRIGGERS",
    "TARGET_RECOVERY_TIME",
}


def test_every_option_that_is_set_shows_in_sys_databases_and_survives_a_crash(side):
    assert {*OTHER_VALUES, *USUAL} == set(DATABASE_OPTIONS)
    query = "SELECT * FROM sys.databases WHERE name = 'here'"
    before = side.rows(query)
    for option, value in OTHER_VALUES.items():
        side.run(f"ALTER DATABASE here SET {option} {value}")
        before, old = side.rows(query), before
        assert before != old, option
    access = "SELECT user_access, user_access_desc, page_verify_option, page_verify_option_desc FROM sys.databases"
    assert side.rows(f"{access} WHERE name = 'here'") == [(1, "SINGLE_USER", 0, "NONE")]
    side.world.run_for(1)
    side.crash()
    assert side.rows(query) == before
    side.run("ALTER DATABASE here SET MULTI_USER, PAGE_VERIFY CHECKSUM")
    assert side.rows(f"{access} WHERE name = 'here'") == [(0, "MULTI_USER", 2, "CHECKSUM")]


def test_only_a_sysadmin_makes_a_database_trustworthy(side):
    side.run("CREATE LOGIN ann WITH PASSWORD = 'Secret-word-1'")
    side.run("ALTER AUTHORIZATION ON DATABASE::here TO ann")
    ann = as_login(side, "ann", "here")
    assert side.error("ALTER DATABASE here SET TRUSTWORTHY ON", ann).number == 15247
    side.run("ALTER DATABASE here SET READ_COMMITTED_SNAPSHOT ON WITH ROLLBACK IMMEDIATE", ann)


def test_an_activated_call_into_another_database_fails_and_rolls_back(side):
    side.run("USE here;" + SEND % "Initiator")
    side.world.run_for(0.05)
    assert side.rows("SELECT body FROM here.dbo.reached") == []
    assert side.value("SELECT COUNT(*) FROM here.dbo.initiator") == 1, "the message is back in its queue"
    assert any(NOT_ABLE in line for line in side.engine.error_log.lines)
    side.world.run_for(60)
    assert side.value("SELECT is_receive_enabled FROM here.sys.service_queues WHERE name = 'initiator'") == 0, (
        "five rollbacks are a poison message"
    )


def test_an_activated_call_into_another_database_works_if_its_own_is_trustworthy(side):
    side.run("ALTER DATABASE here SET TRUSTWORTHY ON")
    side.run("USE here;" + SEND % "Initiator")
    side.world.run_for(1)
    assert set(side.rows("SELECT body FROM here.dbo.reached")) == {("received",), ("after the call",)}
    assert ("called",) in side.rows("SELECT body FROM there.dbo.called")


def test_a_message_to_another_database_waits_until_its_own_is_trustworthy(side):
    side.run("USE here;" + SEND % "Target")
    side.world.run_for(1)
    assert side.value("SELECT COUNT(*) FROM there.dbo.target") == 0
    status = side.value("SELECT transmission_status FROM here.sys.transmission_queue")
    assert status == (
        "An exception occurred while enqueueing a message in the target queue. Error: 916, State: 3. " + NOT_ABLE
    )
    side.run("ALTER DATABASE here SET TRUSTWORTHY ON")
    side.world.run_for(1)
    assert side.value("SELECT COUNT(*) FROM there.dbo.target") == 1
    assert side.rows("SELECT * FROM here.sys.transmission_queue") == []


def test_a_reply_comes_back_though_the_targets_database_is_not_trustworthy(side):
    side.run("ALTER DATABASE here SET TRUSTWORTHY ON; ALTER QUEUE here.dbo.initiator WITH ACTIVATION (DROP)")
    side.run("USE here;" + SEND % "Target")
    side.world.run_for(1)
    side.run(
        "USE there; DECLARE @h uniqueidentifier; RECEIVE @h = conversation_handle FROM dbo.target;"
        "SEND ON CONVERSATION @h (N'y');"
    )
    side.world.run_for(1)
    assert side.value("SELECT COUNT(*) FROM here.dbo.initiator") == 1


def test_the_owner_of_a_trustworthy_database_must_be_trusted_in_the_other(side):
    side.run("CREATE LOGIN ann WITH PASSWORD = 'Secret-word-1'")
    side.run("ALTER DATABASE here SET TRUSTWORTHY ON; ALTER AUTHORIZATION ON DATABASE::here TO ann")
    side.run("USE here;" + SEND % "Target")
    side.world.run_for(1)
    assert '"ann" is not able to access' in side.value("SELECT transmission_status FROM here.sys.transmission_queue")
    side.run("ALTER AUTHORIZATION ON DATABASE::there TO ann")
    side.world.run_for(70)
    assert side.value("SELECT COUNT(*) FROM there.dbo.target") == 1


def test_a_permission_that_is_revoked_holds_for_the_next_message_of_a_dialog(side):
    side.run("CREATE LOGIN ann WITH PASSWORD = 'Secret-word-1'; ALTER DATABASE here SET TRUSTWORTHY ON")
    side.run("USE there; CREATE USER ann; GRANT SEND ON SERVICE::Target TO ann")
    side.run("USE here; CREATE USER ann; CREATE SERVICE Anns AUTHORIZATION ann ON QUEUE dbo.initiator")
    side.run((SEND % "Target").replace("Initiator", "Anns"))
    side.world.run_for(1)
    send = "DECLARE @h uniqueidentifier = (SELECT conversation_handle FROM here.sys.conversation_endpoints); SEND ON CONVERSATION @h (N'y')"
    count = "SELECT COUNT(*) FROM there.dbo.target"
    assert side.value(count) == 1
    side.run("USE there; REVOKE SEND ON SERVICE::Target TO ann")
    side.run("USE here;" + send)
    side.world.run_for(1)
    assert side.value(count) == 1
    assert "Error: 8494" in side.value("SELECT transmission_status FROM here.sys.transmission_queue")
    side.run("USE there; GRANT SEND ON SERVICE::Target TO ann")
    side.world.run_for(1)
    assert side.value(count) == 2
