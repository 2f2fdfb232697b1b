"""lab.toml: what it may say, and where a mistake in it is."""

from pathlib import Path

import pytest

from harness.definitions.lab_kinds import SERVERS
from harness.files import lab_file
from harness.files.toml_file import TomlError, TomlFile
from harness.lab.opening import Topology

GOOD = """\
# two servers
version = "2022"

[target]
host = "sql1.example"
user = "harness"

[[initiator]]
host = "sql2.example"
user = "harness"
port = 14330
broker_host = "10.0.0.2"

[[initiator]]
host = "sql3.example"
authentication = "integrated"
database = "ssbh_Third"
"""


def parse(text: str) -> lab_file.LabFile:
    return lab_file.check(TomlFile(text, Path("folder/lab.toml")))


def test_missing_keys_have_defaults():
    lab = parse(GOOD)
    assert (lab.version, lab.prefix) == ("2022", "ssbh_")
    target, first, second = lab.servers
    assert (target.role, first.role, second.role) == ("target", "initiator-1", "initiator-2")
    assert (target.port, target.broker_port, target.broker_host) == (1433, 4022, "sql1.example")
    assert (first.port, first.broker_host, first.database) == (14330, "10.0.0.2", "ssbh_SSBInitiator1")
    assert (second.user, second.database) == (None, "ssbh_Third")
    assert (target.encrypt, target.trust_server_certificate, target.admin_port) == ("mandatory", False, None)


def test_the_example_of_the_readme_reads_the_pages_of_dialogs_on_each_side() -> None:
    text = (Path(__file__).parents[1] / "sql" / "server" / "README.md").read_text(encoding="utf-8")
    example = next(part for part in text.split("```") if part.startswith("toml\nversion"))
    assert [server.admin_port for server in parse(example.removeprefix("toml\n")).servers] == [1434] * 3


def test_names_of_databases_follow_the_prefix():
    lab = parse('prefix = "mine_"\n' + GOOD.replace("ssbh_Third", "mine_Third"))
    assert [server.database for server in lab.servers] == ["mine_SSBTarget", "mine_SSBInitiator1", "mine_Third"]


def test_an_existing_database_is_used_in_place_of_the_harnesss_and_needs_no_prefix():
    lab = parse(GOOD.replace('database = "ssbh_Third"', 'existing_database = "Shop"'))
    assert [server.database for server in lab.servers] == ["ssbh_SSBTarget", "ssbh_SSBInitiator1", "Shop"]
    with pytest.raises(TomlError, match=r"line 17: initiator-2\.database: the side has an existing_database"):
        parse(GOOD + 'existing_database = "Shop"\n')


def test_a_key_has_its_line_after_reading():
    lab = parse(GOOD)
    assert lab.where("version") == "lab.toml, line 2"
    assert lab.where_of(lab.initiators[0], "port") == "lab.toml, line 11"
    assert lab.where_of(lab.initiators[1], "port") == "lab.toml, line 14"


MISTAKES = [
    ('"2022"', '"2023"', "line 2: version: '2023' is not valid; nearest: 2025, 2022, 2019"),
    ("version =", "versoin =", "line 2: versoin: unknown key; nearest: version"),
    ("port = 14330", "prot = 1", "line 11: initiator-1.prot: unknown key; nearest: port, host"),
    ("port = 14330", 'port = "1"', "line 11: initiator-1.port: '1': input should be a valid integer"),
    ("port = 14330", "broker_port = 80", "line 11: initiator-1.broker_port: 80: input should be greater"),
    ("[target]", "[tarket]", "line 4: tarket: unknown key; nearest: target"),
    ('[target]\nhost = "sql1.example"', "[target]", "line 4: target.host: missing"),
    ('host = "sql1.example"\nuser', 'host = "sql1.example"\n#', "line 4: target.user: missing: the SQL login"),
    ('"integrated"', '"integrated"\nuser = "x"', "line 17: initiator-2.user: integrated authentication signs in as"),
    (
        '"integrated"',
        '"windows"',
        "line 16: initiator-2.authentication: 'windows' is not valid; valid: sql, integrated",
    ),
    ("port = 14330", 'password = "geheim"', "line 11: initiator-1.password: passwords do not belong here: set one of"),
    ("port = 14330", 'PWD = "geheim"', "line 11: initiator-1.PWD: passwords do not belong here: set one of"),
    (
        "sql2.example",
        "sql2\\\\INSTANCE",
        r"line 9: initiator-1.host: 'sql2\\INSTANCE': a named instance is reached by its port",
    ),
    (
        "10.0.0.2",
        "h'; CREATE LOGIN evil --",
        r"""line 12: initiator-1.broker_host: "h'; CREATE LOGIN evil --": neither a""",
    ),
    (
        'user = "harness"\nport',
        'user = "h\\nx"\nport',
        r"line 10: initiator-1.user: 'h\nx': a line break or another char",
    ),
    ('version = "2022"', 'version = "2022"\nhours_max = 0', "line 3: hours_max"),
    ('version = "2022"', 'version = "2022"\nprocessor_percent_max = 101', "line 3: processor_percent_max"),
    ("10.0.0.2", "localhost", "line 12: initiator-1.broker_host: the other instances cannot reach localhost"),
    (
        "10.0.0.2",
        "sql1.example",
        "line 8: initiator-1.broker_port: sql1.example port 4022 is already the endpoint of target",
    ),
    ("ssbh_Third", "Third", "line 17: initiator-2.database: 'Third' does not begin with the prefix 'ssbh_'"),
    ("ssbh_Third", "ssbh_x]; DROP", "line 17: initiator-2.database: 'ssbh_x]; DROP' is not a plain identifier"),
    ('version = "2022"', 'version = "2022"\nprefix = "9"', "line 3: prefix: '9' is not a plain identifier"),
    ('version = "2022"', 'version = "2022"\nprefix = ""', "line 3: prefix: '' is not a plain identifier"),
    ('user = "harness"\nport', 'user = "harness\nport', "line 10: not valid TOML: illegal character"),
]


