"""Base tables and views that show which rows a page holds, which tasks wait for it and how long."""

import pytest

from harness.embedded.runtime.tasks import MILLISECOND
from harness.embedded.sqltypes import ResultSink
from harness.embedded.tsql.instance.instance import Usage
from tests.embedded.tsql.sides import Side, World

SERVICES = """
CREATE QUEUE dbo.here; CREATE SERVICE Here ON QUEUE dbo.here ([DEFAULT]);
CREATE QUEUE dbo.there; CREATE SERVICE There ON QUEUE dbo.there ([DEFAULT]);
"""
BEGIN = "DECLARE @h uniqueidentifier; BEGIN DIALOG @h FROM SERVICE Here TO SERVICE 'There' WITH ENCRYPTION = OFF;"
LOCATED = "SELECT sys.fn_PhysLocFormatter(%%physloc%%) AS place, handle FROM sys.sysdesend ORDER BY handle;"
DIALOGS = 290


def with_dialogs(side: Side, count: int) -> Side:
    side.run("CREATE DATABASE db;")
    side.run("USE db;")
    side.run(SERVICES)
    for _ in range(count):
        side.run(BEGIN)
    return side


def administrator(side: Side):
    return side.connect("db", is_administrative=True)


@pytest.fixture(scope="module", params=["2008", "2022"])
def old_or_new(request):
    return with_dialogs(World().side("Here", request.param), DIALOGS)


@pytest.fixture(scope="module")
def new():
    return with_dialogs(World().side("Here", "2022"), DIALOGS)


def test_rows_of_sysdesend_are_in_handle_order_144_on_a_page(old_or_new):
    rows = old_or_new.rows(LOCATED, administrator(old_or_new))
    assert [place for place, _ in rows] == [f"(1:{16 + n // 144}:{n % 144})" for n in range(DIALOGS)]
    handles = old_or_new.rows("SELECT conversation_handle FROM sys.conversation_endpoints;")
    assert [handle for _, handle in rows] == [handle for (handle,) in handles]


def test_base_tables_can_only_be_read_over_the_administrator_connection(new):
    session = administrator(new)
    for name in ("sysdesend", "sysdercv", "sysxmitqueue"):
        text = f"SELECT COUNT(*) FROM sys.{name};"
        assert new.value(text, session) == (0 if name == "sysxmitqueue" else DIALOGS)
        error = new.error(text)  # a text that was compiled for the administrator
        assert (error.number, error.text) == (208, f"Invalid object name 'sys.{name}'.")


def test_physloc_is_not_part_of_a_star_and_can_be_qualified_by_an_alias(new):
    session = administrator(new)
    [(columns, _)] = new.run("SELECT * FROM sys.sysdesend;", session).sets
    assert [column.name for column in columns] == ["handle", "diagid", "initiator", "sendseq", "sendxact"]
    first = "SELECT TOP (1) d.%%physloc%% FROM sys.sysdesend AS d ORDER BY d.handle;"
    assert new.value(first, session) == bytes([16, 0, 0, 0, 1, 0, 0, 0])
    assert new.error("SELECT %%physloc%% FROM sys.conversation_endpoints;").number == 50001
    assert new.value("SELECT 7 % 4 % 2;") == 1


def test_page_info_shows_the_object_of_a_page(new):
    text = (
        "SELECT object_id, index_id, slot_count, page_level FROM sys.dm_db_page_info(DB_ID(), 1, {}, N'LIMITED') AS p;"
    )
    assert new.rows(text.format(16)) == [(72, 1, 144, 0)]
    assert new.rows(text.format(18)) == [(72, 1, 2, 0)]
    assert new.rows(text.format(19)) == []
    assert new.rows("DECLARE @p int = 17; " + text.format("@p")) == [(72, 1, 144, 0)]
    both = "SELECT a.slot_count + b.slot_count FROM sys.dm_db_page_info(DB_ID(), 1, 16, N'LIMITED') AS a CROSS JOIN sys.dm_db_page_info(DB_ID(), 1, 18, N'LIMITED') AS b;"
    assert new.value(both) == 146
    assert new.value("SELECT OBJECT_NAME(72);") == "sysdesend"


def test_page_info_exists_since_2019():
    side = World().side("Here", "2017")
    text = "SELECT object_id FROM sys.dm_db_page_info(1, 1, 16, N'LIMITED');"
    error = side.error(text)
    assert (error.number, error.text) == (208, "Invalid object name 'sys.dm_db_page_info'.")
    assert World().side("Here", "2019").rows(text) == []


@pytest.mark.parametrize(
    "number, text",
    [
        (313, "SELECT * FROM sys.dm_db_page_info(1, 1, 16);"),
        (8144, "SELECT * FROM sys.dm_io_virtual_file_stats(1, 2, 3);"),
        (50001, "SELECT * FROM sys.dm_db_index_usage(1);"),
        (207, "SELECT * FROM sys.dm_io_virtual_file_stats(database_id, NULL);"),
        (195, "SELECT fn_PhysLocFormatter(0x);"),
    ],
)
def test_invalid_calls_of_functions_are_errors(new, number, text):
    assert new.error(text).number == number


