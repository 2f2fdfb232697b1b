"""Each reason why messages stay is made on the embedded broker with T-SQL: it is named, with the statement that cures it,
and nothing is once that was done."""

import socket
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta

import pyodbc
import pytest

from harness.files.script_text import quoted
from harness.lab.instances import Instance
from harness.lab.statuses import table
from harness.monitors import asking, reading, state
from harness.monitors.asking import Asker
from harness.monitors.explaining import Explanation, explain
from harness.monitors.reading import Reader
from harness.monitors.state import (
    LIFETIME_MAX_S,
    Certificate,
    Conversations,
    Database,
    Endpoint,
    Monitor,
    Queue,
    Route,
    Server,
    Waiting,
)
from harness.monitors.ways import of_way
from tests.monitors.conftest import send

pytestmark = [pytest.mark.process, pytest.mark.timeout(180), pytest.mark.usefixtures("at_once")]

PATIENCE_S = 30.0
READING = """
    DECLARE @t table (m varbinary(max));
    WHILE 1 = 1
    BEGIN
        DELETE FROM @t;
        RECEIVE TOP (10) message_body FROM dbo.[{name}] INTO @t;
        IF @@ROWCOUNT = 0 BREAK;
    END;
"""


def procedure(name: str, body: str, *, verb: str = "CREATE") -> str:
    return f"{verb} PROCEDURE dbo.Read{name} AS BEGIN {body.format(name=name)} END;"


def queue(name: str, activation: str = "") -> str:
    return f"CREATE QUEUE dbo.[{name}]{activation}; CREATE SERVICE [{name}] ON QUEUE dbo.[{name}] ([DEFAULT]);"


def activated(name: str, more: str = "EXECUTE AS OWNER", *, readers: int = 1) -> str:
    activation = f"STATUS = ON, PROCEDURE_NAME = dbo.Read{name}, MAX_QUEUE_READERS = {readers}, {more}"
    return queue(name, f" WITH ACTIVATION ({activation})")


@dataclass(frozen=True)
class Breakage:
    """`spoil` are batches; `mend` too, where {remedy} is the statement of the explanation, behind its last comma."""

    what: str
    spoil: tuple[str, ...]
    reason: str
    evidence: str
    remedy: str
    mend: tuple[str, ...] = ("{remedy}",)

    def __str__(self) -> str:
        return self.what


def on(name: str, *batches: str) -> str:
    return f"ALTER QUEUE [dbo].[{name}] WITH ACTIVATION ({batches[0] if batches else 'STATUS = ON'});"


