"""Behaviour that no source settles.

Each test asserts the answer that the embedded broker gives. If SQL Server's differs, `make parity` shows both, and this
file and the broker are to follow SQL Server.
"""

import itertools
import re
import threading
import time
import uuid
from datetime import datetime

import pyodbc
import pytest

from harness.lab import scripts
from harness.machine.places import SQL_ROOT
from harness.observe import event_sessions
from tests.conformance.servers import ON_SQLSERVER
from tests.conformance.test_dialogs import BEGIN, arrived, begin, receive, send
from tests.conformance.test_queues import ENABLED, MONITOR, READ_ALL, STUB, TASKS, activate, stored, watch
from tests.conformance.waiting import wait_until
from tests.parity.recording import attempt, note

pytestmark = pytest.mark.process

SEQUENCES = """
SELECT is_initiator, state, send_sequence, last_send_tran_id, end_dialog_sequence, receive_sequence, receive_sequence_frag,
    system_sequence, first_out_of_order_sequence, last_out_of_order_sequence, last_out_of_order_frag, dialog_timer,
    security_timestamp, outbound_session_key_identifier, principal_id, far_principal_id, priority, is_system
FROM sys.conversation_endpoints ORDER BY is_initiator;
"""
STATUS = "SELECT transmission_status FROM sys.transmission_queue;"
STATES = "SELECT is_initiator, state FROM sys.conversation_endpoints ORDER BY is_initiator;"
ERROR_TEXTS = "RECEIVE message_type_name, CAST(message_body AS nvarchar(max)) AS body FROM dbo.InitiatorQueue;"


def rows(connection, text, *parameters):
    return [tuple(row) for row in connection.execute(text, *parameters).fetchall()]


def caught(connection, statement, *, handle=None):
    """The number, severity, state and text of the error that a statement raises; `@h` in it is the handle."""
    text = f"""
    SET NOCOUNT ON;
    DECLARE @h uniqueidentifier = {f"'{handle}'" if handle else "NULL"};
    BEGIN TRY
        SET @h = @h;
        {statement}
    END TRY
    BEGIN CATCH
        SELECT ERROR_NUMBER() AS number, ERROR_SEVERITY() AS severity, ERROR_STATE() AS state, ERROR_MESSAGE() AS message;
    END CATCH;
    """
    cursor = connection.execute(text)
    while cursor.description is None:
        if not cursor.nextset():
            return None
    row = cursor.fetchone()
    return None if row is None else tuple(row)


def two_ends(connection):
    """Both handles of a dialog in which one message was received."""
    handle = begin(connection)
    send(connection, handle, b"x")
    [row] = wait_until(lambda: receive(connection))
    return handle, row.conversation_handle


def end(connection, handle, how=""):
    connection.execute(f"DECLARE @h uniqueidentifier = ?; END CONVERSATION @h {how};", handle)


# -- queues ------------------------------------------------------------------------------------------------------------


def test_get_conversation_group_on_an_empty_queue_sets_the_variable_to_null(services):
    """The manual's arguments say NULL, its examples test for a variable left as it was."""
    preset = "DECLARE @g uniqueidentifier = '11111111-1111-1111-1111-111111111111';"
    get = "GET CONVERSATION GROUP @g FROM dbo.TargetQueue"
    assert rows(services, f"SET NOCOUNT ON; {preset} {get}; SELECT @g;") == [(None,)]
    assert rows(services, f"SET NOCOUNT ON; {preset} WAITFOR ({get}), TIMEOUT 100; SELECT @g;") == [(None,)]


def test_get_conversation_group_passes_over_what_its_transaction_has_sent(services, connect):
    """No source says whether the group, which the SEND has locked, counts as one with messages."""
    with connect(autocommit=False) as other:
        send(other, begin(other), b"x")
        get = "GET CONVERSATION GROUP @g FROM dbo.TargetQueue"
        assert rows(other, f"SET NOCOUNT ON; DECLARE @g uniqueidentifier; {get}; SELECT @g;") == [(None,)]
        other.rollback()


def test_receive_of_nothing_leaves_its_variables_unchanged(services):
    text = "SET NOCOUNT ON; DECLARE @n int = 7; RECEIVE TOP (1) @n = message_sequence_number FROM dbo.TargetQueue; SELECT @n, @@ROWCOUNT;"
    assert rows(services, text) == [(7, 0)]


