"""Linking embedded instances: names, security settings, a second link, the clients' login."""

from collections.abc import Iterator
from pathlib import Path

import pyodbc
import pytest

from harness import doctor
from harness.definitions.lab_kinds import EMBEDDED
from harness.files import workload_file
from harness.files.settings import Settings
from harness.files.workload_file import Dialogs, Names, Queue, WorkloadError
from harness.lab import dialog_pool, link, scripts
from harness.lab.instances import Instance, Lab, LabError, Security, connections
from harness.lab.opening import Topology
from harness.lab.opening import open as open_lab

pytestmark = pytest.mark.process

CALL = "{CALL dbo.SendMessage (?, ?)}"


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    directory: Path = tmp_path_factory.mktemp("lab")
    with open_lab(Topology(EMBEDDED), version="2008", initiators=2, directory=directory) as lab:
        yield lab


def value(instance: Instance, statement: str, database: str = "master") -> object:
    with connections([instance], database) as (connection,):
        return scripts.scalar(connection, statement)


def linked_with(lab: Lab, security: Security, prefix: str = "") -> Lab:
    lab.security, lab.prefix = security, prefix
    link.link(lab)
    return lab


def send_one(lab: Lab, number: int = 0) -> None:
    """A pool of two dialogs on each initiator; one message as the clients send it, and it arrives."""
    dialog_pool.build(lab, initiators=len(lab.initiators), dialogs=4)
    instance = lab.initiators[number]
    with connections(lab.initiators) as opened, connections([lab.target]) as (target,):
        handle = dialog_pool.used(opened, 2, 2)[number][0]
        client = pyodbc.connect(instance.client_connection_string(), autocommit=True)
        client.execute(CALL, handle, b"x" * 100)
        client.close()
        dialog_pool.wait_until_drained(lab, lab.initiators, opened, target, expected=1, timeout_s=120)
        assert dialog_pool.processed(target) == 1


def test_only_dialogs_in_use_are_warmed_up(lab: Lab) -> None:
    linked_with(lab, Security())
    link.remove_conversations(lab)
    dialog_pool.build(lab, initiators=2, dialogs=12, used=((1, 3), (4, 3)))
    sent = "SELECT d.id FROM dbo.dialogs AS d INNER JOIN sys.conversation_endpoints AS e ON e.conversation_handle = d.handle WHERE e.send_sequence >= {} ORDER BY d.id;"
    with connections(lab.initiators) as opened:
        for connection in opened:
            assert scripts.values(connection, sent.format(0)) == list(range(1, 13))
            assert scripts.values(connection, sent.format(1)) == [1, 2, 3, 4, 8, 12]
    assert value(lab.target, "SELECT COUNT(*) FROM sys.conversation_endpoints;", lab.target.database) == 2 * 6


