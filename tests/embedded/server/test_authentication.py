"""The dedicated administrator connection: its own port, one at a time, for sysadmin, with base tables visible."""

import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from harness.lab import drivers, embedded_instances, instances
from harness.lab.drivers import Secret
from harness.lab.instances import Instance, LabError, Login
from tests.waiting import wait_until

pytestmark = pytest.mark.process


@pytest.fixture(scope="module")
def instance(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Instance]:
    directory: Path = tmp_path_factory.mktemp("lab")
    driver = drivers.choose("auto")
    with embedded_instances.running(version="2008", initiators=1, directory=directory, driver=driver) as lab:
        yield replace(lab.target, database="master")


def test_the_administrator_connection_sees_base_tables_and_others_do_not(instance: Instance) -> None:
    text = "SELECT COUNT(*) FROM sys.sysdesend;"
    with instance.connect_admin() as connection:
        assert connection.execute(text).fetchval() == 0
        endpoint = "SELECT e.name FROM sys.dm_exec_sessions AS s JOIN sys.endpoints AS e ON e.endpoint_id = s.endpoint_id WHERE s.session_id = @@SPID;"
        assert connection.execute(endpoint).fetchval() == "Dedicated Admin Connection"
        connection.close()
    with instance.connect() as connection:
        with pytest.raises(Exception, match=r"Invalid object name 'sys\.sysdesend'"):
            connection.execute(text)
        connection.close()


def test_a_taken_administrator_connection_is_asked_for_again(instance: Instance) -> None:
    connection = instance.connect_admin()
    threading.Timer(0.5, connection.close).start()
    instance.connect_admin().close()


def test_there_is_one_administrator_connection_at_a_time(instance: Instance, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(instances, "ADMIN_TIMEOUT_S", 0.0)
    connection = instance.connect_admin()
    with pytest.raises(LabError, match="17810"):
        instance.connect_admin()
    with instance.connect() as other:
        spids = other.execute("SELECT COUNT(DISTINCT session_id), COUNT(*) FROM sys.dm_exec_sessions;").fetchone()
        assert spids[0] == spids[1]
        other.close()
    connection.close()
    instance.connect_admin().close()


def test_the_administrator_connection_refuses_logins_outside_sysadmin(instance: Instance) -> None:
    with instance.connect() as connection:
        connection.execute("CREATE LOGIN watcher WITH PASSWORD = 'W@tcher12'; GRANT VIEW SERVER STATE TO watcher;")
        connection.close()
    watcher = replace(instance, login=Login("watcher", Secret("W@tcher12")))
    with watcher.connect() as connection:
        for text in ("DBCC PAGE (5, 1, 16, 0) WITH TABLERESULTS;", "DBCC TRACEON (3604);"):
            with pytest.raises(Exception, match="does not have permission to run DBCC"):
                connection.execute(text)
        connection.execute("DBCC TRACESTATUS (-1);")
        connection.close()
    with pytest.raises(LabError, match="18456"):
        watcher.connect_admin()
    instance.connect_admin().close()  # the refused login did not take the only connection


def test_logins_raise_events_of_the_server(instance: Instance) -> None:
    with instance.connect() as connection:
        connection.execute("CREATE DATABASE audit; CREATE LOGIN ann WITH PASSWORD = 'W@tcher12';")
        connection.execute("USE audit;")
        for text in (
            "CREATE QUEUE q;",
            "CREATE SERVICE s ON QUEUE q ([http://schemas.microsoft.com/SQL/Notifications/PostEventNotification]);",
            "CREATE EVENT NOTIFICATION n ON SERVER FOR AUDIT_LOGIN, AUDIT_LOGIN_FAILED TO SERVICE 's', 'current database';",
        ):
            connection.execute(text)
        for user, password in (("ann", "W@tcher12"), ("ann", "wrong"), ("nobody", "wrong")):
            try:
                replace(instance, login=Login(user, Secret(password))).connect().close()
            except LabError:
                assert password == "wrong"
        text = """
            SELECT b.value('(//EventType)[1]', 'sysname'), b.value('(//LoginName)[1]', 'sysname'), b.value('(//State)[1]', 'int')
            FROM (SELECT CAST(message_body AS xml) AS b, queuing_order FROM q) AS m ORDER BY queuing_order;
        """
        wait_until(lambda: len(connection.execute(text).fetchall()) >= 3)
        assert [tuple(row) for row in connection.execute(text).fetchall()] == [
            ("AUDIT_LOGIN", "ann", None),
            ("AUDIT_LOGIN_FAILED", "ann", 8),
            ("AUDIT_LOGIN_FAILED", "nobody", 5),
        ]
        connection.execute("DROP EVENT NOTIFICATION n ON SERVER;")
        connection.close()


def test_a_database_with_a_single_user_is_open_to_one_session(instance: Instance) -> None:
    owner, idle, running = (instance.connect() for _ in range(3))
    owner.execute("CREATE DATABASE alone;")
    for session in (idle, running):
        session.execute("USE alone;")
    with pytest.raises(Exception, match="5070"):
        owner.execute("ALTER DATABASE alone SET SINGLE_USER WITH NO_WAIT;")
    waiting = threading.Thread(target=_fails, args=(running, "WAITFOR DELAY '01:00:00';"))
    waiting.start()
    waits = "SELECT COUNT(*) FROM sys.dm_exec_requests WHERE wait_type = 'WAITFOR';"
    wait_until(lambda: owner.execute(waits).fetchval() == 1)
    owner.execute("ALTER DATABASE alone SET SINGLE_USER WITH ROLLBACK IMMEDIATE; USE alone;")
    waiting.join()
    _fails(idle, "SELECT 1;")
    with instance.connect() as other:
        with pytest.raises(Exception, match="924"):
            other.execute("USE alone;")
        with pytest.raises(Exception, match="924"):
            replace(instance, database="alone").connect()
        owner.execute("USE master;")
        other.execute("USE alone; USE master; DROP DATABASE alone;")
        other.close()
    for session in (owner, idle, running):
        session.close()


def _fails(connection: Any, text: str) -> None:
    with pytest.raises(Exception, match=r"08S01|01000|HY000"):
        connection.execute(text)
