"""The live view: what fits a terminal, what goes on without a database or a server, and how it ends."""

import dataclasses
import io
import os
import pty
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from harness.files.script_text import ScriptError
from harness.lab import scripts
from harness.lab.instances import Instance
from harness.monitors import showing, watching
from harness.monitors.asking import Asker, LockTimeout, NoDatabase
from harness.monitors.explaining import explain
from harness.monitors.reading import Reader
from harness.monitors.state import Database, Monitor, Queue, Server, Waiting
from harness.monitors.watching import Watched
from harness.output.reporting import SafeConsole
from tests.monitors.conftest import send
from tests.waiting import wait_until

pytestmark = [pytest.mark.process, pytest.mark.timeout(120)]


def console(width: int, height: int = 40) -> SafeConsole:
    return SafeConsole(width=width, height=height, file=io.StringIO(), force_terminal=True, color_system=None)


def frame(watched: list[Watched], width: int = 120, height: int = 300) -> str:
    terminal = console(width, height)
    terminal.print(watching.frame(watched, terminal)[0])
    assert isinstance(terminal.file, io.StringIO)
    return terminal.file.getvalue()


def shown(reader: Reader, width: int = 120, height: int = 40) -> str:
    return frame([Watched(reader)], width, height)


def lock(patch: pytest.MonkeyPatch, database: str) -> None:
    """What is asked in a database, or with "" of the server, runs into the lock timeout."""
    run = Asker._run

    def times_out(asker: Asker, place: str, texts: Any) -> Any:
        if place == database:
            return [], ScriptError("Lock request time out period exceeded. (error 1222)")
        return run(asker, place, texts)

    patch.setattr(Asker, "_run", times_out)


@pytest.fixture
def reader(instance: Instance, database: str) -> Iterator[Reader]:
    with instance.connect(database) as connection:
        for number in range(30):
            connection.execute(
                f"IF OBJECT_ID(N'dbo.Orders{number}') IS NULL CREATE QUEUE dbo.Orders{number} WITH RETENTION = ON;"
            )
        connection.execute(
            "IF NOT EXISTS (SELECT 1 FROM sys.services WHERE name = N'Orders')"
            " CREATE SERVICE [Orders] ON QUEUE dbo.Orders7 ([DEFAULT]);"
        )
        connection.execute(send("Orders", 3))
    opened = Reader(dataclasses.replace(instance))
    yield opened
    opened.close()


def test_the_queues_of_database_mail_are_shown_as_the_systems(instance: Instance) -> None:
    opened = Reader(dataclasses.replace(instance))
    with instance.connect("msdb") as connection:
        assert "msdb" not in [database.name for database in opened.look().databases]
        connection.execute("CREATE QUEUE dbo.ExternalMailQueue WITH STATUS = OFF;")
        connection.execute("CREATE SERVICE ExternalMailService ON QUEUE dbo.ExternalMailQueue ([DEFAULT]);")
        opened.close()
        opened = Reader(dataclasses.replace(instance))
        try:
            assert "msdb (the system's).dbo.ExternalMailQueue" in shown(opened, width=200)
            connection.execute("ALTER QUEUE dbo.ExternalMailQueue WITH STATUS = ON;")
            connection.execute(send("ExternalMailService", 1).replace("[Sender]", "[ExternalMailService]"))
            connection.execute("ALTER QUEUE dbo.ExternalMailQueue WITH STATUS = OFF;")
            [explained] = [one for one in explain(opened.look(thoroughly=True)) if one.database.startswith("msdb")]
            assert explained.reason.startswith("the queue is switched off")
            assert explained.remedy.startswith("EXECUTE msdb.dbo.sysmail_help_status_sp")
        finally:
            connection.execute("DROP SERVICE ExternalMailService; DROP QUEUE dbo.ExternalMailQueue;")
            opened.close()


def test_a_look_that_met_a_stall_is_followed_by_no_long_pause(reader: Reader, monkeypatch: pytest.MonkeyPatch) -> None:
    costs_s = [0.001, 0.001, 0.5, 0.001, 0.001]  # half a second of one look would be a minute's pause
    looks, pauses_s = iter(costs_s), list[float]()
    monkeypatch.setattr(watching, "frame", lambda *_: ("", next(looks)))
    monkeypatch.setattr(watching, "_pause", pauses_s.append)
    watching.watch([reader], console(80), every_s=1.0, is_over=lambda: len(pauses_s) == len(costs_s))
    assert max(pauses_s) <= 1.0


def test_to_wait_for_a_lock_is_no_cost(reader: Reader, database: str, monkeypatch: pytest.MonkeyPatch) -> None:
    reader.look()
    answer = [], ScriptError("Lock request time out period exceeded. (error 1222)")
    monkeypatch.setattr(scripts, "result_sets", lambda *_: answer)
    before_s = reader._asker.cost_s
    with pytest.raises(LockTimeout):
        reader._asker.ask(database, ["monitors/depths"], {})
    assert reader._asker.cost_s == before_s