AGAIN = "WITH ACTIVATION (STATUS = OFF); ALTER QUEUE [dbo].[{}] WITH ACTIVATION (STATUS = ON);"
BREAKAGES = [
    Breakage(
        "Stub",
        (procedure("Stub", "\n--TODO: add code here\n SELECT 1;"), activated("Stub"), send("Stub")),
        "issues no RECEIVE on this queue",
        "NOTIFIED for .* no RECEIVE with this queue's name",
        AGAIN.format("Stub"),
        (procedure("Stub", READING, verb="ALTER"), "{remedy}"),
    ),
    Breakage(
        "Poison",
        (
            procedure("Poison", "BEGIN TRANSACTION; RECEIVE * FROM dbo.[{name}]; ROLLBACK;"),
            activated("Poison"),
            send("Poison"),
        ),
        "switched off: somebody has done it, or five rollbacks",
        "is_receive_enabled = 0.*; the first message: DEFAULT, sequence 0",
        "WITH STATUS = ON;",
        (procedure("Poison", READING, verb="ALTER"), "{remedy}"),
    ),
    Breakage(
        "Paused",
        (procedure("Paused", READING), activated("Paused"), on("Paused", "STATUS = OFF"), send("Paused")),
        "its activation is off",
        "is_activation_enabled = 0",
        on("Paused"),
    ),
    Breakage(
        "Unread",
        (queue("Unread"), send("Unread")),
        "no activation procedure, no event notification",
        "activation_procedure is NULL",
        "PROCEDURE_NAME = dbo.<procedure>",
        (procedure("Unread", READING), "{remedy}"),
    ),
    Breakage(
        "Dropped",
        (procedure("Dropped", READING), activated("Dropped"), "DROP PROCEDURE dbo.ReadDropped;", send("Dropped")),
        "ReadDropped] does not exist",
        "error log: .*ReadDropped",
        "create it, or ALTER QUEUE",
        (procedure("Dropped", READING),),
    ),
    Breakage(
        "Nobody",
        (
            "CREATE USER reader WITHOUT LOGIN;",
            procedure("Nobody", READING),
            activated("Nobody", "EXECUTE AS 'reader'"),
            "DROP USER reader;",
            send("Nobody"),
        ),
        "runs as a user that does not exist",
        "execute_as_principal_id",
        on("Nobody", "EXECUTE AS OWNER"),
    ),
    Breakage(
        "Failing",
        (procedure("Failing", "EXECUTE dbo.NotThere;"), activated("Failing"), send("Failing")),
        "fails before it issues a RECEIVE",
        "error log: .*NotThere",
        AGAIN.format("Failing"),
        (procedure("Failing", READING, verb="ALTER"), "{remedy}"),
    ),
    Breakage(
        "Limited",
        (
            procedure("Limited", "RECEIVE TOP (1) * FROM dbo.[{name}]; WAITFOR DELAY '00:10:00';"),
            activated("Limited"),
            send("Limited"),
            send("Limited"),
        ),
        "all readers that MAX_QUEUE_READERS allows run",
        "1 of 1 reader runs, 1 message in the queue",
        on("Limited", "MAX_QUEUE_READERS = 2"),
    ),
    Breakage(
        "Unmanned",
        (procedure("Unmanned", READING), activated("Unmanned", readers=0), send("Unmanned")),
        "it may have no reader",
        "max_readers = 0",
        on("Unmanned", "MAX_QUEUE_READERS = 1"),
    ),
    Breakage(
        "to Untrusted",
        ("CREATE DATABASE untrusted;", "USE untrusted;", queue("Untrusted"), "USE {database};", send("Untrusted")),
        "the sender's user is nobody in the target's database",
        "transmission_status: .*under the current security context",
        "SET TRUSTWORTHY ON;",
    ),
    Breakage(
        "Foreign",
        (procedure("Foreign", "EXECUTE untrusted.dbo.Anything;"), activated("Foreign"), send("Foreign")),
        "fails before it issues a RECEIVE",
        "error log: .*is not able to access the database",
        AGAIN.format("Foreign"),
        (procedure("Foreign", READING, verb="ALTER"), "{remedy}"),
    ),
    Breakage(
        "Retaining",
        (queue("Retaining", " WITH RETENTION = ON"), send("Retaining"), "RECEIVE * FROM dbo.Retaining;"),
        "all its rows are retained",
        "1 row of status 0",
        "RETENTION = OFF;",
        (
            "DECLARE @h uniqueidentifier; SELECT @h = conversation_handle FROM dbo.Retaining; END CONVERSATION @h;",
            "{remedy}",
        ),
    ),
    Breakage(
        "Notified",
        (
            queue("Notified"),
            "CREATE EVENT NOTIFICATION n ON QUEUE dbo.Notified FOR QUEUE_ACTIVATION TO SERVICE 'Events',"
            " 'current database';",
            send("Notified"),
        ),
        "goes to a service that does not exist",
        "no service Events",
        "CREATE SERVICE [Events]",
        ("RECEIVE * FROM dbo.Notified;",),
    ),
    Breakage(
        "External",
        (
            "CREATE QUEUE dbo.Activator; CREATE SERVICE [Activator] ON QUEUE dbo.Activator"
            " ([http://schemas.microsoft.com/SQL/Notifications/PostEventNotification]);",
            queue("External"),
            "CREATE EVENT NOTIFICATION e ON QUEUE dbo.[External] FOR QUEUE_ACTIVATION TO SERVICE 'Activator',"
            " 'current database';",
            send("External"),
        ),
        "a notification went to Activator, and no program has received",
        r"NOTIFIED .*, and its oldest message has been there for .*; 1 row in \[dbo\]\.\[Activator\]",
        "start the activator",
        ("RECEIVE * FROM dbo.[External];",),
    ),
    Breakage(
        "Activator",
        (),  # as above
        "no activator receives the event notifications of [dbo].[External]",
        "it is the queue of Activator",
        "start the activator",
        ("RECEIVE * FROM dbo.Activator;",),
    ),
    Breakage(
        "to Nowhere",
        (send("Nowhere"),),
        "no route leads to the service",
        "1 message waits.*; no route names the service; transmission_status: .*could not be found",
        "CREATE ROUTE [<name>] WITH SERVICE_NAME = N'Nowhere'",
        (queue("Nowhere"), "RECEIVE * FROM dbo.Nowhere;"),
    ),
    Breakage(
        "to Elsewhere",
        ("CREATE ROUTE elsewhere WITH SERVICE_NAME = 'Elsewhere', ADDRESS = 'TCP://127.0.0.1:1';", send("Elsewhere")),
        "no Service Broker endpoint that is started",
        "a route names the service; transmission_status: .*transport",
        "CREATE ENDPOINT",
        ("DROP ROUTE elsewhere;", queue("Elsewhere"), "RECEIVE * FROM dbo.Elsewhere;"),
    ),
    Breakage(
        "to Shut",
        (queue("Shut"), "ALTER QUEUE dbo.Shut WITH STATUS = OFF;", send("Shut")),
        "the target's queue does not take messages",
        "1 message waits.*: is_enqueue_enabled = 0",
        "ALTER QUEUE [dbo].[Shut] WITH STATUS = ON;",
        ("{remedy}", "RECEIVE * FROM dbo.Shut;"),
    ),
]


@pytest.fixture(scope="module")
def connection(instance: Instance, database: str) -> Iterator[pyodbc.Connection]:
    opened = instance.connect(database)
    yield opened
    opened.close()


@pytest.fixture(scope="module")
def find(instance: Instance, database: str) -> Iterator[Callable[..., Explanation | None]]:
    """Look until there is an explanation of something, or, if asked to, none."""
    reader = Reader(instance, database=database)

    def wait(what: str, *, there: bool = True) -> Explanation | None:
        until = time.monotonic() + PATIENCE_S
        while True:
            explained = {
                one.what.removeprefix("[dbo].").strip("[]"): one for one in explain(reader.look(thoroughly=True))
            }
            if (what in explained) == there or time.monotonic() > until:
                return explained.get(what)
            time.sleep(0.1)

    yield wait
    reader.close()


