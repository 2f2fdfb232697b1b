"""Workload files: the package's, and the mistakes of a user's own."""

import re
from pathlib import Path

import pytest

from harness.failures import UsageFailure
from harness.files import workload_file
from harness.files.workload_file import PAPER, PRESETS

GOOD = """\
[client]
procedure = "dbo.Send"
parameters = ["handle", "body"]

[dialogs]
per_group = 2

[initiator]
scripts = ["send.sql"]

[target]
scripts = ["receive.sql"]
activation_procedure = "dbo.Receive"

[variables]
WorkMs = 5
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    folder = tmp_path / "orders"
    folder.mkdir()
    for name in ("send.sql", "receive.sql"):
        (folder / name).write_text("SELECT $(WorkMs);\n")
    (folder / "workload.toml").write_text(GOOD)
    return folder


@pytest.mark.parametrize("name", PRESETS)
def test_a_workload_of_the_package_names_what_it_is_for(name: str) -> None:
    found = workload_file.read(name)
    assert found.name == name
    assert found.about.endswith(".")
    assert not found.folder.is_absolute(), "a manifest is the same on every machine"


def test_the_papers_numbers_are_the_default() -> None:
    target = workload_file.read(PAPER).target
    assert (target.receive_top, target.receive_timeout_ms, target.max_queue_readers) == (10_000, 3000, 16)


def test_a_folder_and_its_file_are_the_same_workload(folder: Path) -> None:
    found = workload_file.read(str(folder))
    assert found == workload_file.read(str(folder / "workload.toml"))
    assert found.name == "orders"
    assert found.client.call == "{CALL dbo.Send (?, ?)}"
    assert found.initiator_scripts == [str(folder / "send.sql")]


def test_parameters_with_values_are_passed_in_their_place(folder: Path) -> None:
    file = folder / "workload.toml"
    values = 'values = {Region = "north", Urgent = true, Amount = 1.0}'
    file.write_text(GOOD.replace('"body"]', f'"Region", "Amount", "body", "Urgent"]\n{values}'))
    client = workload_file.read(str(folder)).client
    assert client.call == "{CALL dbo.Send (?, ?, ?, ?, ?)}"
    assert str(client) == "dbo.Send (handle, Region = 'north', Amount = 1.0, body, Urgent = True)"
    assert [type(client.values[name]) for name in ("Region", "Urgent", "Amount")] == [str, bool, float]


def test_a_changed_script_makes_another_workload(folder: Path) -> None:
    before = workload_file.read(str(folder))
    (folder / "receive.sql").write_text("SELECT 2;\n")
    assert workload_file.read(str(folder)) != before


def test_changed_samples_make_another_workload(folder: Path) -> None:
    with (folder / "workload.toml").open("a") as file:
        file.write('[body]\nsize = {samples = "sizes.csv"}\n')
    (folder / "sizes.csv").write_text("100\n")
    before = workload_file.read(str(folder))
    assert before.bodies is not None and before.bodies.mean_bytes == 100
    (folder / "sizes.csv").write_text("200\n")
    assert workload_file.read(str(folder)) != before


@pytest.mark.parametrize("key", ["scripts", "template", "samples"])
@pytest.mark.parametrize("named", ["/etc/passwd.json", "../other.json", "link.json", "a/link.json"])
def test_a_workload_names_files_of_its_folder_alone(folder: Path, key: str, named: str) -> None:
    (folder.parent / "other.json").write_text("[]")
    (folder / "link.json").symlink_to(folder.parent / "other.json")
    (folder / "a").symlink_to(folder)
    text = {
        "scripts": GOOD.replace("send.sql", named),
        "template": f'{GOOD}[body]\ntemplate = "{named}"\n',
        "samples": f'{GOOD}[body]\nsize = {{samples = "{named}"}}\n',
    }
    (folder / "workload.toml").write_text(text[key])
    with pytest.raises(
        UsageFailure, match=rf"^workload\.toml, line \d+: .*: {named} is outside of the workload's folder"
    ):
        workload_file.read(str(folder))


def test_messages_are_matched_by_their_header_unless_the_file_says_that_they_are_counted(folder: Path) -> None:
    assert not workload_file.read(str(folder)).is_counted
    (folder / "workload.toml").write_text(f'{GOOD}\n[accounting]\nby = "count"\n')
    assert workload_file.read(str(folder)).is_counted


def test_messages_of_text_must_be_counted(folder: Path) -> None:
    (folder / "order.json").write_text('["${filler}"]')
    file = folder / "workload.toml"
    file.write_text(f'{GOOD}[body]\ntemplate = "order.json"\n')
    with pytest.raises(UsageFailure, match=r'body.template: text has no header: write by = "count" in a table \[acc'):
        workload_file.read(str(folder))
    file.write_text(f'{file.read_text()}[accounting]\nby = "count"\n')
    found = workload_file.read(str(folder))
    assert found.types_of("body") == ("nvarchar", "xml")
    with pytest.raises(UsageFailure, match="a body of orders has at least 8 bytes: the payload of 6 is too small"):
        found.require_payload(6)


MISTAKES = [
    ("[variables]", '[accounting]\nby = "counts"\n[variables]', "accounting.by: 'counts' is not valid; nearest: count"),
    ('procedure = "dbo.Send"', 'procedur = "dbo.Send"', "line 2: client.procedur: unknown key; nearest: procedure"),
    ('procedure = "dbo.Send"', 'procedure = "Send"', "line 2: client.procedure: not a procedure with its schema"),
    ('["handle", "body"]', '["broker_instance", "body"]', "line 6: dialogs.per_group: .*begins its dialogs itself"),
    (
        "[target]",
        '[accounting]\nby = "count"\n[target]\ntables = "heap"',
        "target.tables: where messages are counted, the lab has no such tables: leave it out",
    ),
    (
        "[target]",
        '[queue]\nretention = true\n[accounting]\nby = "count"\n[target]',
        "line 12: queue.retention: .*by header",
    ),
    ("per_group = 2", "priority = 11", "line 6: dialogs.priority: 11: input should be less than or equal to 10"),
    ("[client]", "[client]\nmessages_per_transaction = 0", "line 2: client.messages_per_transaction: 0: input should"),
    ('["handle", "body"]', '["handle"]', "line 3: client.parameters: .*name body among the parameters"),
    ('["handle", "body"]', '["body"]', "line 3: client.parameters: .*name handle, or broker_instance"),
    ('["handle", "body"]', '["handle", "body", "body"]', "line 3: client.parameters: .*a parameter is named twice"),
    (
        '["handle", "body"]',
        '["handle", "body", "tread"]',
        "line 3: client.parameters-3: 'tread' is not valid; nearest: thread; any other parameter needs a value under "
        r"\[client.values\]",
    ),
    (
        "[dialogs]",
        "values = {Region = 1}\n[dialogs]",
        "line 5: client.values.Region: .*name it in client.parameters too",
    ),
    ("[dialogs]", "values = {body = 1}\n[dialogs]", "line 5: client.values.body: clients pass a body of their own"),
    (
        "[dialogs]",
        "values = {At = 2026-11-23}\n[dialogs]",
        'line 5: client.values.At: write it in quotes: "2026-11-23"',
    ),
    (
        "[dialogs]",
        "values = {Rate = inf}\n[dialogs]",
        "line 5: client.values.Rate: inf: not a number that SQL Server has",
    ),
    ("[dialogs]", "values = {All = [1]}\n[dialogs]", "line 5: client.values.All: a value is text, a number, true or"),
    (
        '"body"]',
        f'"body", "Note"]\nvalues = {{Note = "{"x" * 4001}"}}',
        "line 4: client.values.Note: longer than 4,000 characters",
    ),
    ('["send.sql"]', '["sent.sql"]', "line 9: initiator.scripts-1: sent.sql: No such file or directory"),
    ('activation_procedure = "dbo.Receive"', "", "target.activation_procedure: missing"),
    (
        "WorkMs = 5",
        "workms = 5\nWorkMsec = 6",
        r"line 17: variables.WorkMsec: no script uses \$\(WorkMsec\); nearest: ",
    ),
    ("WorkMs = 5", "ReceiveTop = 5", "line 15: variables: the variable ReceiveTop belongs to the lab"),
    ("WorkMs = 5", "Queue = 5", "line 15: variables: the variable Queue belongs to the lab"),
    (
        "[variables]",
        '[names]\ncontract = "it\'s"\n[variables]',
        "line 16: names.contract: .*neither an apostrophe nor a ]",
    ),
    ("[variables]", '[names]\nmessage_type = "a]b"\n[variables]', "line 16: names.message_type: .*nor a ] among"),
    ("[variables]", '[names]\ntarget_service = ""\n[variables]', "line 16: names.target_service: .*not a name"),
    (
        "[variables]",
        f'[names]\ncontract = "{"c" * 129}"\n[variables]',
        "line 16: names.contract: .*129 characters: at most 128",
    ),
    (
        "[variables]",
        '[names]\ntarget_queue = "Orders"\n[variables]',
        "line 16: names.target_queue: .*write dbo.OrderQueue",
    ),
    (
        "[variables]",
        '[names]\ninitiator_queue = "dbo.Order Queue"\n[variables]',
        "line 16: names.initiator_queue: .*not a queue",
    ),
    (
        "[variables]",
        f'[names]\ntarget_queue = "dbo.[{"q" * 129}]"\n[variables]',
        "line 16: names.target_queue: .*129 characters",
    ),
    ("[variables]", '[names]\nqueue = "dbo.Orders"\n[variables]', "line 16: names.queue: unknown key"),
    (
        "WorkMs = 5",
        'WorkMs = "5; DROP TABLE t"',
        r"line 16: variables.WorkMs: send\.sql, line 1: \$\(WorkMs\) is '5; DROP TABLE t': write a number or a name",
    ),
]


@pytest.mark.parametrize("old, new, words", MISTAKES)
def test_a_mistake_is_one_line_with_file_and_line(folder: Path, old: str, new: str, words: str) -> None:
    file = folder / "workload.toml"
    assert old in GOOD
    file.write_text(GOOD.replace(old, new))
    with pytest.raises(UsageFailure) as raised:
        workload_file.read(str(folder))
    assert re.search(f"^workload.toml, {words}" if words.startswith("line") else words, str(raised.value)), raised.value
    assert "\n" not in str(raised.value)


BODIES = [
    ("size = {uniform = [400]}", "body.size.uniform-2: missing"),
    ("size = {uniform = [20, 400]}", "body.size.uniform-1: 20: a body has 32 to 1,048,576 bytes"),
    ("size = {uniform = [400, 40]}", "body.size: uniform: write the smallest size first"),
    ("size = {lognormal = {median = 100, sigma = 9}}", "body.size.lognormal.sigma: "),
    ('size = {histogram = [[100, 1], ["3 GB", 1]]}', "body.size.histogram-2-1: invalid size '3 GB'"),
    (
        'size = {uniform = [100, 200], samples = "a.csv"}',
        "body.size: name one of uniform, lognormal, histogram, samples",
    ),
    ("size = {}", "body.size: name one of"),
    ("size = 800", "body.size: a constant size is the payload: leave size out and give --payloads"),
    ("size = {constant = 100}", "body.size.constant: unknown key"),
    ('size = {samples = "a.csv"}', "body.size.samples: a.csv: No such file or directory"),
    ('template = "a.txt"', "body.template: 'a.txt': name a .json or .xml file"),
    ('template = "a.json"', "body.template: a.json: No such file or directory"),
]


@pytest.mark.parametrize("line, words", BODIES)
def test_a_mistake_in_the_bodies_is_one_line_with_file_and_line(folder: Path, line: str, words: str) -> None:
    (folder / "workload.toml").write_text(f"{GOOD}[body]\n{line}\n")
    number = GOOD.count("\n") + 2
    with pytest.raises(UsageFailure, match=f"^workload.toml, line {number}: {re.escape(words)}") as raised:
        workload_file.read(str(folder))
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize(
    "name, words",
    [
        ("papr", "nearest: paper"),
        ("nowhere/at/all", "unknown workload"),
        ("mine.toml", "name the folder of a workload.toml"),
    ],
)
def test_an_unknown_name_names_the_nearest(name: str, words: str) -> None:
    with pytest.raises(UsageFailure, match=words):
        workload_file.read(name)


def test_a_folder_without_a_workload_says_so(tmp_path: Path) -> None:
    with pytest.raises(UsageFailure, match="there is no workload file"):
        workload_file.read(str(tmp_path))
