"""The error log: what activated procedures print, raise WITH LOG or leave uncaught, and who may read it."""

import pytest

from tests.embedded.tsql.test_permissions import as_login

READER = """
CREATE PROCEDURE dbo.Reader AS
BEGIN
    BEGIN TRANSACTION;
    DECLARE @body nvarchar(100);
    RECEIVE TOP (1) @body = CAST(message_body AS nvarchar(100)) FROM dbo.q;
    %s
    COMMIT TRANSACTION;
END;
"""


@pytest.fixture
def sent(side):
    """Run statements in an activated procedure, which a message starts; return the rows of the error log."""

    def run(statements: str) -> list[tuple[str, str]]:
        side.run("CREATE QUEUE dbo.q; CREATE SERVICE S ON QUEUE dbo.q ([DEFAULT])")
        side.run(READER % statements)
        side.run(
            "ALTER QUEUE dbo.q WITH ACTIVATION (STATUS = ON, PROCEDURE_NAME = dbo.Reader, MAX_QUEUE_READERS = 1, "
            "EXECUTE AS OWNER)"
        )
        side.run(
            "DECLARE @h uniqueidentifier; BEGIN DIALOG @h FROM SERVICE S TO SERVICE 'S' WITH ENCRYPTION = OFF; "
            "SEND ON CONVERSATION @h (N'x')"
        )
        side.world.run_for(0.09)
        return log(side)

    return run


def log(side, *arguments: object) -> list[tuple[str, str]]:
    [(columns, rows)] = side.call("sp_readerrorlog", *arguments).sets
    assert [column.name for column in columns] == ["LogDate", "ProcessInfo", "Text"]
    return [(process, text) for _, process, text in rows]


def test_what_an_activated_procedure_prints_is_one_entry_whatever_it_contains(side, sent):
    [(process, text), *_] = sent("PRINT N'a' + CHAR(13) + CHAR(10) + N'2026-01-01 00:00:00.00 Server forged';")
    assert process.startswith("spid") and process.endswith("s")
    assert "The activated proc '[dbo].[Reader]' running on queue 'db.dbo.q'" in text
    assert r"a\r\n2026-01-01 00:00:00.00 Server forged" in text and "\n" not in text


def test_an_uncaught_error_of_an_activated_procedure_is_an_entry(side, sent):
    entries = sent("IF @body = N'x' SELECT * FROM dbo.missing;")
    assert any("Invalid object name 'dbo.missing'" in text for _, text in entries)


def test_raiserror_with_log_is_two_entries(side):
    side.run("RAISERROR (N'disk %d', 10, 7, 5) WITH LOG")
    side.results("RAISERROR (N'bad', 16, 2) WITH LOG, NOWAIT")
    texts = [text for _, text in log(side)]
    assert texts == ["Error: 50000, Severity: 10, State: 7.", "disk 5", "Error: 50000, Severity: 16, State: 2.", "bad"]
    assert {process for process, _ in log(side)} == {f"spid{side.session.spid}"}


def test_raiserror_with_log_needs_a_right_that_a_database_user_lacks_unless_its_database_is_trusted(side, sent):
    entries = sent("RAISERROR (N'bad', 16, 2) WITH LOG;")
    assert any("Only System Administrator can specify WITH LOG option" in text for _, text in entries)
    assert all(text != "bad" for _, text in entries)
    side.run("ALTER DATABASE db SET TRUSTWORTHY ON")
    side.run(
        "DECLARE @h uniqueidentifier; BEGIN DIALOG @h FROM SERVICE S TO SERVICE 'S' WITH ENCRYPTION = OFF; "
        "SEND ON CONVERSATION @h (N'x')"
    )
    side.world.run_for(10)
    assert any(text == "bad" for _, text in log(side))


def test_a_severity_above_18_needs_with_log(side):
    assert side.error("RAISERROR (N'bad', 19, 1)").number == 2754


def test_the_log_is_searched_for_two_texts(side):
    for text in ("one two", "one", "two"):
        side.run(f"RAISERROR (N'{text}', 1, 1) WITH LOG")
    assert [text for _, text in log(side, 0, 1, "ONE")] == ["one two", "one"]
    assert [text for _, text in log(side, 0, 1, "one", "two")] == ["one two"]
    assert side.results("EXEC master..xp_readerrorlog 0, 1, N'one'").sets[0][1][0][2] == "one two"
    assert "another log" in side.error("EXEC sp_readerrorlog 1").text


@pytest.mark.parametrize(("version", "permission"), [("2019", "VIEW SERVER STATE"), ("2022", "VIEW ANY ERROR LOG")])
def test_only_who_may_see_the_state_of_the_server_reads_the_log(world, version, permission):
    side = world.side("Here", version)
    side.run("CREATE LOGIN l WITH PASSWORD = 'Secret-word-1'")
    session = as_login(side, "l", "master")
    assert side.error("EXEC sp_readerrorlog", session).number == 300
    side.run(f"GRANT {permission} TO l")
    assert side.results("EXEC sp_readerrorlog", session).errors == []


def test_a_row_of_t_sql_that_cannot_be_read_counts_as_set_aside_and_is_named(side):
    [key] = [key for key in side.store.rows if key[0] == "tsql.tables"]
    side.store.rows[key] = (1,)
    side.crash()
    assert side.engine.rows_set_aside == 1 and "cannot read tsql.tables" in side.engine.error_log.lines[0]
