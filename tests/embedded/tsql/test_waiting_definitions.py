"""Changes of definitions that wait for others, as they do in production: a deployment script that hangs there hangs here."""

from collections.abc import Iterator
from typing import Any

import pytest

from harness.embedded.tsql.requests import ClientSession
from tests.embedded.tsql.sides import Message, Results, Side, World

QUEUE = """
    CREATE QUEUE dbo.q; CREATE SERVICE s ON QUEUE dbo.q ([DEFAULT]);
    DECLARE @h uniqueidentifier; BEGIN DIALOG @h FROM SERVICE s TO SERVICE 's' WITH ENCRYPTION = OFF;
    SEND ON CONVERSATION @h (0x01);
"""


class Begun:
    """A batch that runs beside others."""

    def __init__(self, side: Side, session: ClientSession, text: str) -> None:
        self.results, self.is_over = Results(), False
        side.scheduler.spawn(self._run(session, text), "batch")
        side.world.run_for(1)

    def _run(self, session: ClientSession, text: str) -> Iterator[Any]:
        yield from session.batch(text, self.results)
        self.is_over = True


@pytest.fixture
def here(side: Side, world: World) -> Side:
    side.run(QUEUE)
    world.run_for(1)
    return side


@pytest.mark.parametrize(
    "option", ["ENABLE_BROKER", "DISABLE_BROKER", "NEW_BROKER", "READ_COMMITTED_SNAPSHOT ON", "SINGLE_USER"]
)
def test_the_broker_is_switched_when_nobody_else_is_in_the_database(here: Side, option: str) -> None:
    other, admin = here.connect("db"), here.connect("master")
    here.run("USE master;")
    change = Begun(here, admin, f"ALTER DATABASE db SET {option};")
    assert not change.is_over and admin.wait_type == "LCK_M_X"
    here.run("USE master;", other)
    here.world.run_for(1)
    assert change.is_over and not change.results.errors


def test_no_wait_fails_and_rollback_disconnects_the_others_at_once_or_after_its_time(here: Side) -> None:
    other, gone = here.connect("db"), list[bool]()
    other.disconnect = lambda: gone.append(True)
    other_changes = "BEGIN TRANSACTION; INSERT INTO dbo.t (n) VALUES (1);"
    here.run(other_changes, other)
    here.run("USE master;")
    error = here.error("ALTER DATABASE db SET NEW_BROKER WITH NO_WAIT;")
    assert (error.number, error.text[:30]) == (5070, "Database state cannot be chang")
    change = Begun(here, here.session, "ALTER DATABASE db SET DISABLE_BROKER WITH ROLLBACK AFTER 3 SECONDS;")
    assert not change.is_over and not gone
    here.world.run_for(3)
    assert change.is_over and gone == [True]
    assert here.value("SELECT COUNT(*) FROM db.dbo.t;") == 0
    assert here.value("SELECT is_broker_enabled FROM sys.databases WHERE name = 'db';") == 0


@pytest.mark.parametrize("change", ["STATUS = OFF", "ACTIVATION (DROP)", "RETENTION = ON"])
def test_alter_queue_waits_for_the_transactions_that_have_received_from_it(here: Side, change: str) -> None:
    reader, admin = here.connect("db"), here.connect("db")
    here.run("BEGIN TRANSACTION; RECEIVE * FROM dbo.q;", reader)
    altered = Begun(here, admin, f"ALTER QUEUE dbo.q WITH {change};")
    assert not altered.is_over and admin.wait_type == "LCK_M_X"
    here.run("COMMIT;", reader)
    here.world.run_for(1)
    assert altered.is_over and not altered.results.errors


def test_alter_queue_gives_up_after_the_lock_timeout_and_is_the_victim_of_a_deadlock(here: Side) -> None:
    reader, admin = here.connect("db"), here.connect("db")
    here.run("BEGIN TRANSACTION; RECEIVE * FROM dbo.q;", reader)
    assert here.error("SET LOCK_TIMEOUT 500; ALTER QUEUE dbo.q WITH STATUS = OFF;", admin).number == 1222
    [(handle,)] = here.rows("SELECT conversation_handle FROM sys.conversation_endpoints WHERE is_initiator = 1;")
    here.run(f"SET LOCK_TIMEOUT -1; BEGIN TRANSACTION; SEND ON CONVERSATION '{handle}';", admin)
    waiting = Begun(here, reader, f"SEND ON CONVERSATION '{handle}';")
    assert not waiting.is_over
    assert here.error("ALTER QUEUE dbo.q WITH STATUS = OFF;", admin).number == 1205


