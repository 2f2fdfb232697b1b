"""The scripts of `sql/` and the paper's listings, end to end: target and initiators in one process."""

import re
import struct
from pathlib import Path

import pytest

from harness.files import workload_file
from harness.lab import dialog_pool, scripts
from harness.lab.link import _BINDING, _OWN, _REMOTE, _SECURED_OWN, _SECURED_REMOTE, set_up_scripts
from tests.embedded.tsql.sides import LISTINGS, Message, Side, World

NAMES = workload_file.Names()
SERVICE = NAMES.target_service
RUN = 7


class Linked:
    """A target and initiators, installed and linked by the scripts of `sql/` as the lab does it."""

    def __init__(self, initiators: int = 1, version: str = "2008") -> None:
        self.world = World()
        self.target = self.world.side("Target", version)
        self.initiators = [self.world.side(f"Initiator{number}", version) for number in range(1, initiators + 1)]
        self.sides = [self.target, *self.initiators]
        for number, side in enumerate(self.sides):
            self.set_up(side, 5114 + number)
        for side in self.initiators:
            self.introduce(side, self.target)
            self.introduce(self.target, side)

    def variables(self, side: Side) -> dict[str, str]:
        return {
            "Database": f"SSB{side.name}",
            "LocalName": side.name,
            "Encryption": "ON",
            "DialogRatio": "1",
            "LastDialog": "1000",
            "ActivationProcedure": "dbo.SRPerf_Queue_LabTest",
            "MaxQueueReaders": "16",
            "ReceiveTop": "10000",
            "ReceiveTimeoutMs": "3000",
            "StoreInOrder": "1",
            "ListenerIp": "(127.0.0.1)",
            "EndpointEncryption": "DISABLED",
            "DataSizeMb": "1024",
            "LogSizeMb": "2048",
            "MasterKeyPassword": "Str0ng!",
            "ClientPassword": "Str0ng!",
            "Prefix": "lab_",
            "Run": str(RUN),
            "MessageType": NAMES.message_type,
            "Contract": NAMES.contract,
            "Service": SERVICE,
            "TargetService": SERVICE,
            "Queue": NAMES.target_queue,
        }

    def set_up(self, side: Side, port: int) -> None:
        variables = self.variables(side) | {"BrokerPort": str(port)}
        side.address = f"TCP://127.0.0.1:{port}"
        for path in set_up_scripts(workload_file.paper(), is_target=side is self.target):
            side.script(path, **variables)
        side.script("link/master_key.sql", **variables | {"Database": "master"})
        side.script("link/master_key.sql", **variables)
        for path in (*_OWN, *_SECURED_OWN):
            side.script(path, **variables)

    def exported(self, side: Side, kind: str) -> str:
        results = side.script(f"link/export_{kind}_certificate.sql", **self.variables(side))
        return "0x" + results[-1].sets[0][1][0][0].hex().upper()

    def introduce(self, side: Side, other: Side) -> None:
        guid = other.value(f"SELECT service_broker_guid FROM sys.databases WHERE name = N'SSB{other.name}';")
        variables = self.variables(side) | {
            "RemoteName": other.name,
            "LoginPassword": "Str0ng!",
            "RouteName": f"Test_{other.name}",
            "ServiceName": SERVICE,
            "BrokerInstance": guid,
            "BrokerAddress": other.address,
        }
        for path in (*_REMOTE, *_SECURED_REMOTE):
            binary = self.exported(other, "dialog" if "dialog" in path else "endpoint")
            side.script(path, **variables | {"CertificateBinary": binary})
        if side is not self.target:
            side.script(_BINDING, **variables)

    def guid(self) -> str:
        return self.observe(self.target, "instance")[0]["service_broker_guid"]

    def observe(self, side: Side, name: str) -> list[dict]:
        """A file of sql/observe: rows as dictionaries."""
        side.run(f"USE [SSB{side.name}];")
        results = side.run(scripts.single(f"observe/{name}.sql", self.variables(side)))
        [(columns, rows)] = results.sets
        return [dict(zip((column.name for column in columns), row, strict=True)) for row in rows]

    def pool(self, dialogs: int) -> None:
        for side in self.initiators:
            side.run(f"USE [SSB{side.name}];")
            side.call("dbo.CreateDialogs", dialogs, self.guid())
            side.call("dbo.WarmUpDialogs")
        self.world.run_for(10)


