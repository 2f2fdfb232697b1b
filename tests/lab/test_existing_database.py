"""A lab in databases that an application has already, on embedded servers in place of real ones."""

import re
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyodbc
import pytest

from harness import doctor
from harness.definitions.lab_kinds import SERVERS
from harness.failures import MachineFailure, UsageFailure
from harness.files import lab_file, workload_file
from harness.files.settings import Settings
from harness.lab import dialog_pool, drivers, link, opening, user_servers
from harness.lab.instances import Lab, Security, connections
from harness.lab.opening import Topology
from tests.stand_ins.own_servers import PASSWORD, OwnServers, Server, running_servers
from tests.thorough import one_of_each

pytestmark = pytest.mark.process

KEY = "CREATE MASTER KEY ENCRYPTION BY PASSWORD = N'Str0ng, an application''s';"
TYPES = (
    "CREATE MESSAGE TYPE [//Shop/Order] VALIDATION = NONE;",
    "CREATE CONTRACT [//Shop/Orders] ([//Shop/Order] SENT BY INITIATOR);",
)
WAREHOUSE = (
    KEY,
    *TYPES,
    "CREATE TABLE dbo.orders (id int IDENTITY PRIMARY KEY, body varbinary(2000));",
    """
    CREATE PROCEDURE dbo.HandleOrders AS
    BEGIN
        SET NOCOUNT ON;
        DECLARE @received table (handle uniqueidentifier, type nvarchar(256), number bigint, body varbinary(max));
        DECLARE @rows int = 1;
        WHILE @rows > 0
        BEGIN
            BEGIN TRANSACTION;
            WAITFOR (RECEIVE TOP (100) conversation_handle, message_type_name, message_sequence_number, message_body
                     FROM dbo.OrderQueue INTO @received), TIMEOUT 500;
            SET @rows = @@ROWCOUNT;
            INSERT INTO dbo.orders (body) SELECT CAST(body AS varbinary(2000)) FROM @received;
            DELETE FROM @received;
            COMMIT TRANSACTION;
        END;
    END;
    """,
    """CREATE QUEUE dbo.OrderQueue WITH STATUS = ON, ACTIVATION (
       STATUS = ON, PROCEDURE_NAME = dbo.HandleOrders, MAX_QUEUE_READERS = 4, EXECUTE AS OWNER);""",
    "CREATE SERVICE [//Warehouse] ON QUEUE dbo.OrderQueue ([//Shop/Orders]);",
)
SHOP = (
    KEY,
    *TYPES,
    "CREATE QUEUE dbo.ShopQueue;",
    "CREATE SERVICE [//Shop] ON QUEUE dbo.ShopQueue;",
    """
    CREATE PROCEDURE dbo.SendOrder @handle uniqueidentifier, @body varbinary(max) AS
    SEND ON CONVERSATION @handle MESSAGE TYPE [//Shop/Order] (@body);
    """,
    # A conversation of the application's.
    """
    DECLARE @handle uniqueidentifier;
    BEGIN DIALOG @handle FROM SERVICE [//Shop] TO SERVICE N'//Elsewhere' ON CONTRACT [//Shop/Orders]
        WITH ENCRYPTION = OFF;
    """,
)
WORKLOAD = """\
[client]
procedure = "dbo.SendOrder"

[target]
activation_procedure = "dbo.HandleOrders"
max_queue_readers = 4

[accounting]
by = "count"

[names]
message_type = "//Shop/Order"
contract = "//Shop/Orders"
initiator_service = "//Shop"
target_service = "//Warehouse"
initiator_queue = "dbo.ShopQueue"
target_queue = "dbo.OrderQueue"
"""
EXISTING = {"target_existing_database": "Warehouse", "initiator_1_existing_database": "Shop"}
# All that a comparison before and after shows of a database.
STATE = (
    "SELECT name, type FROM sys.objects WHERE is_ms_shipped = 0",
    "SELECT name FROM sys.services",
    "SELECT name FROM sys.service_contracts",
    "SELECT name FROM sys.service_message_types",
    "SELECT name FROM sys.database_principals",
    "SELECT name, remote_service_name, address FROM sys.routes",
    "SELECT name FROM sys.remote_service_bindings",
    "SELECT name FROM sys.certificates",
    "SELECT name FROM sys.symmetric_keys",
    "SELECT conversation_handle, state FROM sys.conversation_endpoints",
    "SELECT conversation_handle, message_sequence_number FROM sys.transmission_queue",
    "SELECT name, CAST(value AS nvarchar(60)) FROM sys.extended_properties",
    "SELECT class_desc, major_id, grantee_principal_id, permission_name FROM sys.database_permissions",
    "SELECT name, is_receive_enabled, is_activation_enabled, max_readers FROM sys.service_queues",
    "SELECT name, size, growth FROM sys.database_files",
    "SELECT service_broker_guid, recovery_model, is_broker_enabled FROM sys.databases WHERE database_id = DB_ID()",
)