def test_the_columns_of_a_queue_in_select_and_in_receive(services):
    """RECEIVE's manual names neither message_id nor message_enqueue_time, and no source gives their place in SELECT *."""
    send(services, begin(services), b"x")
    selected = services.execute("SELECT * FROM dbo.TargetQueue WITH (NOLOCK);").description
    received = services.execute("RECEIVE * FROM dbo.TargetQueue;").description
    assert [column[0] for column in selected][-3:] == ["message_body", "message_id", "message_enqueue_time"]
    assert [column[0] for column in received] == [column[0] for column in selected][:-2]


def test_receive_where_names_a_locked_group_and_returns_nothing(services, connect):
    """No source says whether it waits for the lock; the lock timeout would end a wait."""
    handle, _ = two_ends(services)
    send(services, handle, b"1")
    send(services, handle, b"2")
    [first] = wait_until(
        lambda: services.execute("SELECT TOP (1) conversation_handle FROM dbo.TargetQueue WITH (NOLOCK);").fetchall()
    )
    with connect(autocommit=False) as other:
        other.execute("RECEIVE TOP (1) message_body FROM dbo.TargetQueue;").fetchall()
        named = f"RECEIVE TOP (1) message_body FROM dbo.TargetQueue WHERE conversation_handle = '{first[0]}'"
        services.execute("SET LOCK_TIMEOUT 1000;")
        assert rows(services, f"{named};") == []
        assert rows(services, f"WAITFOR ({named}), TIMEOUT 300;") == []
        other.rollback()


def test_a_commit_of_another_message_does_not_reset_the_count_of_rollbacks(services, connect):
    """Five consecutive rollbacks disable a queue: consecutive for the queue, or for the message?"""
    poison, good = begin(services), begin(services)
    send(services, poison, b"poison")
    send(services, good, b"good")
    query = "SELECT conversation_handle FROM dbo.TargetQueue WITH (NOLOCK) WHERE message_body = ?;"
    poison, good = (
        wait_until(lambda body=body: services.execute(query, body).fetchval()) for body in (b"poison", b"good")
    )
    take = "RECEIVE message_body FROM dbo.TargetQueue WHERE conversation_handle = '{}';"

    def roll_back_four_times():
        for _ in range(4):
            with connect(autocommit=False) as connection:
                connection.execute(take.format(poison)).fetchall()
                connection.rollback()

    roll_back_four_times()
    services.execute(take.format(good)).fetchall()
    assert services.execute(ENABLED).fetchval()
    roll_back_four_times()
    assert services.execute(ENABLED).fetchval()


def test_a_rollback_to_a_savepoint_does_not_count_as_poison(services, connect):
    send(services, begin(services), b"x")
    arrived(services, 1)
    for _ in range(6):
        with connect(autocommit=False) as connection:
            connection.execute("SAVE TRANSACTION Before;")
            connection.execute("RECEIVE message_body FROM dbo.TargetQueue;").fetchall()
            connection.execute("ROLLBACK TRANSACTION Before;")
            connection.commit()
    assert services.execute(ENABLED).fetchval()


def test_a_waiting_receive_ends_with_9617_when_its_queue_is_turned_off(services, connect):
    found = []

    def wait(connection):
        try:
            found.append(
                connection.execute("WAITFOR (RECEIVE message_body FROM dbo.TargetQueue), TIMEOUT 10000;").fetchall()
            )
        except pyodbc.Error as error:
            found.append(error)

    with connect() as other:
        reader = threading.Thread(target=wait, args=(other,))
        reader.start()
        waiting = "SELECT COUNT(*) FROM sys.dm_exec_requests WHERE wait_type = 'BROKER_RECEIVE_WAITFOR';"
        wait_until(lambda: services.execute(waiting).fetchval())
        services.execute("ALTER QUEUE dbo.TargetQueue WITH STATUS = OFF;")
        reader.join(12)
    assert "(9617)" in str(found[0])