def body(initiator: int, thread: int, sequence: int, size: int = 100) -> bytes:
    return (struct.pack(">4sIHHIQQ", b"SSBH", RUN, initiator, thread, 0, sequence, 1_000) + bytes(size))[:size]


@pytest.fixture(scope="module")
def linked() -> Linked:
    linked = Linked(initiators=2, version="2022")
    linked.pool(15)
    return linked


def test_the_pool_is_complete_and_warm(linked):
    for side in linked.initiators:
        assert linked.observe(side, "conversations") == [
            {"is_initiator": 1, "state": "CO", "state_desc": "CONVERSING", "conversations": 15}
        ]
        assert linked.observe(side, "transmission_queue") == [{"messages": 0}]
        assert [row[0] for row in side.rows("SELECT id FROM dbo.dialogs ORDER BY id;")] == list(range(1, 16))
    assert linked.observe(linked.target, "conversations")[0]["conversations"] == 30
    assert linked.target.value("SELECT COUNT(*) FROM dbo.messageDrop;") == 30
    assert linked.target.value("SELECT SUM(messages) FROM dbo.receiveCount;") == 30


def test_every_message_is_processed_once_in_order(linked):
    target = linked.target
    target.script("reset/messages.sql", **linked.variables(target))
    for number, side in enumerate(linked.initiators, start=1):
        dialogs = side.rows("SELECT id / 5, handle FROM dbo.dialogs WHERE id <= 15 AND id % 5 = 0 ORDER BY id;")
        for sequence in range(10):
            for thread, handle in dialogs:
                side.call("dbo.SendMessage", handle, body(number, thread, sequence))
    linked.world.run_for(5)
    deliveries = linked.observe(target, "deliveries")
    assert len(deliveries) == 60
    for dialog in {(row["initiator"], row["thread"]) for row in deliveries}:
        stored = [row["sequence"] for row in deliveries if (row["initiator"], row["thread"]) == dialog]
        assert stored == list(range(10))
    assert all(row["sent_at_ns"] == 1_000 for row in deliveries)
    receives = linked.observe(target, "receives")
    assert sum(row["messages"] for row in receives) == 60
    assert linked.observe(target, "errors") == []


def test_a_dialog_per_message_leaves_nothing_but_closed_targets_which_go_when_their_time_is_over():
    linked = Linked()
    target, [side] = linked.target, linked.initiators
    side.run("USE SSBInitiator1;")
    for sequence in range(5):
        side.call("dbo.SendMessageOnNewDialog", linked.guid(), body(1, 1, sequence))
    linked.world.run_for(5)
    assert sorted(row["sequence"] for row in linked.observe(target, "deliveries")) == [0, 1, 2, 3, 4]
    assert sum(row["messages"] for row in linked.observe(target, "receives")) == 10, "each message and its EndDialog"
    assert linked.observe(target, "errors") == []
    assert linked.observe(side, "transmission_queue") == [{"messages": 0}]
    assert linked.observe(side, "queue_depth")[0]["messages"] == 0, "the target answers nothing"
    assert linked.observe(side, "conversations") == []
    closed = [{"is_initiator": 0, "state": "CD", "state_desc": "CLOSED", "conversations": 5}]
    assert linked.observe(target, "conversations") == closed
    linked.world.run_for(3600)
    assert linked.observe(target, "conversations") == closed
    linked.world.run_for(1900)
    assert linked.observe(target, "conversations") == []


