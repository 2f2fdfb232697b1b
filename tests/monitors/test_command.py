"""`harness monitors` as a user runs it: one state as text and JSON, rights that are missing, and wrong options."""

import contextlib
import json
import os
import re
import signal
import socket
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Callable
from pathlib import Path

import pytest

from harness.lab.instances import Instance
from tests.commands import CommandResult, harness
from tests.monitors.conftest import send
from tests.processes import Child, free_port
from tests.unsafe import NAME, unsafe_in
from tests.waiting import wait_until

pytestmark = pytest.mark.process
PASSWORD = "xY1-for-who-may-little"


@pytest.fixture(scope="module")
def place(instance: Instance, database: str) -> str:
    """The server with two messages in a queue that nobody reads, and the login little, who may not look."""
    connection = instance.connect(database)
    for batch in (
        "CREATE QUEUE dbo.Orders; CREATE SERVICE [Orders] ON QUEUE dbo.Orders ([DEFAULT]);",
        send("Orders", 2),
        f"CREATE LOGIN little WITH PASSWORD = '{PASSWORD}'; CREATE USER little FOR LOGIN little;",
        "GRANT VIEW DEFINITION TO little;",
    ):
        connection.execute(batch)
    connection.close()
    return f"{instance.host},{instance.port}"


@pytest.fixture
def ask(instance: Instance, tmp_path: Path) -> Callable[..., CommandResult]:
    """Run the command as a login."""

    def run(*words: str, user: str = "sa", trust: bool = True) -> CommandResult:
        assert instance.login is not None
        password = PASSWORD if user == "little" else instance.login.password
        more = ("--user", user, "--watch", "100ms", *(["-C"] if trust and "--server" in words else []))
        return harness(tmp_path, "monitors", *words, *more, HARNESS_PASSWORD=password)

    return run


def test_one_state_as_text_and_as_json(ask: Callable[..., CommandResult], database: str, place: str) -> None:
    done = ask("--server", place, "--database", database)
    text = done.out
    assert (done.code, done.err) == (0, "")
    assert re.search(rf"{database}\.dbo\.Orders +2 +0 +0 +\d+ s +0 +0 +none", text), text
    assert f"{database}, [dbo].[Orders]: nothing reads it" in text and "remedy: ALTER QUEUE [dbo].[Orders]" in text
    [server] = json.loads(ask("--server", place, "--json").out)["servers"]
    [orders] = [one for one in server["databases"][0]["queues"] if one["name"] == "Orders"]
    assert (orders["rows"], orders["statuses"], orders["in_per_s"]) == (2, {"1": 2}, 0.0)
    assert server["explanations"][0]["what"] == "[dbo].[Orders]"
    each_its_own = ask("--server", place, "--database", database, "--server", place, "--database", "nix")
    assert each_its_own.code == 2 and "has no database 'nix' that the login sees" in each_its_own.err
    twice = json.loads(ask("--server", place, "--server", place, "--json").out)["servers"]
    assert [one["address"] for one in twice] == [place.replace(",", ":")] * 2


def test_each_right_that_is_missing_is_named_in_a_line_and_the_rest_is_shown(
    ask: Callable[..., CommandResult], database: str, place: str
) -> None:
    done = ask("--server", place, "--database", database, user="little")
    text = done.out
    assert (done.code, done.err) == (0, "")
    assert re.search(rf"{database}\.dbo\.Orders +2", text), text
    flat = " ".join(text.split())
    for what in ("states of queue monitors", "messages in and out", "messages by status", "conversations"):
        assert re.search(f"not shown: {what}[^;]*; remedy: ", flat), (what, text)
    assert "GRANT VIEW SERVER STATE TO the login" in flat
    assert re.search(r"readers: VIEW SERVER STATE permission was denied[^;]* \(error 300\); remedy", flat), text