def test_receive_top_0_counts_as_a_receive_for_the_queue_monitor(services):
    """The procedure of SqlDependency relies on it."""
    activate(services, STUB)
    send(services, begin(services), b"x")
    wait_until(lambda: stored(services) == [b"\xff"])
    assert services.execute(MONITOR).fetchval() == "NOTIFIED"
    services.execute("RECEIVE TOP (0) message_body FROM dbo.TargetQueue;").fetchall()
    # Another reader proves it too: the monitor may be NOTIFIED again before it is queried.
    wait_until(lambda: services.execute(MONITOR).fetchval() != "NOTIFIED" or len(stored(services)) > 1)


@pytest.mark.thorough
def test_a_notification_that_nobody_follows_is_sent_again_after_a_time_out(services):
    """The manual ("Understanding When Activation Occurs") says so without a length; R. Rusanu, "Understanding Queue
    Monitors", says that none is sent before a RECEIVE."""
    watch(services)
    send(services, begin(services), b"x")
    moments = []
    for _ in range(2):
        [row] = wait_until(lambda: receive(services, "dbo.NotificationQueue"), timeout_s=300)
        moments.append(datetime.fromisoformat(re.search("<PostTime>(.*)</PostTime>", row.body.decode("utf-16"))[1]))
    note("seconds between two notifications", round((moments[1] - moments[0]).total_seconds()))
    assert services.execute(MONITOR).fetchval() == "NOTIFIED"


def test_a_dropped_event_notification_ends_its_conversation(services):
    """Its conversations "stay open until the notification is dropped"; no source says that EndDialog comes then."""
    watch(services)
    send(services, begin(services), b"x")
    wait_until(lambda: receive(services, "dbo.NotificationQueue"))
    services.execute("DROP EVENT NOTIFICATION Arrived ON QUEUE dbo.TargetQueue;")
    [row] = wait_until(lambda: receive(services, "dbo.NotificationQueue"))
    assert row.message_type_name == "http://schemas.microsoft.com/SQL/ServiceBroker/EndDialog"


def test_an_activated_procedure_runs_in_a_system_session(services):
    services.execute("CREATE TABLE dbo.seen (is_user_process bit NULL, trancount int NULL, who nvarchar(128) NULL);")
    procedure = """
    CREATE OR ALTER PROCEDURE dbo.Reader WITH EXECUTE AS OWNER AS
    BEGIN
        SET NOCOUNT ON;
        RECEIVE TOP (0) message_body FROM dbo.TargetQueue;
        INSERT INTO dbo.seen (is_user_process, trancount, who)
        SELECT (SELECT s.is_user_process FROM sys.dm_exec_sessions AS s WHERE s.session_id = @@SPID), @@TRANCOUNT, USER_NAME();
    END;
    """
    activate(services, procedure)
    send(services, begin(services), b"x")
    wait_until(lambda: services.execute("SELECT TOP (1) 1 FROM dbo.seen;").fetchval())
    [first] = rows(services, "SELECT TOP (1) trancount, who FROM dbo.seen;")
    rows(services, "SELECT TOP (1) is_user_process FROM dbo.seen;")
    assert first == (0, "dbo")


# -- conversations -----------------------------------------------------------------------------------------------------


def test_sequence_columns_of_an_idle_dialog_and_after_a_message(services):
    """The manual names them, but not their values while nothing is out of order."""
    handle = begin(services)
    [idle] = rows(services, SEQUENCES)
    assert idle[:2] == (1, "SO") and idle[4:11] == (-1, 0, 0, 0, -1, -1, -1)
    send(services, handle, b"x")
    wait_until(lambda: len(rows(services, SEQUENCES)) == 2)
    target, initiator = rows(services, SEQUENCES)
    assert (initiator[1], initiator[2], target[5]) == ("CO", 1, 1)


def test_handles_of_dialogs_begun_one_after_another_are_sequential(services):
    """The 150 trick relies on it: the rows of such dialogs are neighbours in sys.sysdesend."""
    handles = [uuid.UUID(begin(services)) for _ in range(10)]
    ordered = [_in_server_order(handle) for handle in handles]
    note("ten handles sort as they were begun", sorted(ordered) == ordered)
    changing = [place for place in range(16) if len({handle[place] for handle in ordered}) > 1]
    note("bytes of a handle that change, most significant first", changing)
    note("steps between them", [int.from_bytes(b) - int.from_bytes(a) for a, b in itertools.pairwise(ordered)])
    assert sorted(ordered) == ordered