def test_a_receive_takes_no_more_than_it_is_told_and_a_reader_stays_no_longer():
    linked = Linked()
    linked.pool(1)
    target, [side] = linked.target, linked.initiators
    linked.world.run_for(5)
    assert linked.observe(target, "activated_tasks") == []
    one_by_one = linked.variables(target) | {"ReceiveTop": "1", "ReceiveTimeoutMs": "100"}
    target.script("workloads/paper/receive_procedure.sql", **one_by_one)
    target.script("reset/messages.sql", **one_by_one)
    handle = side.value("SELECT handle FROM dbo.dialogs;")
    for sequence in range(4):
        side.call("dbo.SendMessage", handle, body(1, 1, sequence))
    linked.world.run_for(1)
    assert [row["messages"] for row in linked.observe(target, "receives")] == [1, 1, 1, 1]
    assert linked.observe(target, "activated_tasks") == []


def test_the_trigger_of_async_trigger_sends_each_row_of_an_insert_in_order_and_leaves_none():
    linked = Linked()
    linked.pool(2)
    target, [side] = linked.target, linked.initiators
    target.script("reset/messages.sql", **linked.variables(target))
    for path in (*workload_file.read("async-trigger").initiator_scripts,) * 2:  # each can be run twice
        side.script(path, **linked.variables(side))
    first, second = (row[0] for row in side.rows("SELECT handle FROM dbo.dialogs ORDER BY id;"))
    side.call("dbo.InsertOrder", first, body(1, 1, 0))
    rows = [f"('{first}', 0x{body(1, 1, n).hex()}), ('{second}', 0x{body(1, 2, n).hex()})" for n in range(1, 4)]
    side.run(f"INSERT INTO dbo.orders (handle, body) VALUES {', '.join(rows)};")
    assert side.value("SELECT COUNT(*) FROM dbo.orders;") == 0
    linked.world.run_for(5)
    sent = [(row["thread"], row["sequence"]) for row in linked.observe(target, "deliveries")]
    assert [one for one in sent if one[0] == 1] == [(1, n) for n in range(4)]
    assert [one for one in sent if one[0] == 2] == [(2, n) for n in range(1, 4)]


def test_a_priority_holds_on_both_sides_for_dialogs_begun_after_it():
    linked = Linked()
    for level in ("3", "8"):  # it can be changed
        for side in linked.sides:
            side.script("common/priority.sql", **linked.variables(side) | {"Priority": level})
    linked.pool(2)
    for side in linked.sides:
        assert side.rows("SELECT DISTINCT priority FROM sys.conversation_endpoints;") == [(8,)]
        assert side.value("SELECT is_honor_broker_priority_on FROM sys.databases WHERE database_id = DB_ID();")
        side.script("common/priority.sql", **linked.variables(side) | {"Priority": "5"})
        assert side.value("SELECT COUNT(*) FROM sys.conversation_priorities;") == 0


def test_retained_messages_count_in_no_depth_and_end_with_their_conversations():
    linked = Linked()
    for side in linked.sides:
        for switch in ("ON", "OFF", "ON"):
            side.script("common/retention.sql", **linked.variables(side) | {"Retention": switch})
    linked.pool(3)
    [side] = linked.initiators
    for observed in linked.sides:  # received ones on the target, sent ones on the initiator
        assert linked.observe(observed, "queue_depth")[0]["messages"] == 3
        assert linked.observe(observed, "queue_depth_retention")[0]["messages"] == 0
    assert linked.observe(linked.target, "target_progress_retention")[0]["queue_depth"] == 0
    linked.target.script("target/activation.sql", **linked.variables(linked.target))
    linked.target.run("ALTER QUEUE dbo.MySSBLabTestQueue WITH ACTIVATION (STATUS = OFF);")
    linked.world.run_for(10)  # readers end
    side.call("dbo.WarmUpDialogs")
    linked.world.run_for(5)
    assert linked.observe(linked.target, "queue_depth")[0]["messages"] == 6
    assert linked.observe(linked.target, "queue_depth_retention")[0]["messages"] == 3
    assert linked.observe(linked.target, "target_progress_retention")[0]["queue_depth"] == 3
    for observed in linked.sides:
        observed.script("reset/broker.sql", **linked.variables(observed))
        assert linked.observe(observed, "queue_depth")[0]["messages"] == 0