@pytest.fixture(scope="module")
def broken(connection: pyodbc.Connection, database: str) -> Iterator[None]:
    """Everything is broken at once, so that the five seconds of some pass for all."""
    for breakage in BREAKAGES:
        for batch in breakage.spoil:
            connection.execute(batch.replace("{database}", database))
    yield
    connection.execute("DROP DATABASE untrusted;")


@pytest.mark.usefixtures("broken")
@pytest.mark.parametrize("breakage", BREAKAGES, ids=str)
def test_a_reason_is_named_with_its_cure(
    breakage: Breakage, connection: pyodbc.Connection, find: Callable[..., Explanation | None]
) -> None:
    import re  # noqa: PLC0415

    found = find(breakage.what)
    assert found is not None
    assert breakage.reason in found.reason
    assert re.search(breakage.evidence, found.evidence), found
    assert breakage.remedy in found.remedy
    statement = re.sub(r".*?(?=ALTER (QUEUE|DATABASE))", "", found.remedy, count=1)
    for batch in breakage.mend:
        connection.execute(batch.replace("{remedy}", statement.replace("<procedure>", f"Read{breakage.what}")))
    if breakage.mend:
        assert find(breakage.what, there=False) is None


def test_a_broker_of_this_instance_that_is_disabled_is_told_by_the_status_or_by_a_look_at_its_database(
    instance: Instance, database: str, connection: pyodbc.Connection, find: Callable[..., Explanation | None]
) -> None:
    for batch in ("CREATE DATABASE disabled;", "USE disabled;", queue("Disabled"), f"USE {database};"):
        connection.execute(batch)
    connection.execute(f"ALTER DATABASE {database} SET TRUSTWORTHY ON;")
    broker = connection.execute("SELECT service_broker_guid FROM sys.databases WHERE name = 'disabled';").fetchval()
    connection.execute("ALTER DATABASE disabled SET DISABLE_BROKER WITH ROLLBACK IMMEDIATE;")
    connection.execute(send("Disabled").replace("N'Disabled'", f"N'Disabled', '{broker}'"))
    everywhere = Reader(instance)
    try:
        found = find("to Disabled")
        assert found is not None and found.reason == "the broker of the target's database is disabled"
        assert "is unavailable: 'The service broker is administratively disabled.'" in found.evidence
        server = everywhere.look(thoroughly=True)
        [seen] = [one for one in explain(server) if (one.database, one.what) == (database, "to Disabled")]
        assert "disabled: is_broker_enabled = 0" in seen.evidence
        remedy = "ALTER DATABASE {} SET ENABLE_BROKER WITH ROLLBACK IMMEDIATE;"
        assert found.remedy == "in the target's server: " + remedy.format("<target's>")
        assert seen.remedy.endswith(f", disabled: {remedy.format('[disabled]')}")
        connection.execute(remedy.format("[disabled]"))
        assert find("to Disabled", there=False) is None
    finally:
        everywhere.close()
        connection.execute(f"ALTER DATABASE {database} SET TRUSTWORTHY OFF; DROP DATABASE disabled;")


def test_a_service_of_this_server_to_which_no_route_leads_or_in_other_letters_gets_no_route_to_another(
    connection: pyodbc.Connection, database: str, find: Callable[..., Explanation | None]
) -> None:
    connection.execute(queue("Unrouted"))
    connection.execute("DROP ROUTE AutoCreatedLocal;")
    connection.execute(send("Unrouted"))
    found = find("to Unrouted")
    assert found is not None
    assert found.reason == f"no route leads to the service, though {database} of this server has it"
    connection.execute(found.remedy)
    assert find("to Unrouted", there=False) is None
    connection.execute(send("unrouted"))
    found = find("to unrouted")
    assert found is not None
    assert found.reason == f"{database} has the service Unrouted: names of services are compared byte by byte"
    assert found.remedy == "END CONVERSATION of these, and BEGIN DIALOG ... TO SERVICE N'Unrouted'"
    misspelt = "SELECT conversation_handle FROM sys.conversation_endpoints WHERE far_service = N'unrouted';"
    for (handle,) in connection.execute(misspelt).fetchall():
        connection.execute(f"END CONVERSATION '{handle}' WITH CLEANUP;")
    connection.execute(send("Unrouted"))
    assert find("to unrouted", there=False) is None and find("to Unrouted", there=False) is None
    here = Database(5, "app", True, "aa-1", services={"Shop": 1})
    status = table()["9750"].text
    elsewhere = of_way(Server("s", "sql1:1433", [here]), here, Waiting("a", "Shop", "bb-2", status, 1, 99.0), [])
    assert elsewhere is not None and "TCP://" in elsewhere[2], "it is for another broker"


def test_a_copy_of_the_targets_database_is_told_with_the_statement_that_makes_it_another() -> None:
    here = Database(5, "app", True, "aa-1")
    real, copy = (
        Database(number, name, True, "BB-2", services={"Shop": 1}) for number, name in ((6, "shop"), (7, "new"))
    )
    servers = [Server("s", "sql1:1433", [here]), Server("t", "sql2:1433", [real]), Server("u", "sql3:1433", [copy])]
    why = of_way(servers[0], here, Waiting("a", "Shop", "bb-2", "", 1, 99.0), servers)
    assert why is not None and why[0] == "a copy of the target's database has the same service and broker identifier"
    assert why[1].endswith("service_broker_guid of t shop and u new is bb-2")
    assert why[2].endswith("ALTER DATABASE [new] SET NEW_BROKER WITH ROLLBACK IMMEDIATE;")