@pytest.mark.parametrize("width", [60, 80, 200])
def test_the_view_fits_a_terminal_and_what_is_explained_comes_first(reader: Reader, database: str, width: int) -> None:
    reader.look()
    reader.look(thoroughly=True)  # where a look is dear, the next one reads no totals
    lines = shown(reader, width, 24).splitlines()
    assert max(map(len, lines)) <= width and len(lines) <= 24
    first = next(line for line in lines if "Orders" in line)
    assert "Orders7 " in first and "retains" in first and "none" in first, first
    assert any("nothing reads it" in line for line in lines)
    assert any("more queues with fewer messages" in line for line in lines)
    assert ("activated" in "".join(lines)) == (width == 200)


def full(schema: str, name: str, rows: int) -> Queue:
    found = Queue(schema, name, rows, True, True, True, False, False, "p", True, None, 1, None, None, False, False)
    found.rows, found.statuses, found.oldest_s, found.in_per_s, found.out_per_s = rows, {1: rows}, 100.0, 12.0, 3.0
    found.monitor = Monitor("RECEIVES_OCCURRING", 0, 0, 1.0, 1.0, 100.0)
    return found


def viewed(server: Server, width: int, height: int) -> list[str]:
    terminal = console(width, height)
    terminal.print(showing.view(server, terminal, [server], height=height))
    assert isinstance(terminal.file, io.StringIO)
    return terminal.file.getvalue().splitlines()


@pytest.mark.parametrize("width", [60, 80, 200])
def test_long_names_are_shortened_and_numbers_states_and_flags_are_whole(width: int) -> None:
    queues = [
        full("dbo", f"{'Queue_with_a_name_of_60_characters_'.ljust(58, 'x')}{n:02}", 12_000 + n) for n in range(5)
    ]
    databases = [Database(5, "Warehouse_of_the_northern_region", False, "", queues=queues), Database(6, "b", True, "")]
    lines = viewed(Server("server", "here", databases), width, 50)
    assert max(map(len, lines)) <= width
    for number in range(5):
        numbers = "100 s +RECEIVES 100 s " if width == 60 else ".* 100 s +12 +3.0 +RECEIVES 100 s +0/1 "
        assert any(re.search(rf"x{number:02} +12,00{number} +{numbers}", line) for line in lines), lines
    text = " ".join(lines)
    assert all(flag in text for flag in ("broker-off", "idle", "retains", "poison-off"))


def test_a_reason_that_does_not_fit_is_counted_and_not_cut() -> None:
    queues = [full("dbo", f"Orders{n}", 9 - n) for n in range(2)]
    for queue in queues:
        queue.statuses, queue.still_s = {0: queue.rows or 0}, 9.0  # all are retained
    lines = viewed(Server("server", "here", [Database(5, "app", True, "", queues=queues)]), 80, 17)
    assert len(lines) <= 17 and lines[-1].strip() == "1 more reason: --once shows all", lines


def test_messages_that_came_after_statuses_were_counted_are_ready() -> None:
    queue = full("dbo", "Orders", 2)
    queue.statuses, queue.rows = {0: 2}, 5
    assert queue.ready == 3


def test_what_waits_ages_between_readings_and_what_has_gone_has_no_age(reader: Reader) -> None:
    queue = full("dbo", "Orders", 2)
    reader._measure((5, 1), queue, 10.0, 2, 0)
    reader._measure((5, 1), queue, 14.0, 2, 0)
    assert queue.oldest_s == 104.0


def test_the_view_goes_on_when_a_database_vanishes_and_when_it_comes_back(
    instance: Instance, reader: Reader, database: str
) -> None:
    with instance.connect("master") as connection:
        connection.execute("CREATE DATABASE brief;")
        connection.execute("USE brief; CREATE QUEUE dbo.Short; USE master;")
        reader.look()
        assert "brief.dbo.Short" in shown(reader, height=90)
        connection.execute("DROP DATABASE brief;")  # nothing of the view is in it
        gone = shown(reader, height=90)
        assert "dbo.Short" not in gone and "dbo.Orders7" in gone
        connection.execute("CREATE DATABASE brief;")
        connection.execute("USE brief; CREATE QUEUE dbo.Again; USE master;")
        reader.look(thoroughly=True)
        assert "brief.dbo.Again" in shown(reader, height=90)
        connection.execute("DROP DATABASE brief;")


