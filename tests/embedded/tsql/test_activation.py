"""Activation procedures: their session, their output, and how they fail."""

from __future__ import annotations

import pytest

READER = """CREATE PROCEDURE dbo.Reader AS
BEGIN
    DECLARE @b varbinary(max), @n int = 0;
    PRINT N'spid ' + CAST(@@SPID AS nvarchar(10));
    BEGIN TRANSACTION;
    RECEIVE TOP (1) @b = message_body FROM dbo.q;
    %s
    COMMIT TRANSACTION;
END"""


@pytest.fixture
def send(side):
    side.run("CREATE QUEUE dbo.q; CREATE SERVICE S ON QUEUE dbo.q ([DEFAULT])")

    def send(body: str = "x"):
        side.run(
            "DECLARE @h uniqueidentifier; BEGIN DIALOG @h FROM SERVICE S TO SERVICE 'S' WITH ENCRYPTION = OFF; "
            f"SEND ON CONVERSATION @h (N'{body}')"
        )

    return send


def activate(side, procedure):
    side.run(procedure)
    side.run(
        "ALTER QUEUE dbo.q WITH ACTIVATION (STATUS = ON, PROCEDURE_NAME = dbo.Reader, MAX_QUEUE_READERS = 2, EXECUTE AS OWNER)"
    )


def test_an_activated_procedure_runs_in_a_system_session_of_the_database(side, send):
    activate(side, READER % "INSERT dbo.t (n, name) VALUES (@@SPID, DB_NAME());")
    send()
    side.world.run_for(1)
    [(spid, name)] = side.rows("SELECT DISTINCT n, name FROM dbo.t WHERE id = 1")
    assert spid < 51 and name == "db"
    assert list(side.instance.sessions) == [side.session.spid]


def test_output_of_an_activated_procedure_goes_to_the_error_log(side, send):
    activate(side, READER % "SELECT 1 AS discarded;")
    send()
    side.world.run_for(1)
    assert any(
        "The activated proc '[dbo].[Reader]' running on queue 'db.dbo.q' output the following:" in line
        and "spid " in line
        for line in side.engine.error_log.lines
    )


def test_a_transaction_left_open_is_error_8415(side, send):
    activate(side, (READER % "INSERT dbo.t (n) VALUES (1);").replace("COMMIT TRANSACTION;", ""))
    send()
    side.world.run_for(0.5)
    assert any("did not issue COMMIT or ROLLBACK" in line for line in side.engine.error_log.lines)
    assert side.rows("SELECT * FROM dbo.t") == []


def test_the_views_show_a_running_reader(side, send):
    activate(side, READER % "WAITFOR DELAY '00:00:02';")
    send()
    side.world.run_for(1)
    rows = side.rows(
        "SELECT t.procedure_name, s.is_user_process, s.open_transaction_count FROM sys.dm_broker_activated_tasks t JOIN sys.dm_exec_sessions s ON s.session_id = t.spid"
    )
    assert rows == [("[db].[dbo].[Reader]", 0, 1)]
    side.world.run_for(5)  # the task calls it once more, as its RECEIVE brought a row
    assert side.value("SELECT COUNT(*) FROM sys.dm_broker_activated_tasks") == 0


def test_the_log_names_a_missing_procedure(side, send):
    side.run(
        "ALTER QUEUE dbo.q WITH ACTIVATION (STATUS = ON, PROCEDURE_NAME = dbo.Missing, MAX_QUEUE_READERS = 1, EXECUTE AS OWNER)"
    )
    send()
    side.world.run_for(1)
    assert any("Could not find stored procedure" in line for line in side.engine.error_log.lines)


def test_a_procedure_with_parameters_cannot_be_activated(side, send):
    side.run("CREATE PROCEDURE dbo.Reader @a int AS SELECT 1")
    error = side.error(
        "ALTER QUEUE dbo.q WITH ACTIVATION (STATUS = ON, PROCEDURE_NAME = dbo.Reader, MAX_QUEUE_READERS = 1, EXECUTE AS OWNER)"
    )
    assert error.number == 9653