def test_a_service_of_that_name_where_no_route_leads_is_no_reason_to_end_conversations() -> None:
    here = Database(5, "app", True, "aa-1", routes=[Route("r", "Shop", "", "TCP://sql9:4022")])
    other = Database(6, "shop", True, "cc-3", services={"Shop": 1})
    near, elsewhere = Server("s", "sql1:1433", [here, other]), Server("t", "sql2:1433", [other])
    elsewhere.endpoint = Endpoint("e", "STARTED", 5022)
    status = "Connection attempt failed with error: '10061(No connection could be made because ...)'."
    for servers in ([near], [near, elsewhere]):
        why = of_way(near, here, Waiting("a", "Shop", "bb-2", status, 1, 99.0), servers)
        assert why is not None and "nothing listens on that port" in why[0] and "CLEANUP" not in why[2]
    elsewhere.endpoint.port = 4022  # as everywhere: what cannot be reached may still be another server
    why = of_way(near, here, Waiting("a", "Shop", "bb-2", status, 1, 99.0), [near, elsewhere])
    assert why is not None and "CLEANUP" not in why[2]


@pytest.mark.parametrize(
    ("service", "state_name", "ending"),
    [
        ("Ended", "DISCONNECTED_INBOUND", "END CONVERSATION @h;"),
        ("Failed", "ERROR", "END CONVERSATION @h WITH ERROR = 5 DESCRIPTION = N'no';"),
    ],
)
def test_conversations_that_nobody_ends_on_this_side_are_told_with_the_batch_that_ends_them(
    service: str, state_name: str, ending: str, connection: pyodbc.Connection, find: Callable[..., Explanation | None]
) -> None:
    connection.execute(queue(service))
    for _ in range(3):
        connection.execute(f"{send(service)} {ending}")
    assert find(f"conversations of {service}", there=False) is None  # what ends them is in the queue
    while connection.execute(f"RECEIVE TOP (1) message_type_name FROM dbo.{service};").fetchall():
        pass
    found = find(f"conversations of {service}")
    assert found is not None and f"3 conversations {state_name}, the oldest begun " in found.evidence
    assert ", one of them for " in found.evidence
    assert "nothing here receives" in found.reason
    unread = 2
    for _ in range(unread):
        connection.execute(f"{send(service)} {ending}")
    connection.execute(found.remedy.partition("those that are there: ")[2])
    assert connection.execute(f"SELECT COUNT(DISTINCT conversation_handle) FROM dbo.{service};").fetchval() == unread
    while connection.execute(
        f"DECLARE @h uniqueidentifier; RECEIVE TOP (1) @h = conversation_handle FROM dbo.{service};"
        " IF @h IS NOT NULL END CONVERSATION @h; SELECT @h;"
    ).fetchval():
        pass
    assert find(f"conversations of {service}", there=False) is None


def test_conversations_that_become_more_and_more_are_told_and_those_on_their_way_are_not() -> None:
    def seen(number: int, at_s: float, first: str = "2094", state_name: str = "CONVERSING") -> Conversations:
        return Conversations("Orders", state_name, False, number, first, LIFETIME_MAX_S - 7200.0, 0, at_s)

    before, after, later = seen(100, 0.0), seen(110, 20.0), seen(111, 40.0)
    after.follow(before)
    later.follow(after)
    assert (after.grows_s, later.grows_s, later.stays_s) == (20.0, 40.0, 40.0)
    database = Database(5, "app", True, "", conversations=[later])
    [found] = explain(Server("server", "here", [database]))
    assert found.what == "conversations of Orders" and found.reason == "conversations are begun, and nobody ends them"
    assert found.evidence == "111 conversations CONVERSING, the oldest begun 2 h ago, more at each look for 40 s"
    assert "DECLARE" not in found.remedy  # it would end those in use
    fewer = seen(105, 60.0)
    fewer.follow(later)
    passing = seen(7, 80.0, "2095", "DISCONNECTED_INBOUND")
    passing.follow(seen(7, 70.0, "2094", "DISCONNECTED_INBOUND"))
    database.conversations = [fewer, passing]
    assert explain(Server("server", "here", [database])) == []


def test_a_poison_message_is_named_and_its_conversation_ended_before_the_queue_is_switched_on(
    connection: pyodbc.Connection, find: Callable[..., Explanation | None]
) -> None:
    """STATUS = ON alone would be off again five rollbacks later."""
    body = (
        "DECLARE @b varbinary(max); BEGIN TRANSACTION; RECEIVE TOP (1) @b = message_body FROM dbo.[{name}];"
        " IF @b = 0x0BAD ROLLBACK; ELSE COMMIT;"
    )
    for batch in (procedure("Spoilt", body), activated("Spoilt"), send("Spoilt").replace("0x01", "0x0BAD")):
        connection.execute(batch)
    found = find("Spoilt")
    assert found is not None and "is_receive_enabled = 0" in found.evidence
    until = time.monotonic() + PATIENCE_S
    while "the first message: DEFAULT, sequence 0" not in found.evidence:
        assert time.monotonic() < until, found
        found = find("Spoilt")
        assert found is not None
    connection.execute(found.remedy[found.remedy.index("END CONVERSATION") :].replace("; then ", "; "))
    connection.execute(send("Spoilt"))
    assert find("Spoilt", there=False) is None
    reads = "SELECT COUNT(*) FROM dbo.Spoilt;"
    while connection.execute(reads).fetchval():
        assert time.monotonic() < until
    assert connection.execute("SELECT is_receive_enabled FROM sys.service_queues WHERE name = N'Spoilt';").fetchval()


