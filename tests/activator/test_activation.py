"""Activators and readers as processes, on an embedded instance: nothing is lost, nothing stays behind."""

import re
import signal
import subprocess
from collections import Counter

import pytest

from harness.lab import scripts
from tests.activator.conftest import NAMES
from tests.activator.siege import sending
from tests.commands import harness
from tests.processes import children_of, is_alive
from tests.waiting import wait_until

pytestmark = pytest.mark.process

EVENT = (
    "<EVENT_INSTANCE><EventType>QUEUE_ACTIVATION</EventType><PostTime>2026-01-01T00:00:00.000</PostTime>"
    "<DatabaseName>Orders</DatabaseName><SchemaName>dbo</SchemaName><ObjectName>{}</ObjectName></EVENT_INSTANCE>"
)
NOTIFY = """
DECLARE @h uniqueidentifier;
BEGIN DIALOG @h FROM SERVICE Sender TO SERVICE '//Test/Activation'
    ON CONTRACT [http://schemas.microsoft.com/SQL/Notifications/PostEventNotification] WITH ENCRYPTION = OFF;
SEND ON CONVERSATION @h MESSAGE TYPE [http://schemas.microsoft.com/SQL/Notifications/EventNotification] (?);
"""


def test_readers_start_with_messages_end_with_the_queue_and_start_again(site):
    site.write(max=2)
    with site.connect() as connection, site.activator() as activator:
        site.wait_for_line("ended with exit code 0")  # the first found nothing
        for turn in (1, 2):
            site.send(connection, *(b"%d-%d" % (turn, number) for number in range(30)))
            wait_until(lambda turn=turn: len(site.stored(connection)) == 30 * turn)
            wait_until(lambda: not children_of(activator.pid))
        assert site.stored(connection) == [b"%d-%d" % (turn, number) for turn in (1, 2) for number in range(30)]

        again = harness(site.folder, "activator", "a.toml", HARNESS_PASSWORD=site.password)
        assert again.code == 3
        assert again.line.endswith("Orders.dbo.Activation: another activator reads this queue: end one of the two")

        started = len(site.lines("started"))
        for name in ("Incoming", "Incoming", "Unknown"):  # twice the same
            connection.execute(NOTIFY + "END CONVERSATION @h;", EVENT.format(name).encode("utf-16"))
        connection.execute(
            NOTIFY + "END CONVERSATION @h WITH ERROR = 1 DESCRIPTION = 'enough';", "<x/>".encode("utf-16")
        )
        site.wait_for_line("no [[queue]] names 'Orders.dbo.Unknown', so its notifications are ignored")
        site.wait_for_line("dbo.Activation: a notification is ignored: it has no EventType")
        site.wait_for_line(
            "the conversation of an event notification has ended: enough; sql/activation/notification.sql"
        )
        wait_until(lambda: connection.execute("SELECT COUNT(*) FROM dbo.Activation;").fetchval() == 0)
        wait_until(lambda: not children_of(activator.pid))
        assert len(site.lines("started")) == started + 1

        activator.send_signal(signal.SIGTERM)
        assert activator.wait() == 0
        rows = "SELECT COUNT(*) FROM sys.dm_exec_sessions WHERE program_name LIKE '%activator%';"
        wait_until(lambda: connection.execute(rows).fetchval() == 0)
        connection.execute("ALTER QUEUE dbo.Activation WITH STATUS = OFF;")
        off = harness(site.folder, "activator", "a.toml", HARNESS_PASSWORD=site.password)
        assert (off.code, "is currently disabled" in off.line) == (3, True)
        scripts.run(connection, "activation/drop.sql", NAMES)
        left = connection.execute("SELECT COUNT(*) FROM sys.services WHERE name = '//Test/Activation';").fetchval()
        assert left == 0
        missing = harness(site.folder, "activator", "a.toml", HARNESS_PASSWORD=site.password)
        text = "there is no such queue, or the login may not see it: sql/activation/queue.sql creates it"
        assert (missing.code, missing.line.rpartition("Activation: ")[2]) == (3, text)
        scripts.run(connection, "activation/drop.sql", NAMES)