def test_a_depth_that_metadata_get_wrong_holds_nothing_up(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    linked_with(lab, Security())
    monkeypatch.setattr(dialog_pool, "_STANDSTILL_S", 0.5)
    depth = dialog_pool.queue_depth
    monkeypatch.setattr(dialog_pool, "queue_depth", lambda *args, **options: 1 + depth(*args, **options))
    send_one(lab)


def test_the_options_of_a_workload_hold_until_another_is_linked(lab: Lab) -> None:
    priorities = "SELECT MAX(priority) FROM sys.conversation_priorities;"
    retains = f"SELECT CAST(is_retention_enabled AS int) FROM sys.service_queues WHERE object_id = OBJECT_ID(N'{lab.target.queue}');"
    paper = lab.workload
    lab.workload = paper.model_copy(
        update={"dialogs": Dialogs(priority=8, per_group=2), "queue": Queue(retention=True)}
    )
    try:
        linked_with(lab, Security())
        for instance in lab.instances:
            assert value(instance, priorities, instance.database) == 8
            assert value(instance, retains, instance.database) == 1
        send_one(lab)
        for instance in (lab.target, lab.initiators[0]):
            used = "SELECT MIN(priority) FROM sys.conversation_endpoints;"
            assert value(instance, used, instance.database) == 8
        with connections(lab.initiators) as opened:
            handles = dialog_pool.identifiers(lab, opened, paper.client, 2, 2)
        listed = ", ".join(f"'{handle}'" for handle in handles[0])
        groups = f"SELECT COUNT(DISTINCT conversation_group_id) FROM sys.conversation_endpoints WHERE conversation_handle IN ({listed});"
        assert value(lab.initiators[0], groups, lab.initiators[0].database) == 1
    finally:
        lab.workload = paper
    linked_with(lab, Security())
    for instance in lab.instances:
        assert value(instance, priorities, instance.database) is None
        assert value(instance, retains, instance.database) == 0


@pytest.mark.parametrize("security", [Security(), Security(False, True), Security(True, True), Security(False, False)])
def test_every_link_carries_messages_whatever_the_previous_link_was(lab: Lab, security: Security) -> None:
    linked_with(lab, security)
    encryption = "SELECT encryption_algorithm_desc FROM sys.service_broker_endpoints;"
    bindings = "SELECT COUNT(*) FROM sys.remote_service_bindings;"
    for instance in lab.instances:
        assert value(instance, encryption) == ("AES" if security.endpoint_encryption else "NONE")
    for instance in lab.initiators:
        assert value(instance, bindings, instance.database) == int(security.dialog)
    send_one(lab)


def test_the_names_of_a_workload_are_those_of_its_objects_on_both_sides() -> None:
    names = Names(
        message_type="//Shop/Order",
        contract="orders (contract)",
        initiator_service="Shop",
        target_service="//Warehouse/Orders",
        initiator_queue="dbo.Answers",
        target_queue="[dbo].[//Warehouse/Queue]",
    )
    workload = workload_file.paper().model_copy(update={"names": names})
    with open_lab(Topology(EMBEDDED, workload=workload), version="2008") as lab:
        send_one(lab)
        link.remove_conversations(lab)
        send_one(lab)
        findings = doctor.examine(lab, cells=[], settings=Settings())
        assert [one for one in findings if one.severity != "information"] == []
        for instance, service, queue in zip(
            lab.instances, ("//Warehouse/Orders", "Shop"), ("//Warehouse/Queue", "Answers"), strict=True
        ):
            with connections([instance]) as (connection,):
                for view, key, name in (
                    ("service_message_types", "message_type_id", "//Shop/Order"),
                    ("service_contracts", "service_contract_id", "orders (contract)"),
                    ("services", "service_id", service),
                ):
                    assert scripts.values(connection, f"SELECT name FROM sys.{view} WHERE {key} >= 65536;") == [name]
                assert scripts.values(connection, "SELECT name FROM sys.service_queues WHERE is_ms_shipped = 0;") == [
                    queue
                ]


def test_a_queue_that_does_not_drain_is_explained_whatever_its_name() -> None:
    workload = workload_file.paper().model_copy(update={"names": Names(target_queue="dbo.[//Warehouse/Queue]")})
    with open_lab(Topology(EMBEDDED, workload=workload), version="2008") as lab, connections([lab.target]) as (target,):
        target.execute("ALTER QUEUE dbo.[//Warehouse/Queue] WITH STATUS = OFF;")
        with pytest.raises(LabError, match="its queue is disabled"):
            dialog_pool.build(lab, initiators=1, dialogs=1)


def test_a_linked_lab_refuses_a_workload_whose_procedure_no_script_creates(lab: Lab) -> None:
    paper = workload_file.paper()
    misspelt = paper.model_copy(update={"client": paper.client.model_copy(update={"procedure": "dbo.SendMesage"})})
    with pytest.raises(WorkloadError, match=r"no script of the initiator creates dbo\.SendMesage"):
        link.change_workload(lab, misspelt)
    link.change_workload(lab, paper)


def test_names_outside_the_labs_databases_begin_with_the_prefix(lab: Lab) -> None:
    for instance in lab.instances:
        with connections([instance], "master") as (connection,):
            connection.execute("DROP ENDPOINT [Endpoint_SRPerf_1];")
    linked_with(lab, Security(), prefix="qa_")
    target, initiator = lab.target, lab.initiators[1]
    assert value(target, "SELECT name FROM sys.service_broker_endpoints;") == "qa_Endpoint_SRPerf_1"
    for instance, others in ((target, ("Initiator1", "Initiator2")), (initiator, ("Target",))):
        own = link.local_name(instance)
        for name in (f"qa_{own}_Endpoint", *(f"qa_{other}_Endpoint" for other in others)):
            assert value(instance, f"SELECT CERT_ID(N'{name}');") is not None
        for other in others:
            assert value(instance, f"SELECT SUSER_ID(N'qa_User_{other}');") is not None
            assert value(instance, f"SELECT USER_ID(N'qa_User_{other}');") is not None
    assert initiator.client is not None and initiator.client.user == "qa_Client"
    send_one(lab, 1)


def test_a_reset_ends_conversations_and_turns_a_disabled_queue_on(lab: Lab) -> None:
    dialog_pool.build(lab, initiators=1, dialogs=1)
    before = str(lab.identities[0]["service_broker_guid"])
    with connections([lab.target]) as (target,):
        target.execute("ALTER QUEUE dbo.MySSBLabTestQueue WITH STATUS = OFF;")
    link.remove_conversations(lab)
    assert str(lab.identities[0]["service_broker_guid"]) != before
    for instance in lab.instances:
        assert value(instance, "SELECT COUNT(*) FROM sys.conversation_endpoints;", instance.database) == 0
    send_one(lab)


def test_every_link_gives_clients_a_new_password_that_shows_nowhere(lab: Lab) -> None:
    instance = lab.initiators[0]
    before = instance.client_connection_string()
    linked_with(lab, Security(), lab.prefix)
    assert instance.client is not None
    assert instance.client.password not in repr(instance)
    with pytest.raises(pyodbc.Error, match="Login failed for user"):
        pyodbc.connect(before)
    pyodbc.connect(instance.client_connection_string()).close()


def test_clients_may_call_the_send_procedure_and_nothing_else(lab: Lab) -> None:
    instance = lab.initiators[0]
    client = pyodbc.connect(instance.client_connection_string(), autocommit=True)
    for statement, number in {
        "SELECT handle FROM dbo.dialogs;": 229,
        "RECEIVE * FROM dbo.MySSBLabTestQueue;": 229,
        "EXECUTE dbo.WarmUpDialogs;": 229,
        "CREATE TABLE dbo.x (a int);": 262,
        "SELECT * FROM sys.dm_os_wait_stats;": 300,
    }.items():
        with pytest.raises(pyodbc.Error, match=rf"\({number}\)"):
            client.execute(statement)
    client.close()
