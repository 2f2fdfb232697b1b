"""The file of an activator: what it may say, and where a mistake in it is."""

import pytest

from harness.activator import config
from harness.activator.config import WatchedQueue
from harness.lab.drivers import Driver
from tests.commands import harness

GOOD = """\
[server]
host = "sql1.example"
user = "reader"
database = "Orders"
notification_queue = "dbo.Activation"

[[queue]]
name = "dbo.Incoming"
command = ["true"]

[[queue]]
name = "dbo.Outgoing"
database = "Others"
command = ["true", "--top", "5"]
min = 1
max = 4
"""


def test_missing_keys_have_defaults_and_programs_find_their_queue_in_the_environment(tmp_path, monkeypatch):
    monkeypatch.setenv("HARNESS_PASSWORD", "secret-9")
    file = tmp_path / "a.toml"
    file.write_text(GOOD)
    read = config.read(file)
    assert read.queues == (
        WatchedQueue("Orders", "dbo.Incoming", ("true",), 0, 1),
        WatchedQueue("Others", "dbo.Outgoing", ("true", "--top", "5"), 1, 4),
    )
    assert read.logs == tmp_path / "logs"
    assert "secret-9" not in repr(read)
    assert "UID=reader;PWD=secret-9;DATABASE=Orders" in read.connection_string(Driver("microsoft", "d", "file"))
    assert read.environment(read.queues[1], "freetds") == {
        "HARNESS_PASSWORD": "secret-9",
        "HARNESS_READER_DATABASE": "Others",
        "HARNESS_READER_DRIVER": "freetds",
        "HARNESS_READER_ENCRYPT": "mandatory",
        "HARNESS_READER_ENTRA": "False",
        "HARNESS_READER_HOST": "sql1.example",
        "HARNESS_READER_PORT": "1433",
        "HARNESS_READER_QUEUE": "dbo.Outgoing",
        "HARNESS_READER_TRUST_SERVER_CERTIFICATE": "False",
        "HARNESS_READER_USER": "reader",
    }


@pytest.mark.parametrize(
    ("was", "now", "line"),
    [
        ("[server]", "[servr]", "a.toml, line 1: servr: unknown key; nearest: server"),
        ('user = "reader"\n', "", 'a.toml, line 1: server.user: missing: the SQL login (or authentication = "integrated")'),
        ('user = "reader"', 'password = "x"', "a.toml, line 3: server.password: passwords do not belong here: set HARNESS_PASSWORD in the environment"),
        ('"dbo.Activation"', '"Activation"', "a.toml, line 5: server.notification_queue: 'Activation' is no queue with its schema: write dbo.Incoming, in letters, digits and _"),
        ('"dbo.Incoming"', '"dbo.In]; DROP"', "a.toml, line 8: queue-1.name: 'dbo.In]; DROP' is no queue with its schema: write dbo.Incoming, in letters, digits and _"),
        ('command = ["true"]', "", "a.toml, line 7: queue-1.command: missing: the program and its arguments: ['python3', ...]"),
        ('["true"]', '["no-such-program"]', "a.toml, line 9: queue-1.command: there is no program 'no-such-program' in the PATH: install it, or write its whole path"),
        ('["true"]', '"true --x"', "a.toml, line 9: queue-1.command: must be an array: write command = ['true --x']"),
        ('["true"]', '["./a.toml"]', "a.toml, line 9: queue-1.command: there is no program './a.toml' in the PATH: install it, or write its whole path"),
        ("max = 4", "max = 0", "a.toml, line 16: queue-2.max: 0: input should be greater than or equal to 1"),
        ("min = 1", "min = 5", "a.toml, line 15: queue-2.min: 5 is more than max, 4: lower it"),
        ('"dbo.Outgoing"\ndatabase = "Others"', '"dbo.incoming"', "a.toml, line 12: queue-2.name: Orders.dbo.incoming has a [[queue]] already: remove one"),
        ("[[queue]]", "[queue", "a.toml, line 7: not valid TOML: expected ']' at the end of a table declaration"),
    ],
)  # fmt: skip
def test_a_mistake_is_one_line_with_its_place_and_remedy(tmp_path, was, now, line):
    (tmp_path / "a.toml").write_text(GOOD.replace(was, now, 1))
    result = harness(tmp_path, "activator", "a.toml", HARNESS_PASSWORD="x")
    assert (result.code, result.line) == (2, line)


def test_a_missing_file_and_a_missing_password_are_one_line_each(tmp_path, monkeypatch):
    monkeypatch.delenv("HARNESS_PASSWORD", raising=False)
    (tmp_path / "a.toml").write_text(GOOD)
    assert harness(tmp_path, "activator", "b.toml").line == "there is no file of an activator b.toml"
    no_password = harness(tmp_path, "activator", "a.toml")
    assert no_password.line == "there is no password for reader: set HARNESS_PASSWORD in the environment"
    assert no_password.code == 2