def test_a_dropped_notification_is_told_in_one_line_and_its_script_brings_it_back(site):
    site.write()
    told = "dbo.Activation: an event notification was dropped, alone or with its queue; "
    system = "SELECT COUNT(*) FROM sys.conversation_endpoints WHERE far_service = '//Test/Activation';"
    with site.connect() as connection, site.activator() as activator:
        site.wait_for_line("ended with exit code 0")
        site.send(connection, b"1")
        wait_until(lambda: site.stored(connection) == [b"1"])
        connection.execute("DROP EVENT NOTIFICATION Incoming ON QUEUE dbo.Incoming;")
        [line] = site.wait_for_line(told)
        assert line.endswith("unless there is a new one, run sql/activation/notification.sql")
        wait_until(lambda: not connection.execute(system).fetchval())
        wait_until(lambda: not children_of(activator.pid))
        site.send(connection, b"2")
        scripts.run(connection, "activation/notification.sql", NAMES)
        wait_until(lambda: site.stored(connection) == [b"1", b"2"])
        wait_until(lambda: not children_of(activator.pid))
        for statement in ("DROP SERVICE Receiver;", "DROP QUEUE dbo.Incoming;"):
            connection.execute(statement)
        site.wait_for_line(told, count=2)
        wait_until(lambda: not connection.execute(system).fetchval())


def test_a_queue_from_which_no_notification_can_come_is_named_when_the_activator_starts(site):
    site.write()
    moment = r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d "
    for starts, (spoil, said) in enumerate(
        (
            ("SELECT 1;", "reading dbo.Activation at"),  # nothing else
            (
                "DROP EVENT NOTIFICATION Incoming ON QUEUE dbo.Incoming;",
                "Orders.dbo.Incoming has no event notification",
            ),
            (
                "DROP SERVICE Receiver; DROP QUEUE dbo.Incoming;",
                "there is no queue Orders.dbo.Incoming: check its name",
            ),
        )
    ):
        with site.connect() as connection:
            connection.execute(spoil)
        with site.activator():
            site.wait_for_line("Ctrl-C ends this", starts + 1)
        lines = [line for line in site.lines() if "Ctrl-C ends this" in line or "Orders.dbo.Incoming" in line]
        first = lines[0] if not starts else next(line for line in lines if said in line)
        assert re.match(moment + said, first), lines


@pytest.mark.thorough
def test_a_program_that_crashes_is_started_again_between_min_and_max_and_dies_with_a_killed_activator(site):
    site.write(["sleep", "1000"], min=2, max=3)
    with site.connect() as connection, site.activator() as activator:
        site.wait_for_line("2 of at most 3")
        site.send(connection, b"x")  # nobody receives it
        site.wait_for_line("3 of at most 3")
        children_of(activator.pid)[0].kill()
        site.wait_for_line("was killed by signal 9 (SIGKILL)")
        site.wait_for_line("3 of at most 3", count=2)
        processes = children_of(activator.pid)
        assert len(processes) == 3
        activator.kill()
        wait_until(lambda: not any(map(is_alive, processes)))
    site.write(["sh", "-c", "sleep 1000; true"], min=2, max=2)
    with site.activator("--with-parent", stdin=subprocess.PIPE) as activator:
        processes = wait_until(lambda: len(found := children_of(activator.pid)) >= 4 and found)  # shells and sleeps
        activator.stdin.close()
        assert activator.wait() == 0
        assert not any(map(is_alive, processes))


def test_nothing_is_lost_while_activators_readers_and_the_server_are_killed(site):
    site.write(max=3)
    with site.activator() as first, sending(site) as confirmed:
        site.wait_for_line("started", count=2)
        [reader, *_] = wait_until(lambda: children_of(first.pid))
        reader.kill()
        site.wait_for_line("SIGKILL")
        first.kill()
        with site.activator() as second:
            site.wait_for_line("reading", count=2)
            site.server.kill()
            site.wait_for_line("next try in 1 s")
            site.start()
            site.wait_for_line("connected again")
            before = len(confirmed)
            wait_until(lambda: len(confirmed) > before + 50)
            second.send_signal(signal.SIGTERM)
            assert second.wait() == 0
    with site.activator() as third, site.connect() as connection:
        wait_until(lambda: confirmed <= set(site.stored(connection)))
        wait_until(lambda: not children_of(third.pid))
        assert max(Counter(site.stored(connection)).values()) == 1
        assert connection.execute("SELECT COUNT(*) FROM dbo.messageErrors;").fetchval() == 0