def state(server: Server, database: str) -> list[list[str]]:
    with server.connection(database) as connection:
        return [sorted(map(str, connection.execute(f"{query};").fetchall())) for query in STATE]


class Teller(list[str]):
    def __call__(self, text: str) -> None:
        assert "\n" not in text
        self.append(text)


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[Server]]:
    with running_servers(tmp_path_factory.mktemp("servers")) as servers:
        yield servers


@pytest.fixture
def own(running: list[Server], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[OwnServers]:
    """The servers with the application's databases, which are afterwards what they were before."""
    monkeypatch.setenv("HARNESS_PASSWORD", PASSWORD)
    own = OwnServers(tmp_path, running)
    databases = ("Warehouse", "Shop")
    for server, database, statements in zip(running, databases, (WAREHOUSE, SHOP), strict=True):
        server.run(f"CREATE DATABASE {database};")
        server.run(*statements, database=database)
    before = [state(*side) for side in zip(running, databases, strict=True)]
    outside = own.contents()
    yield own
    after = [state(*side) for side in zip(running, databases, strict=True)]
    outside_after = own.contents()
    if (after, outside_after) != (before, outside):  # the next test must begin as this one did
        for keys in ({}, *({key: None} for key in EXISTING)):
            clean(own, **keys)
    for server, database in zip(running, databases, strict=True):
        server.run(f"ALTER DATABASE {database} SET SINGLE_USER WITH ROLLBACK IMMEDIATE;", f"DROP DATABASE {database};")
    assert outside_after == outside
    assert after == before


@pytest.fixture
def workload(tmp_path: Path) -> Path:
    folder = tmp_path / "orders"
    folder.mkdir()
    (folder / "workload.toml").write_text(WORKLOAD)
    return folder


def opened(
    own: OwnServers, workload: Path | str, tell: Callable[[str], None] = print, *, dialog: bool = True, **keys: Any
) -> Any:
    file = lab_file.read(own.lab_file(**EXISTING | keys))
    return opening.open(
        Topology(SERVERS, file, Security(dialog=dialog), workload_file.read(str(workload))),
        version=file.version,
        tell=tell,
        directory=own.folder,
    )


def clean(own: OwnServers, **keys: Any) -> list[str]:
    tell = Teller()
    file = lab_file.read(own.lab_file(**EXISTING | keys))
    user_servers.clean(file, driver=drivers.choose(), tell=tell, confirm=lambda question: True)
    return tell


def send_one(lab: Lab) -> None:
    [initiator] = lab.initiators
    dialog_pool.build(lab, initiators=1, dialogs=2)
    with connections([initiator]) as clients, connections([lab.target]) as (target,):
        [[handle]] = dialog_pool.used(clients, 2, 1)
        client = pyodbc.connect(initiator.client_connection_string(), autocommit=True)
        client.execute(lab.workload.client.call, handle, b"x" * 100)
        client.close()
        dialog_pool.wait_until_drained(lab, [initiator], clients, target, expected=1, timeout_s=120)


def test_an_applications_databases_are_used_and_left_as_they_were(own: OwnServers, workload: Path) -> None:
    tell = Teller()
    before = [state(own.servers[0], "Warehouse"), state(own.servers[1], "Shop")]
    with opened(own, workload, tell) as lab:
        announced = {line.split()[1]: line for line in tell if " will be created: " in line}
        for server, instance, old in zip(own.servers, lab.instances, before, strict=True):
            new = state(server, instance.database)
            assert new[-1] == old[-1], "nothing about the database itself is changed"
            assert new[-3] == old[-3], "nor about its queues"
            for created in {one for few in new[:8] for one in few} - {one for few in old[:8] for one in few}:
                name = created.split("'")[1]
                if not name.startswith(("PK_", "DF_", "harness_ledger")):
                    assert f"[{name}]" in announced[instance.name]
        assert "target uses as they are: the procedure [dbo].[HandleOrders], the message type [//Shop/Order]" in str(
            tell
        )
        findings = doctor.examine(lab, cells=[], settings=Settings())
        assert [str(one) for one in findings if one.severity == "error"] == []
        send_one(lab)
        link.remove_conversations(lab)
        send_one(lab)
    shown = clean(own)
    assert any("the database Warehouse, which itself stays" in line for line in shown)
    assert all("nothing to remove" in line or "left alone" in line for line in clean(own))


def test_a_cell_of_the_applications_own_procedures_is_measured(own: OwnServers, workload: Path) -> None:
    lab_file = ("--lab-file", str(own.lab_file(**EXISTING)))
    cell = ("--workload", str(workload), "--threads", "2", "--settle", "300ms", "--measure", "300ms")
    ran = own.harness("run", *lab_file, *cell)
    assert (ran.code, ran.err) == (0, ""), ran
    with own.servers[0].connection("Warehouse") as connection:
        assert connection.execute("SELECT COUNT(*) FROM dbo.orders;").fetchone()[0] > 0
    with own.servers[1].connection("Shop") as connection:
        open_ = connection.execute("SELECT COUNT(*) FROM sys.conversation_endpoints;").fetchone()[0]
    assert open_ == 1, "the dialogs of the pool have ended with the lab, and the application's has not"
    clean(own)


def test_without_dialog_security_no_certificate_is_created(own: OwnServers, workload: Path) -> None:
    tell = Teller()
    own.servers[0].run("GRANT SEND ON SERVICE::[//Warehouse] TO [public];", database="Warehouse")
    with opened(own, workload, tell, dialog=False) as lab:
        send_one(lab)
        assert not any("Target_Dialog" in line for line in tell)
    clean(own)
    own.servers[0].run("REVOKE SEND ON SERVICE::[//Warehouse] FROM [public];", database="Warehouse")


def test_an_opening_removes_what_the_previous_one_left_and_a_workload_may_create_its_own(own: OwnServers) -> None:
    for _ in range(2):
        with opened(own, "paper") as lab:
            send_one(lab)
    clean(own)


@pytest.mark.parametrize("side", one_of_each([0, 1]))
def test_one_side_may_have_a_database_of_the_harness(own: OwnServers, workload: Path, side: int) -> None:
    key = list(EXISTING)[1 - side]
    with opened(own, "paper", **{key: None}) as lab:
        send_one(lab)
        link.remove_conversations(lab)
        send_one(lab)
    clean(own, **{key: None})


@pytest.mark.parametrize(
    "place", one_of_each(["Initiator1_Dialog", "dbo.messageErrors", "Test_Initiator1", "dbo.HandleOrders"])
)
def test_clean_takes_away_what_a_killed_opening_has_created(own: OwnServers, workload: Path, place: str) -> None:
    path = str(own.lab_file(**EXISTING))
    target = own.servers[0]
    there = {
        "dbo.messageErrors": "SELECT OBJECT_ID(N'dbo.messageErrors')",
        "Initiator1_Dialog": "SELECT CERT_ID(N'Initiator1_Dialog')",
        "Test_Initiator1": "SELECT MAX(name) FROM sys.routes WHERE name = N'Test_Initiator1'",
        "dbo.HandleOrders": "SELECT OBJECT_ID(N'dbo.harness_ledger')",
    }[place]
    arguments = ("lab", "open", "--lab-file", path, "--workload", str(workload))
    with own.begin(*arguments) as process, target.connection("Warehouse") as connection:
        deadline = time.monotonic() + 120
        while connection.execute(f"{there};").fetchone()[0] is None:
            assert time.monotonic() < deadline and process.poll() is None
        process.send_signal(signal.SIGKILL)
    clean(own)


def test_an_opening_that_fails_while_linking_leaves_nothing(
    own: OwnServers, workload: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    really = link.link

    def fail(lab: Lab) -> None:
        really(lab)
        send_one(lab)
        raise MachineFailure("in the middle")

    monkeypatch.setattr(link, "link", fail)
    with pytest.raises(MachineFailure, match="in the middle"), opened(own, workload):
        pass


REFUSALS = {
    "a name of the lab's": (
        0,
        "CREATE TABLE dbo.messageErrors (a int);",
        "DROP TABLE dbo.messageErrors;",
        r"Warehouse \(lab.toml, line 9\): the table \[dbo\].\[messageErrors\] exists, and the lab creates it",
    ),
    "a route of the lab's name": (
        1,
        "CREATE ROUTE Test_Target WITH ADDRESS = N'LOCAL';",
        "DROP ROUTE Test_Target;",
        r"Shop \(lab.toml, line \d+\): the route \[Test_Target\] exists",
    ),
    "a broker that is off": (
        1,
        "ALTER DATABASE Shop SET DISABLE_BROKER WITH ROLLBACK IMMEDIATE;",
        "ALTER DATABASE Shop SET ENABLE_BROKER WITH ROLLBACK IMMEDIATE;",
        r"its broker is off: ALTER DATABASE \[Shop\] SET ENABLE_BROKER WITH ROLLBACK IMMEDIATE;",
    ),
    "no master key": (
        0,
        "DROP MASTER KEY;",
        KEY,
        r"it has no master key, .* USE \[Warehouse\]; CREATE MASTER KEY ENCRYPTION BY PASSWORD",
    ),
    "a certificate of dbo": (
        0,
        "CREATE CERTIFICATE theirs AUTHORIZATION dbo WITH SUBJECT = N'theirs';",
        "DROP CERTIFICATE theirs;",
        "may be secured by the certificate theirs of dbo",
    ),
    "messages of others": (
        1,
        """DECLARE @handle uniqueidentifier;
        BEGIN DIALOG @handle FROM SERVICE [//Shop] TO SERVICE N'//Elsewhere' ON CONTRACT [//Shop/Orders]
            WITH ENCRYPTION = OFF;
        SEND ON CONVERSATION @handle MESSAGE TYPE [//Shop/Order] (0x01);""",
        """DECLARE @handle uniqueidentifier = (SELECT TOP (1) conversation_handle FROM sys.transmission_queue);
        END CONVERSATION @handle WITH CLEANUP;""",
        r"Shop \(lab.toml, line \d+\): its transmission queue has 1 message of others, and must be empty",
    ),
    "no procedure": (
        1,
        "DROP PROCEDURE dbo.SendOrder;",
        SHOP[5],
        r"the procedure \[dbo\].\[SendOrder\] does not exist, and no script of the workload creates it",
    ),
}


@pytest.mark.parametrize(("number", "made", "undone", "line"), REFUSALS.values(), ids=REFUSALS)
def test_what_does_not_suit_is_refused_in_one_line_before_anything_is_created(  # noqa: PLR0917
    own: OwnServers, workload: Path, number: int, made: str, undone: str, line: str
) -> None:
    server, database = own.servers[number], ("Warehouse", "Shop")[number]
    server.run(made, database="master" if "DATABASE" in made else database)
    before, tell = state(server, database), Teller()
    try:
        with pytest.raises((MachineFailure, UsageFailure)) as caught, opened(own, workload, tell):
            pass
        assert re.search(line, str(caught.value)), caught.value
        assert "\n" not in str(caught.value)
        assert not any("will be created" in one for one in tell)
        assert state(server, database) == before
    finally:
        server.run(undone, database="master" if "DATABASE" in made else database)


def test_a_script_that_would_change_the_applications_procedure_is_refused(own: OwnServers, workload: Path) -> None:
    (workload / "send.sql").write_text("CREATE OR ALTER PROCEDURE dbo.SendOrder AS RETURN 0;\nGO\n")
    file = workload / "workload.toml"
    file.write_text(file.read_text() + '\n[initiator]\nscripts = ["send.sql"]\n')
    line = r"the procedure \[dbo\].\[SendOrder\] exists, and the lab creates it"
    with pytest.raises(MachineFailure, match=line), opened(own, workload):
        pass


def test_a_database_that_does_not_exist_is_named_with_its_line(own: OwnServers, workload: Path) -> None:
    line = r"there is no database Storehouse \(lab.toml, line 9\)"
    with pytest.raises(MachineFailure, match=line), opened(own, workload, target_existing_database="Storehouse"):
        pass


def test_clients_that_begin_dialogs_themselves_are_refused(own: OwnServers, workload: Path) -> None:
    file = workload / "workload.toml"
    file.write_text(file.read_text().replace("[target]", 'parameters = ["broker_instance", "body"]\n[target]'))
    line = r"workload.toml, line 4: the dialogs that dbo.SendOrder begins could not be distinguished from others of Warehouse"
    with pytest.raises(MachineFailure, match=line), opened(own, workload):
        pass