def test_databases_that_the_login_may_not_use_are_named_in_one_line(
    ask: Callable[..., CommandResult], instance: Instance, place: str
) -> None:
    with instance.connect("master") as connection:
        connection.execute("CREATE DATABASE closed1; CREATE DATABASE closed2;")
        done = ask("--server", place, user="little")
        connection.execute("DROP DATABASE closed1; DROP DATABASE closed2;")
    assert re.search(
        r"not shown: [^;]*closed1, closed2[^;]*: the login may not use them; remedy: ", " ".join(done.out.split())
    )


def test_a_queue_named_with_escape_sequences_is_shown_without_them(
    ask: Callable[..., CommandResult], instance: Instance, place: str
) -> None:
    name = NAME.replace("\0", "")
    quoted = name.replace("]", "]]")
    with instance.connect("master") as connection:
        connection.execute(f"CREATE DATABASE [{quoted}]; USE [{quoted}]; CREATE QUEUE [{quoted}] WITH STATUS = OFF;")
    text = ask("--server", place, "--database", name).out
    assert unsafe_in(text, besides="\n") == [] and r"q\u001b]0;title" in text


def test_a_certificate_is_verified_unless_the_user_trusts_it(ask: Callable[..., CommandResult], place: str) -> None:
    done = ask("--server", place, trust=False)
    assert done.code == 3 and "certificate verify failed:self-signed certificate" in done.err
    assert done.err.endswith("--trust-server-certificate of harness monitors\n") and done.err.count("\n") == 1


def test_what_is_wrong_is_one_line_with_an_exit_code(ask: Callable[..., CommandResult], place: str) -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        nobody = f"127.0.0.1,{unused.getsockname()[1]}"
        for words, user, code, said in (
            (("--server", nobody), "sa", 3, "nothing listens there: start the server"),
            (("--server", place), "stranger", 3, "(error 18456): check the user's name and password"),
            (("--server", place, "--database", "nix"), "sa", 2, "has no database 'nix' that the login sees; "),
            (("--server", "sql1,x"), "sa", 2, "'sql1,x' is no address: write sql1.example,1433"),
            (("--server", r"sql1\INSTANCE"), "sa", 2, "a named instance is reached by its port"),
            (("--server", "sql1;UID=sa"), "sa", 2, "'sql1;UID=sa' is no address: write sql1.example,1433"),
            (("--server", "sql1:1433"), "sa", 2, "'sql1:1433' is no address: write sql1,1433"),
            ((), "sa", 2, "no server named: harness monitors --server HOST,PORT"),
            (("--lab-file", "lab.toml", "--server", place), "sa", 2, "leave out one of the two"),
            (("--server", place, "--once", "--metrics", "9464"), "sa", 2, "--metrics goes on: leave out --once"),
            (
                ("--server", place, *2 * ("--database", "x")),
                "sa",
                2,
                "--database: 2 for 1 server: give one, or one each",
            ),
            (("--sql", *2 * ("--database", "x")), "sa", 2, "--sql takes one --database"),
        ):
            done = ask(*words, user=user)
            assert (done.code, done.out) == (code, ""), (words, done)
            assert said in done.line, done


def test_prometheus_reads_what_a_look_has_shown_also_where_there_is_no_terminal(instance: Instance, place: str) -> None:
    assert instance.login is not None
    port = free_port()
    words = ["monitors", "--server", place, "--user", "sa", "-C", "--watch", "100ms", "--metrics", f"127.0.0.1:{port}"]
    environment = os.environ | {"HARNESS_PASSWORD": instance.login.password}
    with Child([sys.executable, "-m", "harness", *words], env=environment, stdout=subprocess.PIPE) as process:

        def shown() -> str:
            with contextlib.suppress(urllib.error.URLError):
                return str(urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics").read().decode())
            assert process.poll() is None
            return ""

        wait_until(lambda: "service_broker_explanations{" in shown())
        assert f'queue="[dbo].[Orders]",server="{place.replace(",", ":")}"' in shown()
        process.send_signal(signal.SIGINT)
        assert process.wait(timeout=60) == 130
