"""What keeps messages from the other side of a pair of instances, and what only a look at both sides can say."""

import re
import socket
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pyodbc
import pytest

from harness.lab.instances import Instance, Lab
from harness.lab.opening import Topology
from harness.lab.opening import open as open_lab
from harness.monitors.explaining import Explanation, explain
from harness.monitors.reading import Reader
from tests.waiting import wait_until

pytestmark = [pytest.mark.process, pytest.mark.timeout(180), pytest.mark.usefixtures("at_once")]
PATIENCE_S = 60.0


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    directory: Path = tmp_path_factory.mktemp("pair")
    with open_lab(Topology(), version="2008", initiators=1, directory=directory) as opened:
        yield opened


@pytest.fixture(scope="module")
def near(lab: Lab) -> Iterator[pyodbc.Connection]:
    connection = lab.initiators[0].connect(lab.initiators[0].database)
    yield connection
    connection.close()


@pytest.fixture(scope="module")
def far(lab: Lab) -> Iterator[pyodbc.Connection]:
    connection = lab.target.connect(lab.target.database)
    yield connection
    connection.close()


def send(lab: Lab, connection: pyodbc.Connection) -> str:
    """Send in a new dialog, so that nothing of an earlier one waits for its turn to be sent again; return its handle."""
    names = lab.workload.names
    return connection.execute(
        f"SET NOCOUNT ON; DECLARE @h uniqueidentifier; BEGIN DIALOG @h FROM SERVICE [{lab.initiators[0].service}] TO SERVICE "
        f"N'{lab.target.service}' ON CONTRACT [{names.contract}]; "
        f"SEND ON CONVERSATION @h MESSAGE TYPE [{names.message_type}] (0x01); SELECT @h;"
    ).fetchval()


def waits_for(
    instances: list[Instance], found: Callable[[list[Explanation]], bool], *, of: str = "to "
) -> list[Explanation]:
    """Look at instances until the first one's explanations `of` something are as wished, or patience ends; return them."""
    readers = [Reader(instance, alone=len(instances) == 1) for instance in instances]
    try:
        until = time.monotonic() + PATIENCE_S
        while True:
            servers = [reader.look(thoroughly=True) for reader in readers]
            ways = [one for one in explain(servers[0], servers) if one.what.startswith(of)]
            if found(ways) or time.monotonic() > until:
                return ways
            time.sleep(0.1)
    finally:
        for reader in readers:
            reader.close()


def nothing(ways: list[Explanation]) -> bool:
    return not ways


def statement(one: Explanation) -> str:
    return re.sub(r".*?(?=(ALTER|CREATE) )", "", one.remedy, count=1)


OFF = [
    (
        "ALTER DATABASE [{database}] SET DISABLE_BROKER WITH ROLLBACK IMMEDIATE;",
        "the broker of the target's database is disabled",
        "in target .*, SSBTarget: is_broker_enabled = 0",
    ),
    (
        "ALTER ENDPOINT [{endpoint}] STATE = STOPPED;",
        "the Service Broker endpoint of the target is not started",
        "in target .*, SSBTarget: it is STOPPED",
    ),
]


@pytest.mark.parametrize("off", OFF, ids=["broker", "endpoint"])
def test_what_is_switched_off_on_the_other_side_is_named_with_the_statement_for_it(
    lab: Lab, near: pyodbc.Connection, far: pyodbc.Connection, off: tuple[str, str, str]
) -> None:
    spoil, reason, evidence = off
    endpoint = far.execute("SELECT name FROM sys.service_broker_endpoints;").fetchval()
    far.execute(spoil.format(database=lab.target.database, endpoint=endpoint))
    send(lab, near)
    both = [lab.initiators[0], lab.target]
    [found] = waits_for(both, lambda ways: [one.reason for one in ways] == [reason])
    assert found.reason == reason and re.search(evidence, found.evidence), found
    far.execute(statement(found))
    assert waits_for(both, nothing) == []


@pytest.fixture
def stranger() -> Iterator[int]:
    """The port of a program that answers, and is no Service Broker."""
    with socket.create_server(("127.0.0.1", 0)) as server:

        def answer() -> None:
            while True:
                try:
                    connection, _ = server.accept()
                except OSError:
                    return
                with connection:
                    connection.recv(1024)
                    connection.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n")

        thread = threading.Thread(target=answer)
        thread.start()
        yield server.getsockname()[1]
        server.shutdown(socket.SHUT_RDWR)
    thread.join()


