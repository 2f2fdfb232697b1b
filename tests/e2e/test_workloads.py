"""Workloads as a user runs them: the package's, and one of his own, right and wrong."""

import json
import re
import shutil
from pathlib import Path

import pytest

import harness as harness_package
from harness.files.records import State
from harness.files.workload_file import FOLDER, PAPER, PRESETS
from harness.lab.procedure_text import HIDES_ERRORS
from tests.commands import harness
from tests.thorough import one_of_each

pytestmark = [pytest.mark.process, pytest.mark.usefixtures("warm_clients", "warm_lab")]


NAMES = """
[names]
message_type = "//Shop/Order"
contract = "//Shop/Orders"
initiator_service = "//Shop"
target_service = "//Warehouse"
initiator_queue = "dbo.ShopQueue"
target_queue = "dbo.[//Warehouse/Queue]"
"""
TYPES = """\
USE [$(Database)];
GO

IF NOT EXISTS (SELECT 1 FROM sys.service_message_types WHERE name = N'//Shop/Urgent')
BEGIN
    CREATE MESSAGE TYPE [$(MessageType)] VALIDATION = NONE;
    CREATE MESSAGE TYPE [//Shop/Urgent] VALIDATION = NONE;
    CREATE CONTRACT [$(Contract)] ([$(MessageType)] SENT BY INITIATOR, [//Shop/Urgent] SENT BY INITIATOR);
END;
GO
"""


# The paper's workload with another option of the database or the connection each.
OPTIONS = {"paper-delayed-durability", "paper-full-recovery", "paper-row-versions"}


@pytest.mark.parametrize(
    "name", one_of_each(sorted({*PRESETS} - {PAPER}), lambda name: "options" if name in OPTIONS else name)
)
def test_a_workload_of_the_package_runs(name: str, tmp_path: Path) -> None:
    checked = harness(tmp_path, "workload", "check", name)
    assert (checked.code, checked.err) == (0, "")
    assert "messages sent, each processed once and in order" in checked.out
    assert checked.out.splitlines()[-1] == f"the workload runs. Next: harness run --workload {name}"


def test_a_workload_of_ones_own_begins_with_one_that_runs_also_with_names_and_types_of_its_own(tmp_path: Path) -> None:
    written = harness(tmp_path, "workload", "new", "orders")
    assert (written.code, written.err) == (0, "")
    assert "next: harness workload check orders" in written.out
    assert f"what its procedures must do, and every key: {FOLDER / 'README.md'}" in written.out
    assert sorted(path.name for path in (tmp_path / "orders").iterdir()) == [
        "handle_orders.sql",
        "submit_order.sql",
        "workload.toml",
    ]
    again = harness(tmp_path, "workload", "new", "orders")
    assert (again.code, again.err) == (2, "harness: orders exists: name another folder\n")

    file = tmp_path / "orders" / "workload.toml"
    options = "messages_per_transaction = 10\n\n[both]\nscripts = ['types.sql']\n\n[dialogs]\npriority = 8\nper_group = 2\n\n[queue]\nretention = true\n\n[initiator]"
    text = file.read_text().replace("[initiator]", options) + NAMES + "[body]\nsize = {uniform = [200, 1000]}\n"
    file.write_text(text)
    (tmp_path / "orders" / "types.sql").write_text(TYPES)
    for script, old, new in (
        ("submit_order.sql", "[$(MessageType)]", "[//Shop/Urgent]"),
        ("handle_orders.sql", "= N'$(MessageType)'", "LIKE N'//Shop/%'"),
    ):
        path = tmp_path / "orders" / script
        path.write_text(path.read_text().replace(old, new))
    cell = ("--threads", "2", "--lab", "embedded", "--workload", "orders")
    small = harness(tmp_path, "run", *cell, "--payload", "100")
    line = f"workload.toml, line {len(text.splitlines())}: the bodies of orders have sizes of their own"
    why = f"{line}: the payload of its cells is their mean, 600 bytes, not 100"
    assert (small.code, small.err) == (2, f"harness: {why}\n")
    ran = harness(tmp_path, "run", *cell, "--measure", "300ms", "--settle", "200ms")
    assert (ran.code, ran.err) == (0, "")
    [manifest] = tmp_path.glob("results/*/manifest.json")
    workload = json.loads(manifest.read_text())["settings"]["workload"]
    assert (workload["name"], workload["dialogs"]) == ("orders", {"priority": 8, "per_group": 2})
    assert workload["names"]["target_queue"] == "dbo.[//Warehouse/Queue]"
    assert workload["body"]["size"]["uniform"] == [200, 1000]
    assert (manifest.parent / "journal.jsonl").read_text().count("i1-t2-r150-p600") == 1
    assert set(workload["digests"]) == {"types.sql", "submit_order.sql", "handle_orders.sql"}