def test_variants_of_the_papers_set_up_send_gather_and_store_in_order():
    linked = Linked()
    linked.pool(2)
    target, [side] = linked.target, linked.initiators
    variants = workload_file.read("paper-variants")
    linked.world.run_for(5)  # readers end
    heaps = ("target/message_drop_heap.sql", "target/receive_count_heap.sql")
    clustered = ("target/message_drop.sql", "target/receive_count.sql")
    stored = "SELECT type_desc FROM sys.indexes WHERE object_id = OBJECT_ID(N'dbo.{}');"
    for kind, paths in (("CLUSTERED", clustered), ("HEAP", heaps), ("CLUSTERED", clustered), ("HEAP", heaps)):
        for path in ("target/drop_tables.sql", *paths):
            target.script(path, **linked.variables(target), Tables=kind)
        for table in ("messageDrop", "receiveCount"):
            assert target.rows(stored.format(table)) == [(kind,)]
    for one, paths in ((side, variants.initiator_scripts), (target, variants.target_scripts)):
        for path in paths:
            one.script(path, **linked.variables(one) | {"StoreInOrder": "0"})
    is_without_order = "SELECT 1 WHERE OBJECT_DEFINITION(OBJECT_ID(N'dbo.SRPerf_Queue_LabTest')) LIKE N'%IF 0 = 1%';"
    assert target.rows(is_without_order) == [(1,)]
    target.script("target/activation.sql", **linked.variables(target))
    target.script("target/stop_activation.sql", **linked.variables(target))
    handle = side.value("SELECT TOP (1) handle FROM dbo.dialogs;")
    for sequence in range(9):
        side.call("dbo.SendMessageAsCaller", handle, body(1, 1, sequence))
    linked.world.run_for(10)
    assert linked.observe(target, "target_progress") == [{"processed": 0, "queue_depth": 9, "readers": 0}]
    target.script("target/activation.sql", **linked.variables(target))
    linked.world.run_for(1)
    assert linked.observe(target, "target_progress") == [{"processed": 9, "queue_depth": 0, "readers": 1}]
    assert [row["sequence"] for row in linked.observe(target, "deliveries")] == list(range(9))


def test_the_send_procedure_of_the_callers_right_differs_from_the_papers_in_that_alone() -> None:
    folder = scripts.SQL_ROOT / "workloads"
    expected, found = (
        path.read_text(encoding="utf-8").partition("*/\n")[2]
        for path in (folder / "paper" / "send_message.sql", folder / "paper-variants" / "send_message_as_caller.sql")
    )
    grant = "[$(Prefix)Client];\nGO\n"
    for old, new in {
        "SendMessage\n": "SendMessageAsCaller\n",
        "SendMessage TO": "SendMessageAsCaller TO",
        "WITH EXECUTE AS OWNER\n": "",
        grant: f"{grant}\nGRANT RECEIVE ON OBJECT::$(Queue) TO {grant}",
    }.items():
        assert expected.count(old) == 1
        expected = expected.replace(old, new)
    assert found == expected


def test_dialogs_in_use_share_conversation_groups_for_each_ratio():
    linked = Linked()
    linked.pool(6)
    [side] = linked.initiators
    side.script("initiator/group_dialogs.sql", **linked.variables(side))
    groups = """\
SELECT d.id, e.conversation_group_id
FROM dbo.dialogs AS d INNER JOIN sys.conversation_endpoints AS e ON e.conversation_handle = d.handle ORDER BY d.id;
"""

    def places(ids):
        """Which of these dialogs share a group: [0, 0, 1] if the first two do."""
        found = dict(side.rows(groups))
        chosen = [found[number] for number in ids]
        return [list(dict.fromkeys(chosen)).index(one) for one in chosen]

    assert places(range(1, 7)) == [0, 1, 2, 3, 4, 5]
    side.call("dbo.GroupDialogs", 1, 5, 2)
    assert places(range(1, 7)) == [0, 0, 1, 1, 2, 3]
    side.call("dbo.GroupDialogs", 2, 3, 2)
    assert places((2, 4, 6)) == [0, 0, 1]