def test_a_route_to_another_program_is_told_and_with_both_sides_the_port_too(
    lab: Lab, near: pyodbc.Connection, stranger: int
) -> None:
    name = near.execute(f"SELECT name FROM sys.routes WHERE remote_service_name = N'{lab.target.service}';").fetchval()
    near.execute(f"ALTER ROUTE [{name}] WITH ADDRESS = N'TCP://127.0.0.1:{stranger}';")
    send(lab, near)
    both = [lab.initiators[0], lab.target]
    [alone] = waits_for(both[:1], lambda ways: any("handshake failed" in one.evidence for one in ways))
    assert "refuses this instance, or is no Service Broker endpoint" in alone.reason
    reason = "the route leads to a port where the target does not listen"
    [found] = waits_for(both, lambda ways: [one.reason for one in ways] == [reason])
    assert f"[{name}] leads to TCP://127.0.0.1:{stranger}; in target " in found.evidence
    assert f"the endpoint listens on port {lab.target.broker_port}" in found.evidence
    near.execute(statement(found))
    assert waits_for(both, nothing) == []


def test_without_a_route_back_no_acknowledgement_comes_and_both_sides_tell_why(
    lab: Lab, near: pyodbc.Connection, far: pyodbc.Connection
) -> None:
    service = lab.initiators[0].service
    name = far.execute(f"SELECT name FROM sys.routes WHERE remote_service_name = N'{service}';").fetchval()
    far.execute(f"DROP ROUTE [{name}];")
    send(lab, near)
    both = [lab.initiators[0], lab.target]
    [alone] = waits_for(both[:1], bool)
    assert "no acknowledgement has come" in alone.reason
    command = f"harness monitors --server {both[0].host},{both[0].port} --server {both[1].host}"
    assert alone.remedy.endswith(command)
    reason = "no route leads back from the target, so no acknowledgement comes"
    [found] = waits_for(both, lambda ways: [one.reason for one in ways] == [reason])
    host = f"<host of {both[0].name}>"
    assert found.reason == reason and host in found.remedy
    far.execute(statement(found).replace("<name>", name).replace(host, "127.0.0.1"))
    assert waits_for(both, nothing) == []


def test_messages_behind_a_lost_one_are_told_and_ending_the_conversation_cures_what_nobody_sends_again(
    lab: Lab, near: pyodbc.Connection, far: pyodbc.Connection
) -> None:
    """A message that comes while the target's broker is disabled is lost. The next one then waits for it."""
    queue = lab.workload.names.target_queue
    arrivals = (
        "SELECT cntr_value FROM sys.dm_os_performance_counters WHERE counter_name = 'Enqueued Transport Msgs Total';"
    )
    broker = f"ALTER DATABASE [{lab.target.database}] SET {{}} WITH ROLLBACK IMMEDIATE;"
    handle = send(lab, near)
    more = f"SEND ON CONVERSATION '{handle}' MESSAGE TYPE [{lab.workload.names.message_type}] (0x02);"
    wait_until(lambda: near.execute("SELECT COUNT(*) FROM sys.transmission_queue;").fetchval() == 0)
    wait_until(lambda: far.execute(f"SELECT COUNT(*) FROM {queue};").fetchval() == 0)  # its procedure receives
    far.execute(broker.format("DISABLE_BROKER"))
    before = far.execute(arrivals).fetchval()
    near.execute(more)
    wait_until(lambda: far.execute(arrivals).fetchval() >= before + 2)  # sent again after 4 s; the next time after 8
    far.execute(broker.format("ENABLE_BROKER"))
    near.execute(more)
    [(status, target)] = wait_until(lambda: far.execute(f"SELECT status, conversation_handle FROM {queue};").fetchall())
    assert status == 2
    near.execute(f"END CONVERSATION '{handle}' WITH CLEANUP;")
    both = [lab.target, lab.initiators[0]]
    [found] = waits_for(both, bool, of="[dbo]")
    assert "a fragment or a message before them is missing" in found.reason and found.evidence == "1 row of status 2"
    far.execute(found.remedy[found.remedy.index("END") :].replace("<conversation_handle of such a row>", target))
    assert waits_for(both, nothing, of="[dbo]") == []
    assert far.execute(f"SELECT COUNT(*) FROM {queue};").fetchval() == 0


