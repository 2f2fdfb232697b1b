"""READ COMMITTED: what a session sees of transactions that others have not ended, and when it waits for them."""

import pytest

from harness.embedded.runtime.tasks import TaskState
from tests.embedded.tsql.sides import Results

READ = "SELECT id, n, name FROM dbo.t ORDER BY id"


@pytest.fixture
def other(side):
    """A second session; the first is `side.session`."""
    side.run("INSERT dbo.t (n, name) VALUES (1, N'one'), (2, N'two'), (3, N'three')")
    return side.connect("db")


CHANGES = {
    "INSERT": "INSERT dbo.t (n) VALUES (9), (10)",
    "UPDATE": "UPDATE dbo.t SET n = n * 10, name = N'changed'",
    "DELETE": "DELETE dbo.t WHERE n = 2",
    "TRUNCATE": "TRUNCATE TABLE dbo.t; INSERT dbo.t (n) VALUES (7); UPDATE dbo.t SET n = 8",
    "several": "UPDATE dbo.t SET n = 20 WHERE n = 2; DELETE dbo.t WHERE n = 20; INSERT dbo.t (n) VALUES (4); DELETE dbo.t WHERE n = 4",
    "a savepoint": "SAVE TRAN s; DELETE dbo.t; ROLLBACK TRAN s; UPDATE dbo.t SET n = 5",
    "a savepoint before TRUNCATE": "SAVE TRAN s; TRUNCATE TABLE dbo.t; INSERT dbo.t (n) VALUES (7); ROLLBACK TRAN s; DELETE dbo.t",
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_no_reader_sees_rows_before_they_are_committed(side, other, change):
    before = side.rows(READ)
    side.run(f"BEGIN TRAN; {change}")
    own = side.rows(READ)
    assert side.rows(READ, other) == before
    assert side.value("SELECT SUM(n) FROM dbo.t", other) == sum(row[1] for row in before)
    assert side.run("IF EXISTS (SELECT * FROM dbo.t WHERE n = 2) PRINT 'yes'", other).prints == ["yes"]
    text = "DECLARE @n int; SET @n = (SELECT MAX(n) FROM dbo.t); DECLARE @t table (n int); INSERT @t SELECT n FROM dbo.t; SELECT @n, COUNT(*) FROM @t"
    assert side.rows(text, other) == [(3, 3)]
    assert side.rows(READ) == own
    side.run("COMMIT")
    assert side.rows(READ, other) == own


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_nothing_is_left_of_a_change_that_was_rolled_back(side, other, change):
    before = side.rows(READ)
    side.run(f"BEGIN TRAN; {change}")
    side.rows(READ, other)
    side.run("ROLLBACK")
    assert side.rows(READ) == side.rows(READ, other) == before
    side.crash()
    assert side.rows("USE db; " + READ) == before


def test_a_reader_never_sees_the_first_of_two_writes(side, other):
    side.run("BEGIN TRAN; UPDATE dbo.t SET n = 100 WHERE id = 1")
    assert side.value("SELECT n FROM dbo.t WHERE id = 1", other) == 1
    side.run("UPDATE dbo.t SET n = 11 WHERE id = 1; COMMIT")
    assert side.value("SELECT n FROM dbo.t WHERE id = 1", other) == 11


def test_two_transactions_see_their_own_changes_and_not_each_others(side, other):
    side.run("BEGIN TRAN; UPDATE dbo.t SET n = 10 WHERE id = 1")
    side.run("BEGIN TRAN; UPDATE dbo.t SET n = 20 WHERE id = 2", other)
    assert [row[1] for row in side.rows(READ)] == [10, 2, 3]
    assert [row[1] for row in side.rows(READ, other)] == [1, 20, 3]
    side.run("COMMIT")
    assert [row[1] for row in side.rows(READ, other)] == [10, 20, 3]
    side.run("ROLLBACK", other)


@pytest.mark.parametrize(
    "text", [READ.replace("dbo.t", "dbo.t WITH (NOLOCK)"), f"SET TRANSACTION ISOLATION LEVEL READ UNCOMMITTED; {READ}"]
)
def test_a_reader_that_asks_for_them_sees_uncommitted_rows(side, other, text):
    side.run("BEGIN TRAN; UPDATE dbo.t SET n = 10 WHERE id = 1")
    assert [row[1] for row in side.rows(text, other)] == [10, 2, 3]
    side.run("ROLLBACK")


def start(side, other, text):
    results = Results()
    task = side.scheduler.spawn(other.batch(text, results), "other")
    side.world.run_for(1)
    return task, results


@pytest.mark.parametrize("end", ["COMMIT", "ROLLBACK"])
@pytest.mark.parametrize(
    "change", ["UPDATE dbo.t SET n = 10 WHERE n = 1", "DELETE dbo.t WHERE n = 1", "TRUNCATE TABLE dbo.t"]
)
def test_a_change_waits_for_the_transaction_that_has_changed_the_committed_row(side, other, change, end):
    side.run(f"BEGIN TRAN; {change}")
    task, results = start(side, other, "UPDATE dbo.t SET name = N'mine' WHERE n = 1")
    assert task.state is TaskState.WAITING
    side.run(end)
    side.world.run_for(1)
    assert results.counts == [1 if end == "ROLLBACK" else 0]
    mine = [row[0] for row in side.rows(READ) if row[2] == "mine"]
    assert mine == ([1] if end == "ROLLBACK" else [])


@pytest.mark.parametrize(
    "change", ["INSERT dbo.k VALUES (3)", "DELETE dbo.k WHERE a = 1", "UPDATE dbo.k SET a = 3 WHERE a = 1"]
)
@pytest.mark.parametrize("end", ["COMMIT", "ROLLBACK"])
def test_a_key_that_another_transaction_has_written_or_removed_is_waited_for(side, other, change, end):
    side.run("CREATE TABLE dbo.k (a int PRIMARY KEY); INSERT dbo.k VALUES (1), (2)")
    side.run(f"BEGIN TRAN; {change}")
    wanted = 3 if "3" in change else 1
    task, results = start(side, other, f"INSERT dbo.k VALUES ({wanted})")
    assert task.state is TaskState.WAITING
    side.run(end)
    side.world.run_for(1)
    held = (end == "COMMIT") == (wanted == 3)
    assert [error.number for error in results.errors] == ([2627] if held else [])
    assert side.value(f"SELECT COUNT(*) FROM dbo.k WHERE a = {wanted}") == 1


def test_rows_that_others_insert_during_a_truncate_wait_and_are_not_lost(side, other):
    side.run("BEGIN TRAN; TRUNCATE TABLE dbo.t")
    task, _ = start(side, other, "INSERT dbo.t (n) VALUES (4)")
    assert task.state is TaskState.WAITING
    side.run("ROLLBACK")
    side.world.run_for(1)
    assert [row[1] for row in side.rows(READ)] == [1, 2, 3, 4]


# -- queues and catalog views ------------------------------------------------------------------------------------------


@pytest.fixture
def queue(side, other):
    side.run("CREATE QUEUE dbo.q; CREATE SERVICE s ON QUEUE dbo.q ([DEFAULT])")
    side.run(
        "DECLARE @h uniqueidentifier; BEGIN DIALOG @h FROM SERVICE s TO SERVICE 's' WITH ENCRYPTION = OFF;"
        "SEND ON CONVERSATION @h (N'a'); SEND ON CONVERSATION @h (N'b')"
    )


def test_rows_that_another_transaction_has_received_are_still_in_the_queue(side, other, queue):
    text = "SELECT status, CAST(message_body AS nvarchar(10)) FROM dbo.q ORDER BY queuing_order"
    before = side.rows(text, other)
    assert len(before) == 2
    side.run("BEGIN TRAN; RECEIVE TOP (1) * FROM dbo.q")
    assert side.rows(text, other) == before
    assert side.rows(text.replace("dbo.q ", "dbo.q WITH (NOLOCK) "), other) == side.rows(text) == before[1:]
    assert side.rows("RECEIVE * FROM dbo.q", other) == []
    side.run("ROLLBACK")
    assert side.rows(text, other) == side.rows(text) == before
    side.run("BEGIN TRAN; RECEIVE * FROM dbo.q; COMMIT")
    assert side.rows(text, other) == []


def test_views_show_no_conversation_before_it_is_committed(side, other, queue):
    views = ("sys.conversation_endpoints", "sys.conversation_groups")
    before = [side.value(f"SELECT COUNT(*) FROM {view}", other) for view in views]
    side.run(
        "BEGIN TRAN; DECLARE @h uniqueidentifier; BEGIN DIALOG @h FROM SERVICE s TO SERVICE 's' WITH ENCRYPTION = OFF;"
        "SEND ON CONVERSATION @h (N'c')"
    )
    assert [side.value(f"SELECT COUNT(*) FROM {view}", other) for view in views] == before
    assert [side.value(f"SELECT COUNT(*) FROM {view}") for view in views] == [count + 2 for count in before]
    assert side.value("SELECT COUNT(*) FROM dbo.q", other) == 2
    side.run("COMMIT")
    assert [side.value(f"SELECT COUNT(*) FROM {view}", other) for view in views] == [count + 2 for count in before]