def test_a_database_that_is_locked_is_shown_as_it_was_and_the_others_as_they_are(
    instance: Instance, database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with instance.connect("master") as connection:
        connection.execute("CREATE DATABASE locked;")
        connection.execute("USE locked; CREATE QUEUE dbo.Held; USE master;")
        reader = Reader(instance)
        assert "locked.dbo.Held" in shown(reader, height=90)
        with monkeypatch.context() as patch:
            lock(patch, "locked")
            reader.look(thoroughly=True)
            view = shown(reader, 200, height=90)
        assert "locked is shown as it was: a session holds locks" in view
        assert "locked.dbo.Held" in view and f"{database}.dbo.Sender" in view
        reader.look(thoroughly=True)
        assert "is shown as it was" not in shown(reader, 200, height=90)
        reader.close()
        connection.execute("DROP DATABASE locked;")


def test_a_list_of_databases_that_is_locked_is_shown_as_it_was(
    instance: Instance, database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    reader = Reader(instance, database=database)
    assert "dbo.Sender" in shown(reader, height=90)
    lock(monkeypatch, "")
    reader.look(thoroughly=True)
    view = shown(reader, 200, height=90)
    assert "the list of databases is shown as it was: a session holds locks" in view and "dbo.Sender" in view
    reader.close()


def test_a_database_that_another_session_has_for_itself_is_named_and_the_view_goes_on(
    instance: Instance, database: str
) -> None:
    with instance.connect("master") as owner:
        owner.execute("CREATE DATABASE sole;")
        owner.execute("USE sole; CREATE QUEUE dbo.Mine;")
        reader = Reader(instance)
        assert "sole.dbo.Mine" in shown(reader, height=90)
        owner.execute("ALTER DATABASE sole SET SINGLE_USER WITH ROLLBACK IMMEDIATE;")
        reader.look(thoroughly=True)
        view = " ".join(shown(reader, 200, height=90).split())
        assert "sole.dbo.Mine" not in view and f"{database}.dbo.Sender" in view
        assert "(error 924)" in view
        owner.execute("ALTER DATABASE sole SET MULTI_USER;")
        reader.look(thoroughly=True)
        assert "sole.dbo.Mine" in shown(reader, height=90)
        reader.close()
        owner.execute("USE master;")
        owner.execute("DROP DATABASE sole;")


def test_messages_of_a_database_that_cannot_be_used_any_more_are_not_explained(instance: Instance) -> None:
    waiting = Waiting("Sender", "Far", None, "", 1, 60.0)
    database = Database(5, "app", True, "", transmission_rows=1, transmission=[waiting])
    server = Server("server", "here", [database])
    assert [one.what for one in explain(server)] == ["to Far"]

    def gone() -> None:
        raise NoDatabase("app is offline")

    Reader(instance)._tried(database, gone)
    assert explain(server) == [] and database.problems == ["app is offline"]


def test_the_view_goes_on_when_the_server_does_not_answer_for_a_moment(instance: Instance, database: str) -> None:
    place = dataclasses.replace(instance)
    reader = Reader(place)
    reader.look()
    reader.close()  # as a connection that broke
    place.port = 1
    assert "no answer, trying again: target (127.0.0.1:1): nothing listens there" in " ".join(
        shown(reader, 200).split()
    )
    place.port = instance.port
    assert "ready" in shown(reader)
    reader.close()


def test_a_server_that_does_not_answer_keeps_no_other_from_being_shown(
    instance: Instance, database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    answers, silent = Reader(instance, database=database), Reader(dataclasses.replace(instance, name="silent"))
    answers.look()
    silent.look()
    asks_again, look = threading.Event(), silent.look
    monkeypatch.setattr(silent, "look", lambda: asks_again.wait(60) and look())
    watched = [Watched(answers), Watched(silent)]
    view = frame(watched)
    assert re.search(r"no answer for \d s, shown as it was: silent", view) and "dbo.Sender" in view
    asks_again.set()
    view = wait_until(lambda: next((view for view in [frame(watched)] if "no answer" not in view), ""))
    assert "silent 127.0.0.1" in view
    asks_again.clear()
    view = frame(watched)
    assert "no answer" in view and "silent 127.0.0.1" in view
    asks_again.set()
    wait_until(lambda: "no answer" not in frame(watched))  # a connection in use must not be closed: the driver crashes
    answers.close()
    silent.close()


def test_ctrl_c_ends_the_view_with_130_and_one_line(instance: Instance, database: str) -> None:
    assert instance.login is not None
    leader, follower = pty.openpty()
    environment = {**os.environ, "HARNESS_PASSWORD": instance.login.password, "COLUMNS": "100", "LINES": "30"}
    words = ["monitors", "--server", f"{instance.host},{instance.port}", "--user", "sa", "-C", "--watch", "200ms"]
    process = subprocess.Popen(
        [sys.executable, "-m", "harness", *words], stdin=follower, stdout=follower, stderr=follower, env=environment
    )
    os.close(follower)
    said = b""
    try:
        while said.count(b"monitor") < 2:  # the head of two frames
            said += os.read(leader, 4096)
        process.send_signal(signal.SIGINT)
        try:
            while chunk := os.read(leader, 4096):
                said += chunk
        except OSError:
            pass  # the other end is closed
        assert process.wait(30) == 130
    finally:
        process.kill()
        process.wait()
        os.close(leader)
    assert said.decode().splitlines()[-1] == "harness: interrupted" and b"Traceback" not in said