def _in_server_order(handle: uuid.UUID) -> bytes:
    """Bytes as SQL Server compares uniqueidentifiers, the most significant first."""
    raw = handle.bytes
    return raw[10:] + raw[8:10] + raw[7:5:-1] + raw[5:3:-1] + raw[3::-1]


@pytest.mark.parametrize("state", ["DI", "DO", "ER", "CD"])
def test_send_in_a_state_that_forbids_it_is_error_8429(services, state):
    """No source gives its text, or its spelling of the state."""
    initiator, target = two_ends(services)
    handle = initiator
    if state in ("DI", "ER"):
        end(services, target, "WITH ERROR = 1 DESCRIPTION = N'broken'" if state == "ER" else "")
        wait_until(lambda: receive(services, "dbo.InitiatorQueue"))
    else:
        end(services, initiator)
        handle = initiator if state == "DO" else target
    if state == "CD":
        wait_until(lambda: receive(services))
        end(services, target)
    rows(services, STATES)
    number, *_ = caught(services, "SEND ON CONVERSATION @h MESSAGE TYPE [//Test/Message] (0x00);", handle=handle)
    assert number in ((8426, 8429) if state == "DO" else (8429,))


def test_dropping_a_services_contract_leaves_its_conversations(services):
    """The manual of ALTER SERVICE contradicts itself: they get an error (arguments), they are unaffected (remarks)."""
    handle, _ = two_ends(services)
    services.execute("ALTER SERVICE [//Test/Target] (DROP CONTRACT [//Test/Contract]);")
    send(services, handle, b"after")
    assert [row.body for row in wait_until(lambda: receive(services))] == [b"after"]
    assert rows(services, STATES) == [(0, "CO"), (1, "CO")]
    assert rows(services, ERROR_TEXTS) == []


def test_dropping_the_far_service_sends_error_8470(services):
    two_ends(services)
    services.execute("DROP SERVICE [//Test/Target];")
    [(_, body)] = wait_until(lambda: rows(services, ERROR_TEXTS))
    assert "<Code>-8470</Code>" in body
    assert rows(services, STATES) == [(1, "ER")]


def test_a_dialog_on_a_contract_that_the_service_lacks_gets_error_8408(services):
    services.execute("CREATE SERVICE [//Test/Bare] ON QUEUE dbo.TargetQueue;")
    text = BEGIN.replace("//Test/Target", "//Test/Bare")
    send(services, services.execute(text.strip()).fetchval(), b"x")
    [(_, body)] = wait_until(lambda: rows(services, ERROR_TEXTS))
    assert "<Code>-8408</Code>" in body


def test_a_dialog_past_its_lifetime_gets_error_8489_at_both_ends(services):
    text = BEGIN.strip().replace("ENCRYPTION = OFF", "ENCRYPTION = OFF, LIFETIME = 2")
    send(services, services.execute(text).fetchval(), b"x")
    wait_until(lambda: receive(services))
    [(_, body)] = wait_until(lambda: rows(services, ERROR_TEXTS))
    assert "<Code>-8489</Code>" in body
    wait_until(lambda: receive(services))
    assert rows(services, STATES) == [(0, "ER"), (1, "ER")]


def test_a_closed_target_is_kept_for_half_an_hour(services):
    """After an exchange in order the far end stays as a guard against duplicates until security_timestamp."""
    initiator, target = two_ends(services)
    end(services, target)
    wait_until(lambda: receive(services, "dbo.InitiatorQueue"))
    end(services, initiator)
    wait_until(lambda: rows(services, STATES) == [(0, "CD")])
    kept = "SELECT DATEDIFF(second, GETUTCDATE(), security_timestamp) FROM sys.conversation_endpoints;"
    assert 1700 < services.execute(kept).fetchval() <= 1800