def test_a_far_queue_that_is_off_is_told_where_its_messages_wait(
    lab: Lab, near: pyodbc.Connection, far: pyodbc.Connection
) -> None:
    """CREATE QUEUE: they wait in the transmission queue of the database that receives them."""
    queue = lab.workload.names.target_queue
    far.execute(f"ALTER QUEUE {queue} WITH STATUS = OFF;")
    send(lab, near)
    both = [lab.target, lab.initiators[0]]
    [found] = waits_for(both, bool)
    assert (found.database, found.what) == (lab.target.database, f"to {lab.target.service}")
    assert found.reason == "the target's queue does not take messages"
    assert "transmission_status: One or more messages could not be delivered to the local service" in found.evidence
    assert "is_enqueue_enabled = 0" in found.evidence
    assert waits_for(both[::-1], nothing) == []  # the sender's have been acknowledged
    far.execute(statement(found))
    assert waits_for(both, nothing) == []


def test_a_refusal_in_the_log_of_the_other_side_is_told_with_what_that_side_must_do(
    lab: Lab, near: pyodbc.Connection, far: pyodbc.Connection
) -> None:
    endpoint = far.execute("SELECT name FROM sys.service_broker_endpoints;").fetchval()
    logins = (
        "SELECT l.name FROM sys.server_permissions AS p JOIN sys.server_principals AS l ON l.principal_id ="
        " p.grantee_principal_id WHERE p.class_desc = N'ENDPOINT' AND p.permission_name = N'CONNECT' AND l.name <> N'public';"
    )
    login = far.execute(logins).fetchval()
    in_master = f"USE master; {{}} USE [{lab.target.database}];"
    far.execute(in_master.format(f"REVOKE CONNECT ON ENDPOINT::[{endpoint}] FROM [{login}];"))
    for state in ("STOPPED", "STARTED"):  # a connection that was let in stays
        far.execute(f"ALTER ENDPOINT [{endpoint}] STATE = {state};")
    send(lab, near)
    both = [lab.initiators[0], lab.target]
    reason = f"the login {login} may not connect to the endpoint"
    [alone] = waits_for(both[:1], lambda ways: [one.reason for one in ways] == [reason])
    assert "does not have CONNECT permission on the endpoint. State 84." in alone.evidence
    [found] = waits_for(both, lambda ways: any("error log" in one.evidence for one in ways))
    assert found.reason == f"the target's server has refused a connection: {reason}"
    assert "Service Broker login attempt failed with error: 'Connection handshake failed. The login" in found.evidence
    remedy = f"GRANT CONNECT ON ENDPOINT::[<name>] TO [{login}];"
    assert found.remedy.startswith("in target ") and found.remedy.endswith(remedy)
    far.execute(in_master.format(remedy.replace("<name>", endpoint)))
    assert waits_for(both, nothing) == []


def test_a_dialog_that_its_initiator_ends_at_once_leaves_a_conversation_that_nobody_removes(
    lab: Lab, near: pyodbc.Connection, far: pyodbc.Connection
) -> None:
    for name in ("Forget", "Forgotten"):
        connection = far if name == "Forgotten" else near
        connection.execute(f"CREATE QUEUE dbo.{name}; CREATE SERVICE [{name}] ON QUEUE dbo.{name} ([DEFAULT]);")
    far.execute("GRANT SEND ON SERVICE::[Forgotten] TO [public];")
    for connection, service, instance in ((near, "Forgotten", lab.target), (far, "Forget", lab.initiators[0])):
        connection.execute(
            f"CREATE ROUTE [{service}] WITH SERVICE_NAME = N'{service}', ADDRESS = N'TCP://127.0.0.1:{instance.broker_port}';"
        )
    near.execute(
        "DECLARE @h uniqueidentifier; BEGIN TRANSACTION; BEGIN DIALOG @h FROM SERVICE [Forget] TO SERVICE N'Forgotten' WITH ENCRYPTION = OFF;"
        " SEND ON CONVERSATION @h (0x01); END CONVERSATION @h; COMMIT;"
    )
    wait_until(lambda: far.execute("SELECT COUNT(*) FROM dbo.Forgotten;").fetchval() == 2)
    far.execute(
        "DECLARE @h uniqueidentifier; SELECT TOP (1) @h = conversation_handle FROM dbo.Forgotten;"
        " RECEIVE * FROM dbo.Forgotten WHERE conversation_handle = @h; END CONVERSATION @h;"
    )
    [found] = waits_for(
        [lab.target], lambda ways: any("CLOSED" in one.reason for one in ways), of="conversations of Forgotten"
    )
    assert "the initiator ended them before it had an answer" in found.reason
    assert found.evidence.startswith("1 conversation CLOSED, the oldest begun ")
    far.execute(found.remedy.partition("those that are there: ")[2])
    assert waits_for([lab.target], nothing, of="conversations of Forgotten") == []