def test_an_error_message_that_nobody_receives_is_told_with_its_code_and_text(
    connection: pyodbc.Connection, find: Callable[..., Explanation | None]
) -> None:
    connection.execute(queue("Refused"))
    connection.execute(f"{send('Refused')} END CONVERSATION @h WITH ERROR = 42 DESCRIPTION = N'no <such> order';")
    until = time.monotonic() + PATIENCE_S
    while (found := find("conversations of Refused")) is None or "lies in the queue" not in found.reason:
        assert time.monotonic() < until, found
    assert found.evidence.endswith("; the first: 42 no <such> order")
    assert found.remedy == "RECEIVE it FROM [dbo].[Refused], and END CONVERSATION"
    handle = connection.execute(
        "DECLARE @h uniqueidentifier; RECEIVE @h = conversation_handle FROM dbo.Refused; SELECT @h;"
    ).fetchval()
    while (found := find("conversations of Refused")) is None or "nothing here receives" not in found.reason:
        assert time.monotonic() < until, "it was received, and not ended"
    connection.execute(f"END CONVERSATION '{handle}';")
    assert find("conversations of Refused", there=False) is None


def conversing(state_name: str, **changed: object) -> Database:
    """A database with conversations that have been there for a minute."""
    given = Conversations("Orders", state_name, False, 50_000, "2094", LIFETIME_MAX_S - 60.0, 0, 60.0)
    given.stays_s = 60.0
    for name, value in changed.items():
        setattr(given, name, value)
    orders = Queue("dbo", "Orders", 1, True, True, False, True, True, "p", True, "OWNER", 2, None, None, False, False)
    orders.rows = 0
    return Database(5, "app", True, "", queues=[orders], services={"Orders": 1}, conversations=[given])


@pytest.mark.parametrize(
    ("database", "reason", "evidence", "remedy"),
    [
        (
            conversing("DISCONNECTED_OUTBOUND"),
            "this side has ended conversations, and the other has not",
            "60 s at least",
            "of the other side",
        ),
        (conversing("CLOSED"), "the server keeps each for half an hour", "50,000 conversations CLOSED", "wait; "),
        (
            conversing("CLOSED", is_kept=True, number=3),
            "stay until their lifetime ends",
            "year 1900",
            "WITH CLEANUP; END;",
        ),
        (
            conversing("CONVERSING", first_ends_s=720.0, ends_soon=7),
            "their lifetime is about to end",
            "; 7 end within an hour, the first in 12 min",
            "longer LIFETIME",
        ),
    ],
)
def test_conversations_that_last_are_told_by_their_state(
    database: Database, reason: str, evidence: str, remedy: str
) -> None:
    [found] = explain(Server("server", "here", [database]))
    assert reason in found.reason and evidence in found.evidence and remedy in found.remedy, found


@pytest.mark.parametrize(
    "database",
    [conversing("CLOSED", number=100), conversing("CONVERSING"), conversing("DISCONNECTED_OUTBOUND", stays_s=8.0)],
)
def test_conversations_that_are_as_they_should_be_are_not_told(database: Database) -> None:
    assert explain(Server("server", "here", [database])) == []