def test_fire_and_forget_leaves_a_closed_target_without_a_time(services):
    text = BEGIN.strip().replace(
        "SELECT @h;", "SEND ON CONVERSATION @h MESSAGE TYPE [//Test/Message] (0x01); END CONVERSATION @h;"
    )
    services.execute(f"BEGIN TRANSACTION; {text} COMMIT TRANSACTION;")
    arrived(services, 2)
    for row in receive(services):
        if row.message_type_name.endswith("EndDialog"):
            end(services, row.conversation_handle)
    wait_until(lambda: rows(services, STATES) == [(0, "CD")])
    when = "SELECT CONVERT(nvarchar(10), security_timestamp, 120) FROM sys.conversation_endpoints;"
    assert services.execute(when).fetchval() == "1900-01-01"


def test_receive_of_a_group_returns_one_conversation_after_the_other(services):
    first = begin(services)
    related = BEGIN.strip().replace("ENCRYPTION = OFF", f"ENCRYPTION = OFF, RELATED_CONVERSATION = '{first}'")
    second = services.execute(related).fetchval()
    for handle, body in ((first, b"1"), (second, b"2"), (first, b"3")):
        send(services, handle, body)
    arrived(services, 3)
    for row in (*receive(services), *receive(services)):
        reply = "DECLARE @h uniqueidentifier = ?; SEND ON CONVERSATION @h MESSAGE TYPE [//Test/Message] (?);"
        services.execute(reply, row.conversation_handle, row.body)
    arrived(services, 3, "dbo.InitiatorQueue")
    together = [bytes(row.body) for row in receive(services, "dbo.InitiatorQueue")]
    assert together in ([b"1", b"3", b"2"], [b"2", b"1", b"3"])


# -- delivery ----------------------------------------------------------------------------------------------------------


def test_transmission_status_of_a_message_for_a_queue_that_is_off(services):
    """The text of 28021 fits, but no source says so."""
    services.execute("ALTER QUEUE dbo.TargetQueue WITH STATUS = OFF;")
    send(services, begin(services), b"x")
    status = wait_until(lambda: services.execute(STATUS).fetchval())
    assert "could not be delivered to the local service" in status


def test_transmission_status_of_a_message_whose_services_owner_may_not_send_to_the_target(services):
    """The manual asks for SEND within one database too; the number is that of two databases."""
    services.execute(
        "CREATE USER someone WITHOUT LOGIN; ALTER AUTHORIZATION ON SERVICE::[//Test/Initiator] TO someone;"
    )
    services.execute("REVOKE SEND ON SERVICE::[//Test/Target] FROM public;")
    send(services, begin(services), b"x")
    assert "8494" in wait_until(lambda: services.execute(STATUS).fetchval())


def test_transmission_status_of_a_message_for_an_unknown_broker(services):
    """9793 or 9798."""
    text = BEGIN.strip().replace("'//Test/Target'", "'//Test/Target', '11111111-1111-1111-1111-111111111111'")
    send(services, services.execute(text).fetchval(), b"x")
    assert wait_until(lambda: services.execute(STATUS).fetchval())


def test_transmission_status_in_a_database_whose_broker_is_disabled(services):
    handle = begin(services)
    database = services.execute("SELECT DB_NAME();").fetchval()
    services.execute(f"ALTER DATABASE [{database}] SET DISABLE_BROKER WITH ROLLBACK IMMEDIATE;")
    send(services, handle, b"x")
    assert "disabled in the sender's database" in wait_until(lambda: services.execute(STATUS).fetchval())


def test_transmission_status_of_an_unknown_handle_is_blank(services):
    assert rows(services, "SELECT GET_TRANSMISSION_STATUS('11111111-1111-1111-1111-111111111111');") == [("",)]


# -- catalog -----------------------------------------------------------------------------------------------------------


def test_tempdb_and_msdb_have_a_broker_and_master_has_none(connection):
    """tempdb and msdb have one, master has none; no source says anything about model."""
    found = dict(
        rows(
            connection, "SELECT name, is_broker_enabled FROM sys.databases WHERE database_id <= 4 ORDER BY database_id;"
        )
    )
    assert (found["master"], found["tempdb"], found["msdb"]) == (False, True, True)