def test_activation_needs_a_procedure(here: Side) -> None:
    activation = "ACTIVATION (STATUS = ON, MAX_QUEUE_READERS = 1, EXECUTE AS OWNER)"
    for statement in (f"ALTER QUEUE dbo.q WITH {activation}", f"CREATE QUEUE dbo.other WITH {activation}"):
        error: Message = here.error(f"{statement};")
        assert error.number == 9614 and "either not specified or is invalid" in error.text
    here.run("ALTER QUEUE dbo.q WITH ACTIVATION (STATUS = OFF, MAX_QUEUE_READERS = 1, EXECUTE AS OWNER);")


@pytest.mark.parametrize(
    ("name", "found"),
    [
        ("a-b", True),
        ("dbo.a-b", True),
        ("[dbo].[a-b]", True),
        ('db.."a-b"', True),
        (" dbo . a-b ", True),
        ("a", False),
        ("a-b.", False),
        ("[a-b", False),
        ("x.y.z.dbo.a-b", False),
        ("", False),
    ],
)
def test_object_id_takes_names_that_are_no_identifiers(here: Side, name: str, found: bool) -> None:
    here.run("CREATE QUEUE dbo.[a-b];")
    assert (here.value(f"SELECT OBJECT_ID(N'{name}');") is not None) == found
    here.run("CREATE PROCEDURE dbo.p AS SELECT 1;")
    queue = "SqlQueryNotificationService-0b7f2a8c-1d1e-4f0e-9a53-7f3f5e2f9a11"
    here.run(f"CREATE QUEUE dbo.[{queue}];")
    here.run(f"IF OBJECT_ID('{queue}', 'SQ') IS NOT NULL DROP QUEUE dbo.[{queue}];")  # as SqlDependency does
    assert here.value(f"SELECT COUNT(*) FROM sys.service_queues WHERE name = '{queue}';") == 0


def test_the_end_of_an_event_notification_is_told_to_its_service(here: Side) -> None:
    contract = "http://schemas.microsoft.com/SQL/Notifications/PostEventNotification"
    here.run(f"CREATE QUEUE dbo.e; CREATE SERVICE e ON QUEUE dbo.e ([{contract}]);")
    here.run("CREATE EVENT NOTIFICATION n ON QUEUE dbo.q FOR QUEUE_ACTIVATION TO SERVICE 'e', 'current database';")
    here.world.run_for(1)
    here.run("DROP EVENT NOTIFICATION n ON QUEUE dbo.q;")
    here.world.run_for(1)
    names = here.rows("SELECT message_type_name FROM dbo.e ORDER BY queuing_order;")
    assert [name.rpartition("/")[2] for (name,) in names] == ["EventNotification", "EndDialog"]


def test_a_master_key_that_only_its_password_opens_protects_nothing_new(here: Side) -> None:
    here.run("CREATE MASTER KEY ENCRYPTION BY PASSWORD = 'a-Password-1';")
    here.run("ALTER MASTER KEY DROP ENCRYPTION BY SERVICE MASTER KEY;")
    shown = "SELECT is_master_key_encrypted_by_server FROM sys.databases WHERE name = 'db';"
    assert here.value(shown) == 0 and here.value("SELECT COUNT(*) FROM sys.symmetric_keys;") == 1
    assert here.error("CREATE CERTIFICATE c WITH SUBJECT = 'c';").number == 15581
    assert here.error("CREATE MASTER KEY ENCRYPTION BY PASSWORD = 'a-Password-1';").number == 15578
    here.run("OPEN MASTER KEY DECRYPTION BY PASSWORD = 'a-Password-1';")
    here.run("ALTER MASTER KEY ADD ENCRYPTION BY SERVICE MASTER KEY; CLOSE MASTER KEY;")
    here.run("CREATE CERTIFICATE c WITH SUBJECT = 'c';")
    assert here.value(shown) == 1