def test_of_very_many_conversations_the_number_alone_is_read_and_told(
    instance: Instance, database: str, connection: pyodbc.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    connection.execute(send("Sender"))
    for module in (state, reading):
        monkeypatch.setattr(module, "CONVERSATIONS_MAX", 0)
    reader = Reader(instance, database=database)
    server = reader.look()
    reader.close()
    assert server.databases[0].conversations is None
    [found] = [one for one in explain(server) if one.what == "conversations"]
    assert found.evidence.endswith(" rows in sys.sysdesend") and "sql/monitors/conversations.sql" in found.remedy


def test_conversations_that_take_too_long_to_read_are_not_asked_for_again(
    instance: Instance, database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    single, name = asking.scripts.single, "monitors/conversations"
    waits = "WAITFOR DELAY '00:00:30';"
    monkeypatch.setattr(
        asking.scripts, "single", lambda path, variables: waits if name in path else single(path, variables)
    )
    monkeypatch.setattr(asking, "QUERY_TIMEOUT_S", 1)
    asker = Asker(instance)
    assert asker.ask(database, [name], {}) == asker.ask(database, [name], {}) == {}
    [line] = asker.refusals()
    assert line.startswith("not shown: conversations by state, in app") and "timeout" in line.lower()
    assert "monitors/databases" in asker.ask("", ["monitors/databases"], {})
    asker.close()


def growing(*, readers: int, groups: int) -> Server:
    grows = Queue("dbo", "Grows", 1, True, True, False, True, True, "p", True, "OWNER", 8, None, None, False, False)
    grows.rows, grows.statuses, grows.oldest_s, grows.in_per_s, grows.out_per_s = 500, {1: 500}, 30.0, 90.0, 50.0
    grows.monitor, grows.conversation_groups = Monitor("RECEIVES_OCCURRING", 0, readers, 9.0, None), groups
    grows.receive_hints = ["its RECEIVE has TOP (1)"]
    return Server("server", "here", [Database(5, "app", True, "", queues=[grows])])


@pytest.mark.parametrize(
    ("server", "reason", "evidence"),
    [
        (
            growing(readers=2, groups=1),
            "a conversation group has one reader at a time",
            "2 of 8 readers run, 500 messages in the queue; its ready messages are of 1 conversation group",
        ),
        (growing(readers=8, groups=1), "a conversation group has one reader at a time", "8 of 8 readers run"),
        (
            growing(readers=2, groups=400),
            "its readers are slower than its messages come",
            "; a message takes a reader 40 ms",
        ),
        (growing(readers=8, groups=400), "all readers that MAX_QUEUE_READERS allows run", "8 of 8 readers run"),
    ],
)
def test_why_a_queue_grows_is_told_by_its_readers_and_conversation_groups(
    server: Server, reason: str, evidence: str
) -> None:
    [found] = explain(server)
    assert reason in found.reason and evidence in found.evidence and "its RECEIVE has TOP (1)" in found.evidence


def test_certificates_that_end_within_a_month_are_told_and_others_are_not() -> None:
    server = Server("server", "here", [Database(5, "app", True, "")])
    server.certificates = [
        Certificate("endpoint", "endpoint", "2027-01-01 00:00", 100),
        Certificate("theirs", "peer", "2026-01-01 00:00", -5),
        Certificate("later", "peer", "2027-06-01 00:00", 5000),
    ]
    server.databases[0].certificates = [Certificate("own", "dialogs", "2026-12-01 00:00", 30)]
    [dialogs, endpoint, peer] = explain(server)
    assert (dialogs.database, dialogs.what) == ("app", "certificate own") and "AUTHORIZATION" in dialogs.remedy
    assert endpoint.reason == "a certificate of this instance's endpoint ends in 4 d"
    assert "ALTER ENDPOINT" in endpoint.remedy and endpoint.evidence == "expiry_date = 2027-01-01 00:00"
    assert peer.reason.endswith("has ended") and peer.remedy.startswith("at that server, ")


def test_a_program_that_holds_what_it_has_received_is_told_before_that_nothing_reads(
    instance: Instance, connection: pyodbc.Connection, database: str, find: Callable[..., Explanation | None]
) -> None:
    connection.execute(queue("Held"))
    connection.execute(send("Held", 2))
    found = find("Held")
    assert found is not None and found.reason.startswith("nothing reads it")
    client = instance.connect(database)
    client.autocommit = False
    client.execute("RECEIVE TOP (1) message_body FROM dbo.Held;").fetchall()  # one is left, in the same group
    session = client.execute("SELECT @@SPID;").fetchval()
    try:
        until = time.monotonic() + PATIENCE_S
        while (found := find("Held")) is None or "open transactions" not in found.reason:
            assert time.monotonic() < until, found
        assert f"session {session} " in found.evidence and f"commit it, or KILL {session};" in found.remedy
        assert "or nothing reads it" in found.reason and "ACTIVATION (STATUS = ON" in found.remedy
    finally:
        client.commit()
        client.close()
    found = find("Held")
    assert found is not None and "nothing reads it" in found.reason


def test_locked_groups_are_told_with_the_session_that_may_hold_them(
    instance: Instance, database: str, connection: pyodbc.Connection, find: Callable[..., Explanation | None]
) -> None:
    for batch in (procedure("Locked", READING), activated("Locked"), send("Locked")):
        connection.execute(batch)
    reads = "SELECT COUNT(*) FROM dbo.Locked;"
    ends = (
        "SELECT e.is_initiator, e.conversation_handle FROM sys.conversation_endpoints AS e JOIN sys.conversation_endpoints"
        " AS t ON t.conversation_id = e.conversation_id JOIN sys.services AS s ON s.service_id = t.service_id"
        " WHERE s.name = N'Locked' AND t.is_initiator = 0;"
    )
    until = time.monotonic() + PATIENCE_S
    while len(handles := dict(map(tuple, connection.execute(ends)))) < 2 or connection.execute(reads).fetchval():
        assert time.monotonic() < until
        time.sleep(0.05)
    holder = instance.connect(database)
    holder.execute(f"BEGIN TRANSACTION; SEND ON CONVERSATION '{handles[False]}' (0x02);")
    connection.execute(f"SEND ON CONVERSATION '{handles[True]}' (0x03);")
    try:
        found = find("Locked")
        assert found is not None and "have locked the conversation groups" in found.reason
        session = holder.execute("SELECT @@SPID;").fetchval()
        assert f"session {session} (service-broker-harness on " in found.evidence and "INACTIVE" in found.evidence
        assert found.evidence.endswith(" has a transaction open in this database")
        assert found.remedy == f"commit it, or KILL {session};"
    finally:
        holder.execute("ROLLBACK;")
        holder.close()
    assert find("Locked", there=False) is None


def test_who_receives_in_the_place_of_readers_is_told(
    instance: Instance, database: str, connection: pyodbc.Connection, find: Callable[..., Explanation | None]
) -> None:
    for batch in (procedure("Stolen", "SELECT 1;"), activated("Stolen"), send("Stolen"), send("Stolen")):
        connection.execute(batch)
    other = instance.connect(database)
    cursor = other.cursor()
    waiting = (
        "DECLARE @h uniqueidentifier; SELECT TOP (1) @h = conversation_handle FROM dbo.Stolen;"
        " RECEIVE * FROM dbo.Stolen WHERE conversation_handle = @h;"
        " WAITFOR (RECEIVE * FROM dbo.Stolen WHERE conversation_handle = @h), TIMEOUT 60000;"
    )
    session = other.execute("SELECT @@SPID;").fetchval()

    def receive() -> None:
        try:
            cursor.execute(waiting)
            while cursor.nextset():
                pass
        except pyodbc.Error:
            pass  # cancelled

    thread = threading.Thread(target=receive)
    thread.start()
    try:
        found = find("Stolen")
        until = time.monotonic() + PATIENCE_S
        while (
            found is None or "somebody else receives" not in found.reason or f"session {session} " not in found.evidence
        ):
            assert time.monotonic() < until, found
            found = find("Stolen")
        assert "RECEIVES_OCCURRING" in found.evidence and "receives in this database" in found.evidence
        assert found.remedy == f"stop that program, or KILL {session};"
    finally:
        cursor.cancel()
        thread.join()
        other.close()
    connection.execute("RECEIVE * FROM dbo.Stolen;")
    assert find("Stolen", there=False) is None


def test_a_disabled_broker_is_told_for_queues_and_ways(
    connection: pyodbc.Connection, database: str, find: Callable[..., Explanation | None]
) -> None:
    connection.execute(queue("Silent"))
    connection.execute(send("Silent"))
    assert find("Silent") is not None
    connection.execute(f"ALTER DATABASE {database} SET DISABLE_BROKER WITH ROLLBACK IMMEDIATE;")
    connection.execute(send("Silenced"))
    remedy = f"ALTER DATABASE [{database}] SET ENABLE_BROKER WITH ROLLBACK IMMEDIATE;"
    for what in ("Silent", "to Silenced"):
        until = time.monotonic() + PATIENCE_S
        while (found := find(what)) is not None and "broker" not in found.reason:
            assert time.monotonic() < until, found
        assert found is not None and "the broker of th" in found.reason and found.remedy == remedy
    connection.execute(remedy)
    connection.execute("RECEIVE * FROM dbo.Silent;")
    assert find("Silent", there=False) is None


def test_what_a_message_to_another_instance_lacks_is_told_with_the_route(
    connection: pyodbc.Connection, find: Callable[..., Explanation | None]
) -> None:
    for service in ("Far", "Sealed", "Unbound"):
        connection.execute(f"CREATE ROUTE {service} WITH SERVICE_NAME = '{service}', ADDRESS = 'TCP://127.0.0.1:1';")
    connection.execute(
        "CREATE ENDPOINT e STATE = STARTED AS TCP (LISTENER_PORT = 31999, LISTENER_IP = (127.0.0.1))"
        " FOR SERVICE_BROKER (AUTHENTICATION = WINDOWS, ENCRYPTION = DISABLED);"
    )
    try:
        for service, encryption, reason, remedy in (
            ("Far", "OFF", "nothing listens on that port", "ALTER ROUTE [<name>] WITH ADDRESS"),
            ("Sealed", "ON", "the session keys of the dialog need the master key", "CREATE MASTER KEY"),
            ("Unbound", "ON", "no remote service binding names the service", "TO SERVICE N'Unbound' WITH USER"),
        ):
            if service == "Unbound":
                connection.execute("CREATE MASTER KEY ENCRYPTION BY PASSWORD = 'xY1-for-a-master-key';")
            connection.execute(send(service, encryption=encryption))
            until = time.monotonic() + PATIENCE_S
            while (found := find(f"to {service}")) is None or reason not in found.reason:
                assert time.monotonic() < until, found
            assert "a route names the service; transmission_status: " in found.evidence
            assert remedy in found.remedy
        with socket.create_server(("127.0.0.1", 0)) as mute:
            address = f"TCP://127.0.0.1:{mute.getsockname()[1]}"
            connection.execute(f"CREATE ROUTE w WITH SERVICE_NAME = 'Unanswered', ADDRESS = '{address}';")
            connection.execute(send("Unanswered"))
            found = find("to Unanswered")
            assert found is not None and "no acknowledgement has come" in found.reason
            assert "look at both sides, its endpoint, the route back" in found.remedy
            connection.execute("DROP ROUTE w;")
    finally:
        connection.execute("DROP ENDPOINT e;")


def test_a_notification_that_was_just_sent_again_hides_no_message_that_nobody_receives(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(state, "THRESHOLD_S", 5.0)
    left = Queue("dbo", "Left", 1, True, True, False, True, False, None, False, None, None, "n", "Events", True, True)
    left.rows, left.statuses, left.still_s, left.oldest_s = 1, {1: 1}, 1.0, 62.0
    left.monitor = Monitor("NOTIFIED", 0, 0, 2.0, None, since_s=2.0)
    server = Server("server", "here", [Database(5, "app", True, "", queues=[left])])
    [found] = explain(server)
    assert found.evidence == "its monitor has been NOTIFIED for 2 s, and its oldest message has been there for 62 s"
    left.oldest_s = 2.0  # a program may be starting
    assert explain(server) == []


def test_an_error_of_a_procedure_that_was_replaced_is_no_reason_any_more(
    connection: pyodbc.Connection, find: Callable[..., Explanation | None]
) -> None:
    failing = procedure("Replaced", "RAISERROR (N'too early', 16, 1);")
    for batch in (failing, activated("Replaced"), send("Replaced")):
        connection.execute(batch)
    until = time.monotonic() + PATIENCE_S
    while (found := find("Replaced")) is None or "too early" not in found.evidence:
        assert time.monotonic() < until, found
    connection.execute(procedure("Replaced", "SELECT 1;", verb="ALTER"))
    while found is None or "issues no RECEIVE" not in found.reason:
        assert time.monotonic() < until, found
        connection.execute(f"{on('Replaced', 'STATUS = OFF')} {on('Replaced')}")
        found = find("Replaced")
    assert "error log" not in found.evidence
    connection.execute("RECEIVE * FROM dbo.Replaced;")


def test_the_name_of_a_queue_runs_nothing(instance: Instance, database: str, connection: pyodbc.Connection) -> None:
    name = "q'); CREATE LOGIN somebody WITH PASSWORD = N'Str0ng, but not ours'; --]"
    full_name = f"[dbo].{quoted(name)}"
    connection.execute(f"CREATE QUEUE {full_name};")
    questions = ["monitors/messages", "monitors/procedure", "observe/activation_errors"]
    asker = Asker(instance)
    answers = asker.ask(database, questions, {"Queue": full_name, "Limit": "9", "Database": database})
    assert (list(answers), list(asker.refusals())) == (questions, [])
    assert connection.execute("SELECT SUSER_ID(N'somebody');").fetchval() is None
    asker.close()
    connection.execute(f"DROP QUEUE {full_name};")


def test_a_queue_whose_monitor_has_gone_is_explained_by_its_new_definition_alone(
    instance: Instance, database: str, connection: pyodbc.Connection
) -> None:
    for batch in (procedure("Changed", READING), activated("Changed")):
        connection.execute(batch)
    reader = Reader(instance, database=database)
    reader.look()
    connection.execute(on("Changed", "STATUS = OFF"))
    connection.execute(send("Changed"))
    for _ in range(2):
        reader._details_due = float("inf")  # no detail has its turn
        server = reader.look()
    assert "[dbo].[Changed]" not in [one.what for one in explain(server)]
    [found] = [one for one in explain(reader.look(thoroughly=True)) if one.what == "[dbo].[Changed]"]
    assert found.reason == "its activation is off"
    reader.close()
    connection.execute("RECEIVE * FROM dbo.Changed;")


def test_a_monitor_is_inactive_no_longer_than_since_its_last_launch(instance: Instance) -> None:
    now = datetime(2026, 1, 1, 12)
    row = {"state": "INACTIVE", "tasks_waiting": 0, "readers": 0, "last_empty_rowset_time": None}
    clocks = {"last_activated_time": now - timedelta(seconds=7), "local_time": now, "utc_time": now}
    reader = Reader(instance)
    reader._states[5, 1] = "INACTIVE", 1000.0
    assert reader._monitor((5, 1), row | clocks, 1100.0).since_s == 7.0


def test_rows_that_are_retained_already_leave_with_their_conversation_alone() -> None:
    kept = Queue("dbo", "Kept", 1, True, True, True, True, True, "p", True, "OWNER", 1, None, None, False, False)
    kept.rows, kept.statuses, kept.still_s = 2, {0: 2}, 3.0
    server = Server("server", "here", [Database(5, "app", True, "", queues=[kept])])
    end = "END CONVERSATION where it is over"
    assert (
        explain(server)[0].remedy
        == f"{end}; so that no more are retained: ALTER QUEUE [dbo].[Kept] WITH RETENTION = OFF;"
    )
    kept.is_retention_enabled = False
    assert explain(server)[0].remedy == end


def test_messages_behind_a_gap_are_no_fault_of_the_monitor() -> None:
    gap = Queue("dbo", "Gap", 1, True, True, False, True, True, "p", True, "OWNER", 1, None, None, False, False)
    gap.rows, gap.statuses, gap.still_s = 2, {2: 2}, 3.0
    [found] = explain(Server("server", "here", [Database(5, "app", True, "", queues=[gap])]))
    assert "a fragment or a message before them is missing" in found.reason and found.evidence == "2 rows of status 2"


def test_a_remedy_can_be_pasted_whatever_routes_and_services_are_called() -> None:
    database = Database(5, "app", True, "")
    database.routes = [Route("r", "it's", "", "TCP://$(reboot):4022")]
    for status, words in (
        ("", "harness monitors --server sql1,1433 --server <target's>"),
        (table()["9750"].text, "SERVICE_NAME = N'it''s', "),
    ):
        way = of_way(Server("server", "sql1:1433"), database, Waiting("a", "it's", None, status, 1, 99.0), [])
        assert way is not None and words in way[2] and "$(" not in way[2]