@pytest.mark.parametrize(
    ("view", "columns", "key"),
    [
        ("sys.service_contracts", "service_contract_id, name, principal_id", "service_contract_id"),
        ("sys.services", "service_id, name, principal_id", "service_id"),
        ("sys.service_message_types", "message_type_id, name, validation, validation_desc", "message_type_id"),
        ("sys.routes", "route_id, name, remote_service_name, broker_instance, lifetime, address", "route_id"),
        ("sys.service_queues", "name, is_ms_shipped, max_readers, is_activation_enabled, is_receive_enabled", "name"),
    ],
)
def test_the_catalog_of_a_new_database_with_one_object_of_each_kind(services, view, columns, key):
    """No source gives the ids of the predefined objects."""
    services.execute("CREATE ROUTE Elsewhere WITH SERVICE_NAME = '//Far', ADDRESS = 'TCP://far.invalid:4022';")
    assert rows(services, f"SELECT {columns} FROM {view} ORDER BY {key};")


@pytest.mark.parametrize(
    ("statement", "number"),
    [
        ("BEGIN DIALOG @h FROM SERVICE [//No] TO SERVICE 'x' ON CONTRACT [//Test/Contract];", 8423),
        ("BEGIN DIALOG @h FROM SERVICE [//Test/Initiator] TO SERVICE 'x' ON CONTRACT [//No];", 8425),
        ("SEND ON CONVERSATION @h MESSAGE TYPE [//Test/Message] (0x00);", 8418),
        ("SET @h = '11111111-1111-1111-1111-111111111111'; SEND ON CONVERSATION @h (0x00);", 8426),
        ("SET @h = '11111111-1111-1111-1111-111111111111'; END CONVERSATION @h;", 8426),
        ("{begin}; SEND ON CONVERSATION @h MESSAGE TYPE [//No] (0x00);", 8428),
        ("{begin}; SEND ON CONVERSATION @h MESSAGE TYPE [DEFAULT] (0x00);", 8431),
        ("{begin}; SEND ON CONVERSATION @h MESSAGE TYPE [//Test/Message] (NULL);", 8433),
        ("{begin}; SEND ON CONVERSATION (@h, @h) MESSAGE TYPE [//Test/Message] (0x00);", 8451),
        ("ALTER QUEUE dbo.TargetQueue WITH STATUS = OFF; RECEIVE message_body FROM dbo.TargetQueue;", 9617),
        ("DROP QUEUE dbo.TargetQueue;", 3716),
        ("DROP CONTRACT [//Test/Contract];", 3716),
        ("DROP MESSAGE TYPE [//Test/Message];", 3716),
        ("DROP QUEUE dbo.Nothing;", 15151),
        ("DROP CONTRACT [//No];", 15151),
    ],
)
def test_severity_state_and_text_of_errors(services, statement, number):
    dialog = BEGIN.split("uniqueidentifier;")[1].strip().removesuffix("SELECT @h;").strip().removesuffix(";")
    found = caught(services, statement.replace("{begin}", dialog))
    assert found is not None and found[0] == number


def test_the_name_of_an_activated_procedure_in_its_error(services):
    """A call by EXECUTE decides whether ERROR_PROCEDURE() has the schema. Nothing is written about an activation."""
    activate(
        services,
        """
        CREATE OR ALTER PROCEDURE dbo.Reader AS
        BEGIN TRY
            DECLARE @n int = 1 / 0;
        END TRY
        BEGIN CATCH
            INSERT INTO dbo.stored (body) VALUES (CAST(ERROR_PROCEDURE() AS varbinary(256)));
        END CATCH;
        """,
    )
    send(services, begin(services), b"x")
    wait_until(lambda: stored(services))
    assert [body.decode("utf-16-le") for body in stored(services)] == ["dbo.Reader"]


@pytest.mark.parametrize(("contract", "number"), [("[//Test/Contract]", 15151), ("[DEFAULT]", None)])
def test_begin_dialog_needs_references_on_a_contract_but_for_the_systems(services, contract, number):
    """The manual asks for REFERENCES and names neither the error nor the contracts of the system."""
    services.execute("CREATE USER someone WITHOUT LOGIN; GRANT RECEIVE ON OBJECT::dbo.InitiatorQueue TO someone;")
    services.execute("EXECUTE AS USER = 'someone';")
    try:
        found = caught(
            services, f"BEGIN DIALOG @h FROM SERVICE [//Test/Initiator] TO SERVICE 'x' ON CONTRACT {contract};"
        )
    finally:
        services.execute("REVERT;")
    assert (found and found[0]) == number