COUNTED = """\
[client]
procedure = "dbo.SubmitOrder"
parameters = ["handle", "body"]
think_time = "10ms"

[initiator]
scripts = ["submit_order.sql"]

[target]
scripts = ["take_order.sql"]
activation_procedure = "dbo.TakeOrder"
receive_timeout_ms = 500
max_queue_readers = 1

[accounting]
by = "count"
"""
# An application's own procedure, which stores nothing for the harness. The messages that warm dialogs up have 50 bytes.
TAKE_ORDER = """\
USE [$(Database)];
GO

CREATE OR ALTER PROCEDURE dbo.TakeOrder
AS
BEGIN
    DECLARE @body varbinary(max);
    WHILE 1 = 1
    BEGIN
        BEGIN TRANSACTION;
        WAITFOR (RECEIVE TOP (1) @body = message_body FROM $(Queue)), TIMEOUT $(ReceiveTimeoutMs);
        IF @@ROWCOUNT = 0
        BEGIN
            COMMIT TRANSACTION;
            BREAK;
        END;
        IF DATALENGTH(@body) > 50
            {work}
        IF @@TRANCOUNT > 0
            COMMIT TRANSACTION;
    END;
END;
GO
"""


def counted(folder: Path, work: str, think_time: str = "10ms") -> harness_package.Run:
    """A cell of such a workload, whose procedure does some work on each order."""
    workload = folder / "orders"
    workload.mkdir()
    (workload / "workload.toml").write_text(COUNTED.replace("10ms", think_time))
    (workload / "take_order.sql").write_text(TAKE_ORDER.format(work=work))
    shutil.copy(FOLDER / "fan-in" / "submit_order.sql", workload)
    return harness_package.run_cell(
        threads=2,
        dialog_ratio=1,
        lab="embedded",
        workload=str(workload),
        settle="300ms",
        measure="500ms",
        results=str(folder / "results"),
        reduce=False,
    )


def test_a_procedure_that_stores_nothing_is_measured_and_its_messages_are_counted(tmp_path: Path) -> None:
    run = counted(tmp_path, "SET @body = NULL;")
    assert run.outcome.measured, run.outcome.reason
    measured, [cell] = run.outcome.measured, run.table("raw/cells").to_dict("records")
    assert (
        measured.sent > 0 and measured.sent == cell["processed_messages"] == run.table("raw/processed").messages.sum()
    )
    # On a busy machine more messages are under way at one end of the window than at the other.
    assert measured.processed_per_s == pytest.approx(measured.sent_per_s, rel=0.5)
    assert run.table("raw/deliveries").empty and run.table("raw/receives").empty
    [accounting, *_] = run.summary().findings
    assert accounting.endswith("sent, none left in a queue (counted, not matched one by one)")


NUMBER = "${run}-${initiator}-${thread}-${sequence}"
# Each text with the type of the procedure's parameter, and how the application gets the text of a message.
TEXTS = {
    "order.json": (
        f'{{"order": "{NUMBER}", "remark": "${{filler}}"}}',
        "nvarchar(max)",
        "CAST(@body AS nvarchar(max))",
    ),
    "order.xml": (
        f"<?xml version='1.0'?>\n<o no = '{NUMBER}'>\n  <remark>${{filler}}</remark>\n</o>",
        "xml",
        "CAST(CAST(@body AS xml) AS nvarchar(max))",
    ),
}
# An application's procedure, which would fail at any message that is no such text, or has the number of another.
TAKE_TEXT = """\
            INSERT INTO dbo.orders (number)
            SELECT SUBSTRING({text}, CHARINDEX(N'"1', {text}), CHARINDEX(N'"', {text}, CHARINDEX(N'"1', {text}) + 1) - CHARINDEX(N'"1', {text}));"""


@pytest.mark.parametrize("template", one_of_each(TEXTS))
def test_messages_of_text_reach_an_application_that_reads_them(tmp_path: Path, template: str) -> None:
    written, type_, text = TEXTS[template]
    folder = tmp_path / "orders"
    folder.mkdir()
    (folder / template).write_text(written)
    body = f'[body]\ntemplate = "{template}"\nsize = {{uniform = [300, 2000]}}\n'
    (folder / "workload.toml").write_text(COUNTED + body)
    table = "IF OBJECT_ID(N'dbo.orders') IS NULL\n    CREATE TABLE dbo.orders (number nvarchar(60) NOT NULL PRIMARY KEY);\nGO\n\n"
    procedure = TAKE_ORDER.replace("IF DATALENGTH(@body) > 50", "").format(work=TAKE_TEXT.format(text=text))
    (folder / "take_order.sql").write_text(f"USE [$(Database)];\nGO\n\n{table}{procedure}")
    submit = (FOLDER / "fan-in" / "submit_order.sql").read_text()
    assert submit.count("@body varbinary(max)") == 1
    (folder / "submit_order.sql").write_text(submit.replace("@body varbinary(max)", f"@body {type_}"))
    checked = harness(tmp_path, "workload", "check", "orders")
    assert (checked.code, checked.err) == (0, "")
    assert f"bodies: {template}, uniform from 300 to 2,000 bytes, 1,150 on average" in checked.out
    assert "messages sent, none left in a queue" in checked.out