def test_dbcc_page_shows_the_header_in_every_version(old_or_new):
    [(columns, rows)] = old_or_new.run(
        "DECLARE @db int = DB_ID(); DBCC TRACEON (3604) WITH NO_INFOMSGS; DBCC PAGE (@db, 1, 17, 0) WITH TABLERESULTS, NO_INFOMSGS;"
    ).sets
    assert [column.name for column in columns] == ["ParentObject", "Object", "Field", "VALUE"]
    fields = {field: value for _, _, field, value in rows}
    assert fields["m_pageId"] == "(1:17)"
    assert (fields["Metadata: ObjectId"], fields["Metadata: IndexId"], fields["m_slotCnt"]) == ("72", "1", "144")
    assert (fields["m_prevPage"], fields["m_nextPage"]) == ("(1:16)", "(1:18)")


def test_a_trace_flag_holds_for_a_session_or_for_all(side):
    status = "DBCC TRACESTATUS (-1) WITH NO_INFOMSGS;"
    side.run("DBCC TRACEON (3604); DBCC TRACEON (1118, -1);")
    other = side.connect("db")
    assert side.rows(status) == [(1118, 1, 1, 0), (3604, 1, 0, 1)]
    assert side.rows(status, other) == [(1118, 1, 1, 0)]
    side.run("DBCC TRACEOFF (3604); DBCC TRACEOFF (1118, -1);")
    assert side.rows(status) == []
    assert side.rows("DBCC TRACESTATUS (3604);") == [(3604, 0, 0, 0)]
    assert side.run("DBCC TRACEON (3604);").messages[0].number == 2528
    assert side.error("DBCC CHECKDB;").text == "The embedded Service Broker does not support DBCC CHECKDB (line 1)."


def test_tasks_that_wait_for_a_page_are_shown_with_it_and_counted():
    world = World()
    world.latch_ns = 50 * MILLISECOND
    side = with_dialogs(world.side("Here", "2022"), 3)
    handles = [handle for (handle,) in side.rows("SELECT conversation_handle FROM sys.conversation_endpoints;")]
    senders = [side.connect("db") for _ in handles]
    tasks = [
        side.scheduler.spawn(sender.batch(f"SEND ON CONVERSATION '{handle}' (0x01);", Discarded()), f"sender {handle}")
        for sender, handle in zip(senders, handles, strict=True)
    ]
    world.run_for(0.02)
    waiting = "SELECT session_id, wait_type, wait_duration_ms, resource_description FROM sys.dm_os_waiting_tasks WHERE wait_type LIKE N'PAGELATCH%' ORDER BY session_id;"
    page = f"{side.value('SELECT DB_ID();')}:1:16"
    assert side.rows(waiting) == [(sender.spid, "PAGELATCH_EX", 20, page) for sender in senders[1:]]
    suspended = "SELECT session_id, status, wait_type FROM sys.dm_exec_requests WHERE wait_type = N'PAGELATCH_EX';"
    assert side.rows(suspended) == [(sender.spid, "suspended", "PAGELATCH_EX") for sender in senders[1:]]
    world.run_for(1)
    assert all(task.error is None for task in tasks)
    assert side.rows(waiting) == []
    assert side.rows(
        "SELECT latch_class, waiting_requests_count, wait_time_ms, max_wait_time_ms FROM sys.dm_os_latch_stats;"
    ) == [("BUFFER", 2, 150, 100)]
    by_index = "SELECT object_id, index_id, page_latch_wait_count, page_latch_wait_in_ms, row_lock_wait_count FROM sys.dm_db_index_operational_stats({}, {}, {}, NULL) WHERE page_latch_wait_count > 0;"
    for arguments in (("DB_ID()", "NULL", "NULL"), ("NULL", "72", "1"), ("0", "0", "-1")):
        assert side.rows(by_index.format(*arguments)) == [(72, 1, 2, 150, 0)]
    for arguments in (("DB_ID('master')", "NULL", "NULL"), ("DB_ID()", "71", "NULL"), ("DB_ID()", "72", "2")):
        assert side.rows(by_index.format(*arguments)) == []


def test_rows_that_came_into_a_queue_and_left_it_are_counted(side):
    side.run("CREATE QUEUE dbo.q; CREATE SERVICE [s] ON QUEUE dbo.q ([DEFAULT]);")
    side.run(
        "DECLARE @h uniqueidentifier; BEGIN DIALOG @h FROM SERVICE [s] TO SERVICE 's' WITH ENCRYPTION = OFF; SEND ON CONVERSATION @h (0x01); SEND ON CONVERSATION @h (0x02);"
    )
    counts = "SELECT i.leaf_insert_count, i.leaf_delete_count + i.leaf_ghost_count FROM sys.dm_db_index_operational_stats(DB_ID(), NULL, NULL, NULL) AS i JOIN sys.internal_tables AS t ON t.object_id = i.object_id WHERE t.parent_object_id = OBJECT_ID(N'dbo.q');"
    side.world.run_for(1)
    assert side.rows(counts) == [(2, 0)]
    side.run("RECEIVE TOP (1) * FROM dbo.q;")
    assert side.rows(counts) == [(2, 1)]