def test_names_of_the_brokers_performance_objects(connection):
    text = "SELECT DISTINCT RTRIM(object_name) AS name FROM sys.dm_os_performance_counters WHERE object_name LIKE '%Broker%' ORDER BY name;"
    assert rows(connection, text)


def test_a_rebuilt_queue_keeps_its_messages_in_order(services):
    handle = begin(services)
    for body in (b"a", b"b"):
        send(services, handle, body)
    arrived(services, 2)
    services.execute("ALTER QUEUE dbo.TargetQueue REBUILD;")
    assert [row.body for row in receive(services)] == [b"a", b"b"]


# -- only on SQL Server --------------------------------------------------------------------------------------------------


sqlserver_alone = pytest.mark.parametrize("server", [ON_SQLSERVER], indirect=True)


@sqlserver_alone
def test_extended_events_of_the_broker(connection):
    assert rows(
        connection,
        "SELECT name FROM sys.dm_xe_objects WHERE object_type = 'event' AND name LIKE '%broker%' ORDER BY name;",
    )


@sqlserver_alone
def test_fields_of_a_wait_for_a_latch(connection):
    text = "SELECT name, type_name, description FROM sys.dm_xe_object_columns WHERE object_name = 'latch_suspend_end' AND column_type = 'data' ORDER BY column_id;"
    fields = {row[0]: row[2] for row in rows(connection, text)}
    assert {"database_id", "file_id", "page_id", "duration", "mode", "class"} <= set(fields)
    assert "microsecond" in fields["duration"].lower()  # the reduced table `events` says so


@sqlserver_alone
def test_an_event_session_of_a_cell_is_created_read_and_dropped(services):
    """The manual lists no events: whether an instance has all those of the script shows when it creates the session."""
    variables = {"Session": "harness_probe", "Database": services.execute("SELECT DB_NAME();").fetchval()}
    steps = {
        step: scripts.single(f"observe/events_{step}.sql", variables) for step in ("drop", "create", "start", "read")
    }
    try:
        for step in ("drop", "create", "start"):
            services.execute(steps[step])
        [(target_data,)] = rows(services, steps["read"])
        assert event_sessions.read(target_data)[0] >= 0
    finally:
        services.execute(steps["drop"])
    assert not rows(services, steps["read"])


@sqlserver_alone
def test_the_power_plan_is_read_without_an_error(connection):
    [(_, refused)] = rows(connection, scripts.single("doctor/power_plan.sql", {}))
    assert refused is None


@sqlserver_alone
def test_a_client_does_not_see_how_the_log_is_flushed(connection):
    """Where one of these answers, the doctor can show more than commands for the server's machine."""
    registry = "SELECT registry_key, value_name, value_data FROM sys.dm_server_registry WHERE value_name LIKE N'%writethrough%';"
    log = "EXECUTE sys.sp_readerrorlog 0, 1, N'ForceFlush';"
    volume = "SELECT file_system_type FROM sys.dm_os_volume_stats(DB_ID(), 2);"
    settings, entries, [(filesystem,)] = (rows(connection, text) for text in (registry, log, volume))
    assert (settings, entries) == ([], []) and filesystem not in ("xfs", "ext4")


@sqlserver_alone
def test_the_error_log_names_a_disabled_queue(services, connect):
    send(services, begin(services), b"x")
    for _ in range(5):
        with connect(autocommit=False) as connection:
            wait_until(lambda connection=connection: receive(connection))
            connection.rollback()
    wait_until(lambda: not services.execute(ENABLED).fetchval())
    database = services.execute("SELECT DB_NAME();").fetchval()
    services.execute("EXECUTE sys.sp_readerrorlog 0, 1, ?;", database).fetchall()


@sqlserver_alone
def test_readers_at_a_constant_load_stay_as_many_give_or_take_one(services):
    """No source says whether readers come and go at a constant load. A cell counts where one reader came or went."""
    activate(services, READ_ALL, readers=4)
    handles, numbers, began = [begin(services) for _ in range(8)], [], time.monotonic()
    while (at_s := time.monotonic() - began) < 60:
        with attempt() as forget:
            for handle in handles:
                send(services, handle, b"x")
            forget()
        if at_s >= len(numbers):
            numbers.append(services.execute(TASKS).fetchval())
    note("queue readers, second by second", numbers)
    settled = numbers[25:]  # four readers take twenty seconds to start
    assert max(settled) - min(settled) <= 1