@pytest.mark.parametrize(("old", "new", "expected"), MISTAKES)
def test_a_mistake_is_one_line_with_file_line_and_key(old: str, new: str, expected: str):
    assert GOOD.count(old) == 1 or old.startswith("[")
    with pytest.raises(TomlError) as caught:
        parse(GOOD.replace(old, new))
    message = str(caught.value)
    assert message.startswith(f"lab.toml, {expected}"), message
    assert "\n" not in message
    assert "geheim" not in message


def test_two_sides_on_one_server_are_refused():
    text = GOOD.replace("sql2.example", "SQL1.example").replace("14330", "1433")
    with pytest.raises(
        TomlError, match=r"line 9: initiator-1.host: SQL1.example port 1433 is already the server of target"
    ):
        parse(text)
    assert parse(GOOD.replace("sql2.example", "sql1.example")).initiators[0].port == 14330


def test_one_to_sixteen_initiators():
    without = GOOD[: GOOD.index("[[initiator]]")]
    with pytest.raises(TomlError, match=r"line 1: initiator: missing: a table \[\[initiator\]\] names"):
        parse(without)
    with pytest.raises(TomlError, match=r"line 8: initiator: has 17 entries; at most 16"):
        parse(GOOD + '[[initiator]]\nhost = "x"\n' * (17 - GOOD.count("[[initiator]]")))
    with pytest.raises(TomlError, match=r"line 8: initiator: must be an array of tables: write \[\[initiator\]\]"):
        parse(without + '[initiator]\nhost = "x"\n')


def test_instances_of_one_machine_may_use_the_loopback_address():
    text = GOOD.replace("sql1.example", "127.0.0.1").replace("sql2.example", "127.0.0.1")
    text = text.replace("10.0.0.2", "127.0.0.1").replace("sql3.example", "localhost")
    text = text.replace("port = 14330", "port = 14330\nbroker_port = 4023")
    assert all(server.is_local for server in parse(text).servers)


def test_a_missing_file_names_a_file_that_could_be_meant(tmp_path: Path):
    (tmp_path / "pyproject.toml").touch()
    with pytest.raises(TomlError, match=r"there is no lab file .*/lab.toml$"):
        lab_file.read(tmp_path / "lab.toml")
    (tmp_path / "lab.toml").write_text(GOOD)
    with pytest.raises(TomlError, match=r"there is no lab file .*/lap.toml; nearest: lab.toml"):
        lab_file.read(tmp_path / "lap.toml")
    assert lab_file.read(tmp_path / "lab.toml").path.name == "lab.toml"
    (tmp_path / "lab.toml").write_bytes(b"version = '\xe4'")
    with pytest.raises(TomlError, match="not UTF-8"):
        lab_file.read(tmp_path / "lab.toml")


def test_a_byte_order_mark_and_windows_line_ends_are_fine():
    assert parse("\ufeff" + GOOD.replace("\n", "\r\n")).where("target", "user") == "lab.toml, line 6"


def test_a_lab_of_five_initiators_runs_cells_of_five():
    more = "".join(f'[[initiator]]\nhost = "sql{number}.example"\nuser = "u"\n' for number in range(11, 15))
    lab = parse(GOOD + more)
    assert [server.role for server in lab.initiators][-1] == f"initiator-{len(lab.initiators)}"
    assert Topology(SERVERS, lab).initiators_max == len(lab.initiators) >= 5