def test_apply_calls_a_function_once_for_each_row_of_its_arguments(side):
    side.run("CREATE QUEUE dbo.a; CREATE QUEUE dbo.b;")
    queues = side.rows("SELECT object_id, 1 FROM sys.internal_tables WHERE internal_type = 201 ORDER BY object_id;")
    assert len(queues) >= 2
    applied = "DECLARE @index int = {}; SELECT t.object_id, i.index_id FROM sys.internal_tables AS t {} APPLY sys.dm_db_index_operational_stats(DB_ID(), t.object_id, @index, NULL) AS i WHERE t.internal_type = 201 ORDER BY t.object_id;"
    assert side.rows(applied.format(1, "CROSS")) == side.rows(applied.format(1, "OUTER")) == queues
    assert side.rows(applied.format(7, "CROSS")) == []
    assert side.rows(applied.format(7, "OUTER")) == [(object_id, None) for object_id, _ in queues]
    databases = "SELECT d.name, f.file_id FROM sys.databases AS d CROSS APPLY sys.dm_io_virtual_file_stats(d.database_id, NULL) AS f WHERE d.name = DB_NAME();"
    assert side.rows(databases) == [("db", 2)]


@pytest.mark.parametrize(
    ("from_clause", "error"),
    [
        ("sys.databases AS d CROSS APPLY sys.dm_db_log_info(d.nothing) AS e", 50001),
        ("sys.databases AS d CROSS APPLY sys.dm_io_virtual_file_stats(d.database_id) AS e", 313),
        ("sys.databases AS d CROSS APPLY sys.nothing(d.database_id) AS e", 50001),
        ("sys.databases AS d CROSS APPLY sys.dm_io_virtual_file_stats(d.database_id, NULL) AS d", 1013),
    ],
)
def test_what_cannot_be_applied_is_an_error(side, from_clause, error):
    assert [message.number for message in side.results(f"SELECT * FROM {from_clause};").errors] == [error]


def test_the_scheduler_shows_how_many_tasks_could_run_and_how_many_requests_are_active(side):
    shown = "SELECT runnable_tasks_count, active_workers_count, status FROM sys.dm_os_schedulers;"
    assert side.rows(shown) == [(0, 1, "VISIBLE ONLINE")]
    others = [side.connect("db") for _ in range(3)]
    for other in others:
        side.scheduler.spawn(other.batch("WAITFOR DELAY '00:00:01';", Discarded()), "waits")
    side.world.run_for(0.1)
    assert side.rows(shown) == [(0, 4, "VISIBLE ONLINE")]
    side.instance.usage = lambda: Usage(runnable_tasks=5)
    assert side.rows(shown) == [(5, 4, "VISIBLE ONLINE")]


def test_waits_of_other_kinds_are_shown_too(side):
    side.run("CREATE QUEUE dbo.q;")
    reader = side.connect("db")
    side.scheduler.spawn(reader.batch("WAITFOR (RECEIVE * FROM dbo.q), TIMEOUT 5000;", Discarded()), "reader")
    side.world.run_for(1)
    assert side.rows(
        "SELECT session_id, wait_type, wait_duration_ms, resource_description FROM sys.dm_os_waiting_tasks;"
    ) == [(reader.spid, "BROKER_RECEIVE_WAITFOR", 1000, None)]


@pytest.mark.in_process
def test_writes_are_counted_for_the_log_of_their_database(side):
    text = "SELECT f.name, s.num_of_writes, s.num_of_bytes_written, s.io_stall_write_ms, s.num_of_reads FROM sys.dm_io_virtual_file_stats(DB_ID(), NULL) AS s JOIN sys.master_files AS f ON f.database_id = s.database_id AND f.file_id = s.file_id;"
    [(name, writes, size, stall_ms, reads)] = side.rows(text)
    assert name == "db_log"
    side.run("INSERT dbo.t (n) VALUES (1), (2);")
    [(_, writes_after, size_after, stall_after_ms, reads_after)] = side.rows(text)
    assert writes_after == writes + 1 and size_after > size and stall_after_ms > stall_ms
    assert reads == reads_after == 0
    everywhere = side.rows("SELECT COUNT(*) FROM sys.dm_io_virtual_file_stats(NULL, NULL);")
    assert everywhere == side.rows("SELECT COUNT(*) FROM sys.databases;")


def test_a_session_shows_the_endpoint_it_connected_to(side):
    text = "SELECT e.name, e.is_admin_endpoint FROM sys.dm_exec_sessions AS s JOIN sys.endpoints AS e ON e.endpoint_id = s.endpoint_id WHERE s.session_id = @@SPID;"
    assert side.rows(text) == [("TSQL Default TCP", 0)]
    assert side.rows(text, administrator(side)) == [("Dedicated Admin Connection", 1)]


class Discarded(ResultSink):
    """Discards the results of a session, but fails at an error."""

    def message(self, number, severity, state, text, procedure, line):  # noqa: PLR0917
        assert severity <= 10, text