@sqlserver_alone
def test_what_an_idle_server_waits_for_is_left_out_of_the_waits(connection):
    """No source lists the idle wait types of SQL Server 2025. What grows here for most of the time belongs into the list."""
    waits = scripts.single("observe/waits.sql", {})
    before, began = {row[0]: row[2] for row in rows(connection, waits)}, time.monotonic()
    time.sleep(20)  # nothing happens that could be waited for
    idle_ms = 1000 * (time.monotonic() - began)
    grown = {row[0]: row[2] - before.get(row[0], 0) for row in rows(connection, waits)}
    note("waits of an idle server, in ms", grown)
    assert [wait_type for wait_type, wait_ms in grown.items() if wait_ms > idle_ms / 2] == []


@sqlserver_alone
def test_a_second_reader_waits_and_no_third_starts_for_messages_of_one_conversation(services):
    """R. Rusanu's page on activation says so; the embedded broker does it, in tests/embedded/broker/test_monitors.py."""
    slow = READ_ALL.replace("TOP (100)", "TOP (1)").replace("TIMEOUT 500", "TIMEOUT 20000")
    activate(services, slow.replace("DELETE FROM", "WAITFOR DELAY '00:00:00.100'; DELETE FROM"), readers=4)
    handle = begin(services)
    for _ in range(200):
        send(services, handle, b"x")
    numbers, began = [], time.monotonic()
    while time.monotonic() - began < 18:  # a third would start after ten seconds
        if time.monotonic() - began >= len(numbers):
            numbers.append(services.execute(TASKS).fetchval())
    note("queue readers of one conversation, second by second", numbers)
    services.execute("ALTER QUEUE dbo.TargetQueue WITH STATUS = OFF;")  # else the end waits for the readers
    assert max(numbers) <= 2


@sqlserver_alone
def test_a_queues_ghost_records_are_shown_and_gone_when_it_is_rebuilt(services):
    """The manual says that the view takes a queue's table from SQL Server 2016 on, and of REBUILD nothing on ghosts."""
    handle = begin(services)
    for _ in range(200):
        send(services, handle, bytes(2000))
    arrived(services, 200)
    while receive(services):
        pass
    size = scripts.single("observe/queue_size.sql", {"Queue": "dbo.TargetQueue"})
    before = services.execute(size).fetchone()
    assert (before.messages, before.pages > 0, before.ghost_records is not None) == (0, True, True)
    services.execute("ALTER QUEUE dbo.TargetQueue REBUILD;")
    services.execute("CHECKPOINT;")
    assert services.execute(size).fetchone().ghost_records == 0


@sqlserver_alone
def test_no_question_meets_a_conflict_of_collations(services):
    """Names in the database have its collation, those in tempdb and master the server's; others are binary."""
    database = services.execute("SELECT DB_NAME();").fetchval()
    services.execute(f"ALTER DATABASE [{database}] COLLATE Finnish_Swedish_100_CS_AS;")
    variables = {"Database": database, "Queue": "dbo.TargetQueue", "Service": "//Test/Target", "Limit": "10"}
    conflicts, asked = {}, 0
    for path in sorted(path for folder in ("doctor", "monitors", "observe") for path in (SQL_ROOT / folder).iterdir()):
        text = path.read_text(encoding="utf-8")
        is_question = re.search(r"\*/\s*(SELECT|WITH)\b", text) and set(re.findall(r"\$\((\w+)\)", text)) <= set(
            variables
        )
        try:
            if is_question:
                asked += 1
                services.execute(scripts.single(path, variables)).fetchall()
        except pyodbc.Error as error:
            if re.search(r"\((446|451|457|468)\)", str(error)):
                conflicts[path.name] = str(error)
    assert conflicts == {} and asked > 50


@sqlserver_alone
def test_tempdb_has_files(connection):
    assert rows(
        connection,
        "SELECT type_desc, COUNT(*) AS files FROM tempdb.sys.database_files GROUP BY type_desc ORDER BY type_desc;",
    )