def test_a_message_is_processed_when_its_receive_is_committed_and_not_if_it_is_rolled_back():
    linked = Linked()
    linked.pool(2)
    target, [side] = linked.target, linked.initiators
    linked.world.run_for(5)
    target.run("USE SSBTarget; ALTER QUEUE dbo.MySSBLabTestQueue WITH ACTIVATION (STATUS = OFF);")
    for handle in side.rows("SELECT handle FROM dbo.dialogs;"):
        side.call("dbo.SendMessage", handle[0], body(1, 1, 0))
    linked.world.run_for(1)
    reader = target.connect("SSBTarget")
    target.run("BEGIN TRANSACTION; RECEIVE TOP (1) message_body FROM dbo.MySSBLabTestQueue;", reader)
    assert [linked.observe(target, name)[0]["messages"] for name in ("queue_depth", "unprocessed")] == [1, 2]
    target.run("ROLLBACK TRANSACTION;", reader)
    assert linked.observe(target, "unprocessed") == [{"messages": 2}]
    target.run("RECEIVE TOP (1) message_body FROM dbo.MySSBLabTestQueue;", reader)
    assert linked.observe(target, "unprocessed") == [{"messages": 1}]


def test_a_conversation_that_the_target_ends_by_an_error_shows_at_the_initiator_with_its_text():
    linked = Linked()
    linked.pool(2)
    target, [side] = linked.target, linked.initiators
    assert linked.observe(side, "error_messages") == []
    target.run("USE SSBTarget;")
    for (handle,) in target.rows("SELECT conversation_handle FROM sys.conversation_endpoints;"):
        target.run(f"END CONVERSATION '{handle}' WITH ERROR = 7 DESCRIPTION = N'No such order & no customer.';")
    linked.world.run_for(5)
    [row] = linked.observe(side, "error_messages")
    assert (row["errors"], dialog_pool.error_message_text(row["message_body"])) == (2, "7 No such order & no customer.")


NAMES_OBSERVED = sorted(path.stem for path in (scripts.SQL_ROOT / "observe").glob("*.sql"))
EVENTS = [name for name in NAMES_OBSERVED if name.startswith("events_")]  # for SQL Server alone
OBSERVATIONS = [name for name in NAMES_OBSERVED if name not in EVENTS]


@pytest.mark.parametrize("name", EVENTS)
def test_the_embedded_server_refuses_extended_events(linked, name):
    text = scripts.single(f"observe/{name}.sql", {"Session": "harness", "Database": "d"})
    with pytest.raises(Message, match=r"50001.*(EVENT|dm_xe_sessions)"):
        linked.target.run(text)


@pytest.mark.parametrize("name", OBSERVATIONS)
def test_every_observation_has_the_columns_its_head_announces(linked, name):
    text = (scripts.SQL_ROOT / "observe" / f"{name}.sql").read_text()
    tables_of_target = {"deliveries", "errors", "receives"}
    side = linked.initiators[0] if name.startswith(("dialog_page", "used_")) else linked.target
    assert side is linked.target or name not in tables_of_target
    page = {"DatabaseId": "5", "FileId": "1", "PageId": "16", "ObjectId": "72"}
    session = side.connect(f"SSB{side.name}", is_administrative=name.endswith("_locations"))
    results = side.run(scripts.single(f"observe/{name}.sql", linked.variables(side) | page), session)
    session.close()
    [(columns, _)] = results.sets
    announced = re.search(r"Columns:(.*?)\*/", text, re.DOTALL)[1]
    position = 0
    for column in columns:
        position = announced.index(column.name, position) + len(column.name)


