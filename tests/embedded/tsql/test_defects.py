"""A defect inside one statement is an error of that statement. `broken` makes LEN one."""

import pytest

from harness.embedded.errors import DEFECT
from harness.embedded.tsql.statements import batches
from harness.embedded.tsql.storage.tables import Table
from harness.embedded.tsql.translation import functions
from harness.embedded.tsql.translation.functions.kinds import Function

QUEUE = "CREATE QUEUE dbo.q; CREATE SERVICE S ON QUEUE dbo.q ([DEFAULT])"
SEND = (
    "DECLARE @h uniqueidentifier; BEGIN DIALOG @h FROM SERVICE S TO SERVICE 'S' WITH ENCRYPTION = OFF; "
    "SEND ON CONVERSATION @h (N'x')"
)
ACTIVATION = "ALTER QUEUE dbo.q WITH ACTIVATION (STATUS = ON, PROCEDURE_NAME = dbo.Reader, MAX_QUEUE_READERS = 1, EXECUTE AS OWNER)"
READER = "CREATE PROCEDURE dbo.Reader AS BEGIN TRAN; RECEIVE TOP (1) message_body FROM dbo.q; %s; COMMIT"


@pytest.fixture
def defect(monkeypatch):
    def fail(renderer, arguments):
        raise AssertionError("a defect")

    monkeypatch.setitem(functions.FUNCTIONS, "LEN", Function(1, 1, fail))


@pytest.fixture
def broken(side, defect):
    """The reports of an instance whose LEN has a defect."""
    reports: list[tuple[Exception, str]] = []
    side.instance.defects.report = lambda defect, statement: reports.append((defect, statement))
    return reports


def test_a_defect_ends_its_batch_with_an_error_and_its_transaction_with_a_rollback(side, broken):
    results = side.results("BEGIN TRAN; INSERT dbo.t (n) VALUES (1);\nSELECT LEN('x');\nSELECT 2")
    assert [(error.number, error.line) for error in results.errors] == [(DEFECT, 2)]
    assert results.sets == []
    [(defect, statement)] = broken
    assert str(defect) == "a defect" and statement == "SELECT LEN('x');\nSELECT 2"
    assert side.rows("SELECT @@TRANCOUNT, COUNT(*) FROM dbo.t") == [(0, 0)]


def test_a_defect_inside_try_is_caught_and_its_transaction_cannot_be_committed(side, broken):
    assert side.rows(
        "BEGIN TRAN; BEGIN TRY INSERT dbo.t (n) VALUES (LEN('x')) END TRY "
        "BEGIN CATCH SELECT ERROR_NUMBER(), XACT_STATE(); ROLLBACK END CATCH"
    ) == [(DEFECT, -1)]


def test_a_defect_in_the_text_of_a_batch_is_an_error_of_the_batch(side, broken, monkeypatch):
    monkeypatch.setattr(batches, "parse", lambda text: 1 / 0)
    assert side.error("SELECT 'anything'").number == DEFECT
    assert broken[0][1] == "SELECT 'anything'"


def test_a_report_does_not_show_a_password(side, broken):
    side.error("SELECT LEN('x'); CREATE LOGIN l WITH PASSWORD = 'secret'")
    assert "secret" not in broken[0][1]


@pytest.mark.parametrize("statement", ["SELECT LEN('x')", "BEGIN TRY SELECT LEN('x') END TRY BEGIN CATCH END CATCH"])
def test_a_defect_in_an_activated_procedure_rolls_back_until_the_queue_is_disabled(side, broken, statement):
    side.run(QUEUE)
    side.run(READER % statement)
    side.run(ACTIVATION)
    side.run(SEND)
    side.world.run_for(60)
    assert side.value("SELECT is_receive_enabled FROM sys.service_queues WHERE name = 'q'") == 0
    assert side.value("SELECT COUNT(*) FROM dbo.q") == 1
    assert len(broken) == 5


def test_a_defect_in_undoing_a_change_leaves_no_lock_and_ends_no_activated_task(side, broken, monkeypatch):
    side.run(QUEUE)
    side.run(READER % "INSERT dbo.t (n) VALUES (1); SELECT LEN('x')")
    side.run(ACTIVATION)
    monkeypatch.setattr(Table, "_remove", lambda *arguments: 1 / 0)
    side.run(SEND)
    side.world.run_for(60)
    monkeypatch.undo()
    assert {type(defect) for defect, _ in broken} == {AssertionError, ZeroDivisionError}
    assert side.value("SELECT is_receive_enabled FROM sys.service_queues WHERE name = 'q'") == 0
    assert side.value("SELECT COUNT(*) FROM dbo.q") == 1
    side.run("ALTER QUEUE dbo.q WITH STATUS = ON, ACTIVATION (STATUS = OFF)")
    assert len(side.rows("RECEIVE * FROM dbo.q")) == 1


def test_outside_a_server_a_defect_ends_the_run(side, defect):
    with pytest.raises(AssertionError, match="a defect"):
        side.results("SELECT LEN('x')")


# -- DECLARE -----------------------------------------------------------------------------------------------------------


def test_a_declaration_takes_effect_for_the_whole_batch(side):
    results = side.run(
        "IF 1 = 0 BEGIN DECLARE @y int = 5; DECLARE @t TABLE (a int NOT NULL); END; SELECT @y; INSERT @t VALUES (1); SELECT a FROM @t"
    )
    assert [rows for _, rows in results.sets] == [[(None,)], [(1,)]]
    assert side.error("SELECT @z; DECLARE @z int").number == 137


def test_a_procedure_is_activated_that_reads_a_variable_of_a_branch_that_did_not_run(side):
    side.run(QUEUE)
    side.run(READER % "IF 1 = 0 DECLARE @y int = 3; INSERT dbo.t (n) VALUES (ISNULL(@y, 7))")
    side.run(ACTIVATION)
    side.run(SEND)
    side.world.run_for(1)
    assert side.rows("SELECT DISTINCT n FROM dbo.t") == [(7,)]
    side.crash()
    side.run("USE db; DELETE dbo.t")
    side.run(SEND)
    side.world.run_for(1)
    assert side.rows("SELECT DISTINCT n FROM dbo.t") == [(7,)]


def test_a_global_cursor_keeps_the_variables_of_the_batch_that_declared_it(side):
    side.run("INSERT dbo.t (n) VALUES (1), (2)")
    side.run("DECLARE @n int = 2; DECLARE c CURSOR GLOBAL FOR SELECT n FROM dbo.t WHERE n = @n; SET @n = 1")
    assert side.rows("OPEN c; FETCH c") == [(2,)]