def test_a_target_that_is_slower_than_the_clients_falls_behind_though_messages_are_only_counted(tmp_path: Path) -> None:
    run = counted(tmp_path, "WAITFOR DELAY '00:00:00.250';", think_time="50ms")
    assert run.outcome.measured, run.outcome.reason
    measured = run.outcome.measured
    assert measured.processed_per_s < 0.8 * measured.sent_per_s
    assert measured.state is not State.VALID  # behind, unless other processes disturbed the cell
    assert run.table("raw/processed").messages.sum() == measured.sent


def test_messages_that_are_rolled_back_are_left_over(tmp_path: Path) -> None:
    fails = "BEGIN TRY DECLARE @zero int = 1 / 0; END TRY BEGIN CATCH ROLLBACK TRANSACTION; RETURN; END CATCH;"
    outcome = counted(tmp_path, fails).outcome
    assert outcome.measured is None
    found = re.fullmatch(
        r"not drained: (\d+) of (\d+) messages processed, (\d+) in the target's queue; (.*)", outcome.reason
    )
    assert found and int(found[1]) < int(found[2]) and int(found[3]) > 0, outcome.reason
    assert f"its queue is disabled, after five rollbacks in a row; {HIDES_ERRORS}" in found[4], outcome.reason


MISTAKES = [
    (
        "submit_order.sql",
        "@body varbinary(max)",
        "@body varbinary(max), @amount int",
        "workload.toml, line 5: dbo.SubmitOrder also takes @amount int, which has no default: name it under",
        2,
    ),
    (
        "workload.toml",
        'parameters = ["handle", "body"]',
        'parameters = ["handle", "body", "Amount"]\nvalues = {Amount = 5}',
        "workload.toml, line 6: dbo.SubmitOrder has no parameter @Amount; valid: @handle, @body",
        2,
    ),
    (
        "workload.toml",
        '"dbo.SubmitOrder"',
        '"dbo.SendOrder"',
        "workload.toml, line 4: no script of the initiator creates dbo.SendOrder",
        2,
    ),
    ("handle_orders.sql", "SET @messages = @@ROWCOUNT;", "SET @message = @@ROWCOUNT;", "handle_orders.sql, line ", 2),
    (
        "submit_order.sql",
        "    SEND ON",
        "    DECLARE @price int = 1 / 0;\n    SEND ON",
        "gave up after 10 failed calls in a row: Divide by zero error encountered.",
        1,
    ),
    (
        "handle_orders.sql",
        "INSERT INTO dbo.messageDrop",
        "INSERT INTO dbo.orders",
        "Invalid object name 'dbo.orders'",
        2,
    ),
]


@pytest.mark.parametrize("file, old, new, words, code", one_of_each(MISTAKES, lambda case: case[-1]))
def test_a_mistake_is_one_line(tmp_path: Path, file: str, old: str, new: str, words: str, code: int) -> None:  # noqa: PLR0917
    assert harness(tmp_path, "workload", "new", "orders").code == 0
    path = tmp_path / "orders" / file
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new, 1))
    checked = harness(tmp_path, "workload", "check", "orders")
    [line] = checked.err.splitlines()
    assert words in line, line
    assert checked.code == code
    assert "tried again" not in checked.out


# Of the paper's procedure that begins a dialog for each message: what it lacks, and what is said of the conversations.
LEAKS = [("    END CONVERSATION @handle;\n", "CONVERSING: nobody ends them: END CONVERSATION belongs to both sides")]


@pytest.mark.parametrize(("missing", "words"), LEAKS)
def test_conversations_that_nobody_ends_are_a_finding_of_a_cell_and_a_workload_with_them_fails(
    missing: str, words: str, tmp_path: Path
) -> None:
    leaking = tmp_path / "leaking"
    shutil.copytree(FOLDER / PAPER, leaking)
    send = leaking / "send_message_on_new_dialog.sql"
    assert missing in send.read_text()
    send.write_text(send.read_text().replace(missing, ""))
    (leaking / "workload.toml").write_text(
        'about = "A dialog a message."\n[client]\nprocedure = "dbo.SendMessageOnNewDialog"\n'
        'parameters = ["broker_instance", "body"]\n[initiator]\nscripts = ["send_message_on_new_dialog.sql"]\n'
        '[target]\nscripts = ["receive_procedure.sql"]\nactivation_procedure = "dbo.SRPerf_Queue_LabTest"\n'
        "receive_top = 10_000\nreceive_timeout_ms = 3_000\nmax_queue_readers = 16\n"
    )
    checked = harness(tmp_path, "workload", "check", "leaking")
    assert checked.code == 1 and checked.line.startswith("the workload leaks: ") and words in checked.line
    assert "each processed once and in order; but " in checked.out
    send.write_text((FOLDER / PAPER / send.name).read_text())
    assert harness(tmp_path, "workload", "check", "leaking").code == 0