def test_the_scripts_run_twice(linked):
    side = linked.initiators[0]
    for path in (*set_up_scripts(workload_file.paper(), is_target=False), *_OWN, *_SECURED_OWN):
        side.script(path, **linked.variables(side) | {"BrokerPort": "5115"})
    for path in set_up_scripts(workload_file.paper(), is_target=True):
        linked.target.script(path, **linked.variables(linked.target))


def test_a_reset_ends_every_conversation_and_changes_the_guid():
    linked = Linked()
    linked.pool(4)
    before = linked.guid()
    for side in linked.sides:
        side.script("reset/broker.sql", **linked.variables(side))
        assert linked.observe(side, "conversations") == []
    assert linked.guid() != before
    for side in linked.initiators:
        linked.introduce(side, linked.target)
        linked.introduce(linked.target, side)
    linked.pool(4)
    assert linked.observe(linked.target, "conversations")[0]["conversations"] == 4


def test_readers_start_every_five_seconds_up_to_the_maximum_and_end_after_three_idle_seconds(linked):
    assert linked.observe(linked.target, "queue_monitors")[0]["state"] == "INACTIVE"
    linked.world.run_for(5)
    assert linked.observe(linked.target, "activated_tasks") == []


def test_a_killed_target_comes_back_with_tables_procedures_and_conversations():
    linked = Linked()
    linked.pool(1)
    target, [side] = linked.target, linked.initiators
    handle = side.value("SELECT handle FROM dbo.dialogs;")
    side.call("dbo.SendMessage", handle, body(1, 1, 0))
    linked.world.run_for(5)
    stored = target.value("USE SSBTarget; SELECT COUNT(*) FROM dbo.messageDrop;")
    assert stored == 2
    target.crash()
    assert target.value("USE SSBTarget; SELECT COUNT(*) FROM dbo.messageDrop;") == stored
    side.call("dbo.SendMessage", handle, body(1, 1, 1))
    linked.world.run_for(70)
    assert target.value("SELECT COUNT(*) FROM dbo.messageDrop;") == stored + 1
    assert target.rows("SELECT MAX(id), COUNT(*) FROM dbo.messageDrop;") == [(3, 3)]


# -- the paper's listings ----------------------------------------------------------------------------------------------


def listing(name: str) -> list[str]:
    return [batch.text for batch in scripts.split(Path(LISTINGS, name).read_text())]


def test_the_papers_listings_run_verbatim():
    linked = Linked()
    world, target, [side] = linked.world, linked.target, linked.initiators
    for one in linked.sides:
        one.run("CREATE DATABASE Paper;")
        one.run("USE Paper;")
        one.run("CREATE MASTER KEY ENCRYPTION BY PASSWORD = 'x';")
    # Target
    guid = target.value("SELECT service_broker_guid FROM sys.databases WHERE database_id = DB_ID();")
    target.run("CREATE TABLE dbo.messageDrop (id int IDENTITY PRIMARY KEY, messageVal varbinary(2000));")
    for text in listing("initiator_configuration.sql")[:2]:
        target.run(text)
    [procedure] = listing("receive_procedure.sql")
    target.run(procedure)
    [queue] = listing("target_queue.sql")
    target.run(queue)
    target.run(listing("initiator_configuration.sql")[3])
    target.run(f"GRANT SEND ON SERVICE::[{SERVICE}] TO [public];")
    # Initiator
    side.run("CREATE USER [User_MYINITIATORSERVER_INST1_SSBSender] WITHOUT LOGIN;")
    side.run("CREATE USER [Proxy:User_MYINITIATORSERVER_INST1_SSBSender] WITHOUT LOGIN;")
    for text in listing("initiator_configuration.sql"):
        side.run(text)
    side.run("DROP ROUTE [Test_MYTARGETSERVER_INST2_1];")
    side.run("DROP REMOTE SERVICE BINDING [Test_MYTARGETSERVER_INST2_1];")
    route = f"WITH SERVICE_NAME = '{SERVICE}', BROKER_INSTANCE = '{guid}', ADDRESS = '{target.address}'"
    side.run(f"CREATE ROUTE there {route};")
    back = side.value("SELECT service_broker_guid FROM sys.databases WHERE database_id = DB_ID();")
    target.run(
        f"CREATE ROUTE back WITH BROKER_INSTANCE = '{back}', SERVICE_NAME = '{SERVICE}', ADDRESS = '{side.address}';"
    )
    side.run("CREATE TABLE dbo.dialogs (id int NOT NULL PRIMARY KEY, handle uniqueidentifier NOT NULL);")
    [pool] = listing("dialog_pool.sql")
    unencrypted = pool.replace("encryption=ON", "encryption=OFF")
    declared = f"declare @service_broker_guid uniqueidentifier = '{guid}';\n"
    side.run(declared + unencrypted.replace("7500", "450"))
    assert side.rows("SELECT id FROM dbo.dialogs ORDER BY id;") == [(1,), (2,), (3,)]
    [warm_up] = listing("warm_up.sql")
    side.run(warm_up)
    world.run_for(20)
    assert target.value("SELECT COUNT(*) FROM dbo.messageDrop;") == 450
    assert (
        target.value(
            "SELECT COUNT(*) FROM dbo.messageDrop WHERE messageVal = CAST(REPLICATE('x', 50) AS varbinary(50));"
        )
        == 450
    )
    for name in ("transmission_queue.sql", "transmission_queue_dac.sql"):
        [text] = listing(name)
        results = side.run(text, side.connect("Paper", is_administrative=True))
        assert [column.name for column in results.sets[0][0]] == ["XmitQ Depth"]
        assert results.sets[0][1] == [(0,)]
    [dialog] = listing("dialog_security.sql")
    side.run(dialog)


def test_the_papers_endpoint_listing_runs_verbatim():
    side = World().side("Target")
    side.run(
        "CREATE MASTER KEY ENCRYPTION BY PASSWORD = 'x'; CREATE CERTIFICATE [PE6950-01_SSBReceiver_EP] WITH SUBJECT = 'x';"
    )
    [text] = listing("endpoint.sql")
    side.run(text)
    rows = side.rows(
        "SELECT e.name, t.port, e.state_desc FROM sys.service_broker_endpoints AS e JOIN sys.tcp_endpoints AS t ON t.endpoint_id = e.endpoint_id;"
    )
    assert rows == [("Endpoint_SRPerf_1", 5114, "STARTED")]


def test_the_papers_dialog_pool_of_7500_dialogs_keeps_50():
    side = World().side("Initiator")
    side.run("CREATE DATABASE Paper;")
    side.run("USE Paper;")
    for text in listing("initiator_configuration.sql")[:4]:
        side.run(text)
    side.run("CREATE TABLE dbo.dialogs (id int NOT NULL PRIMARY KEY, handle uniqueidentifier NOT NULL);")
    [pool] = listing("dialog_pool.sql")
    side.run("declare @service_broker_guid uniqueidentifier\nset @service_broker_guid = newid()\n" + pool)
    assert side.value("SELECT COUNT(*) FROM dbo.dialogs;") == 50
    assert side.value("SELECT COUNT(*) FROM sys.conversation_endpoints;") == 7500


def test_a_queue_is_rebuilt_but_shows_no_pages(linked):
    target = linked.target
    for batch in scripts.load("reset/queue.sql", linked.variables(target)):
        target.run(batch.text)
    not_shown = dict.fromkeys(("pages", "ghost_records", "transmission_pages"))
    [size] = linked.observe(target, "queue_size")
    del size["memory_mib"]  # of a process, which this instance does not have
    assert size == {"messages": 0, "conversations": size["conversations"], **not_shown}
