"""The command line as a user meets it: help, and one line with a code for everything that can be wrong."""

import errno
import io
import json
import os
import re
import shutil
import socket
import subprocess
import sys
import webbrowser
from pathlib import Path
from types import SimpleNamespace

import pytest

from harness import api, cli
from harness.cli import conventions, first_run, results
from harness.cli.outcomes import Failure, one_line_errors
from harness.failures import Declined
from harness.files import workload_file
from harness.lab import user_servers
from harness.output.reporting import SafeConsole
from tests.results_fixture import write_manifest

COMMANDS = """
    matrix run ui plan simulate calibrate techniques rates aa soak workload lab doctor monitors serve worker
    activator reduce figures report queue-course claims compare support-bundle
    """.split()  # noqa: SIM905
LAB_COMMANDS = ["open", "up", "down", "status", "clean"]


def harness(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "harness", *arguments],
        capture_output=True,
        text=True,
        check=False,
        timeout=500,
        env=os.environ | environment,
    )


def failure(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> tuple[int, str]:
    """Run in this process, for speed; the exit code and what was printed to standard error."""
    return _ended(arguments), capsys.readouterr().err


def printed(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> tuple[int, str]:
    """As `failure`, and what was printed to standard output."""
    return _ended(arguments), capsys.readouterr().out


def _ended(arguments: list[str]) -> int:
    with pytest.raises(SystemExit) as end:
        cli.main(arguments)
    assert isinstance(end.value.code, int)
    return end.value.code


@pytest.fixture(autouse=True)
def _in_an_empty_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HARNESS_LAB", "embedded")  # whether or not a Docker engine answers here


BAD_INPUT = [
    (["matrx"], 2, "unknown command 'matrx'; nearest: matrix"),
    (["matrix", "--mesure", "1s"], 2, "--mesure"),
    (["matrix", "--measure", "soon"], 2, "--measure: invalid duration 'soon': write 500ms, 30s, 2m or 1h"),
    (["matrix", "--measure", "0s"], 2, "--measure"),
    (["matrix", "--cells", "i9-*"], 2, "no cell matches 'i9-*'"),
    (["matrix", "--cells", "i1-t6"], 2, "no cell matches 'i1-t6'; nearest: i1-t"),
    (["matrix", "--lab", "embeded"], 2, "--lab: unknown lab 'embeded'; nearest: embedded"),
    (["matrix", "--lab-file", "lab.toml"], 2, "leave out one of the two"),
    (["matrix", "--lab", "sqlserver", "--lab-file", "lab.toml"], 2, "lab.toml"),
    (["matrix", "--server-versions", "2021"], 2, "the embedded lab has no server version '2021'; nearest: 20"),
    (["matrix", "--seed", "x"], 2, "--seed"),
    (["matrix", "--settings", "no.toml"], 2, "there is no settings file no.toml"),
    (["matrix", "--resume", "nowhere"], 2, "nowhere is not a result folder"),
    (["matrix", "--driver", "odbc"], 2, "--driver: 'odbc' is not valid"),
    (["run", "i1-t5-r150-p100"], 2, "matches 9 cells"),
    (["matrix", "--quick"], 2, "--quick is now --matrix quick"),
    (["matrix", "--matrix", "trik"], 2, "unknown matrix 'trik'; nearest: trick; or name a TOML file"),
    (["matrix", "--matrix", "mine.toml"], 2, "there is no matrix file mine.toml"),
    (["plan", "--threads", "0"], 2, "--threads: '0': input should be greater than or equal to 1"),
    (["simulate", "--payloads", "8"], 2, "--payloads: '8' is less than the 32 bytes of a message's header"),
    (
        ["run", "--lab", "embedded", "--events"],
        2,
        "--events: True: the embedded server has no Extended Events: leave it out",
    ),
    (
        ["run", "--results", "s3://bucket/runs"],
        2,
        "a run is written to a folder: name one, and copy the run to its store",
    ),
    (["run", "--results", "S3A:bucket"], 2, "a run is written to a folder: name one, and copy the run to its store"),
    (["simulate", "--results", "file:///tmp/runs"], 2, "a run is written to a folder: name it by its path"),
    (["run", "--threads", "0"], 2, "threads '0' is not valid: 1 to 1,000"),
    (["run", "--payload", "big"], 2, "payload bytes 'big' is not valid: 32 to 1,048,576"),
    (["run", "i1-t2000-r1-p100-v2008"], 2, "i1-t2000-r1-p100-v2008: threads: 1 to 1,000 are valid"),
    (["run", "--server-version", "2021"], 2, "the embedded lab has no server version '2021'; nearest: 2025, 2022"),
    (["run", "i1-t5-r1-p100-v2008", "--threads", "5"], 2, "give a cell id or axes, not both"),
    (["lab", "open", "--initiators", "17"], 2, "initiators '17' is not valid: 1 to 16"),
    (["support-bundle", "nowhere"], 2, "nowhere is not a result folder: it does not exist"),
    (["reduce", "nowhere"], 2, "nowhere is not a result folder: it does not exist"),
    (
        ["figures", "s3a://runs/x"],
        2,
        "s3a://runs/x is no folder: copy the run here, or mount its folder; `harness reduce` alone reads stores",
    ),
    (["reduce", "ftp://runs/x"], 2, "ftp://runs/x is no folder: copy the run here"),
    (["reduce", "file:///nowhere/a%20b"], 2, "/nowhere/a b is not a result folder: it does not exist"),
    (["figures", "."], 2, "is not a result folder: it has no manifest.json"),
    (["report", "nowhere"], 2, "nowhere is not a result folder: it does not exist"),
    (["queue-course", "."], 2, "missing argument 'CELL'"),
    (["queue-course", "nowhere", "i1"], 2, "nowhere is not a result folder: it does not exist"),
    (["claims", "."], 2, "is not a result folder: it has no manifest.json"),
    (["claims", "nowhere"], 2, "nowhere is not a result folder: it does not exist"),
    (["compare", "a"], 2, "missing argument 'B'"),
    (["compare", "a", "b"], 2, "a is not a result folder"),
    (["plan", "--cells", "x"], 2, "no cell matches 'x'"),
    (["simulate", "--hardware", "papper"], 2, "unknown hardware 'papper'; nearest: paper"),
    (["calibrate", "--like", "nowhere"], 2, "nowhere does not exist: name the folder of a run"),
    (["simulate", "--hardware", "mine.toml"], 2, "there is no hardware file mine.toml"),
    (["simulate", "--seed", "x"], 2, "--seed: 'x': input should be a valid integer"),
    (["simulate", "--cells", "i9-*"], 2, "no cell matches 'i9-*'"),
    (["simulate", "--cells", "*-v2022"], 2, "no cell matches '*-v2022'"),
    (["simulate", "--measure", "1ms"], 2, "--measure: '1ms': input should be greater than or equal to 0.1"),
    (["simulate", "--settle", "-1s"], 2, "--settle: invalid duration '-1s'"),
    (["simulate", "--master", "lokal"], 2, "--master: invalid Spark master 'lokal'"),
    (
        ["simulate", "--master", "spark://127.0.0.1:1"],
        3,
        "no Spark master answers at spark://127.0.0.1:1 (Connection refused): start it, or correct --master",
    ),
    (["simulate", "--master", "spark://here"], 3, "spark://here (here is not HOST:PORT)"),
    (["simulate", "--resume", "nowhere"], 2, "nowhere is not a result folder"),
    (["run", "--master-bind-host", "127.0.0.2"], 2, "HARNESS_TOKEN is not set: export HARNESS_TOKEN="),
    (["worker", "10.0.0.5"], 2, "HARNESS_TOKEN is not set: export HARNESS_TOKEN="),
    (
        ["matrix", "--workers-per-initiator", "0"],
        2,
        "--workers-per-initiator: '0': input should be greater than or equal",
    ),
    (
        ["rates", "i1-t1-r1-p100-v2008", "--lab", "simulated", "--workers-per-initiator", "2"],
        2,
        "--workers-per-initiator does not go with the simulated lab: leave it out",
    ),
    (["ui", "--port", "99999"], 2, "invalid --port 99999"),
    (["lab", "opne"], 2, "no such command 'opne'"),
    (["lab", "clean"], 2, "no servers named: harness lab clean --lab-file lab.toml"),
    (
        ["doctor", "--lab", "embedded", "--script", "x"],
        2,
        "--script is for your own servers: name them with --lab-file",
    ),
]


def test_lab_clean_removes_only_what_somebody_agreed_to(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    agreed = []
    monkeypatch.setattr(user_servers, "clean", lambda *_, confirm, **__: agreed.append(confirm("Remove this?")))
    monkeypatch.delenv("HARNESS_LAB")
    servers = '[target]\nhost = "a"\nuser = "u"\n[[initiator]]\nhost = "b"\nuser = "u"\n'
    Path("lab.toml").write_text(f'version = "2022"\n{servers}')
    command = ["lab", "clean", "--lab-file", "lab.toml"]
    told = "harness: standard input is no terminal, so nobody can be asked: add --yes to remove\n"
    for stdin in (io.StringIO("y\n"), None):
        monkeypatch.setattr("sys.stdin", stdin)
        assert failure(command, capsys) == (2, told)
    assert agreed == []
    assert failure([*command, "--yes"], capsys) == (0, "")
    assert agreed == [True]


def test_serve_names_the_package_with_which_no_statement_runs(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    installed = tmp_path / "sqlglotc-30.30.0.dist-info"
    installed.mkdir()
    (installed / "METADATA").write_text("Metadata-Version: 2.1\nName: sqlglotc\nVersion: 30.30.0\n")
    monkeypatch.syspath_prepend(tmp_path)
    code, message = failure(["serve", "--port", "0"], capsys)
    assert code == 3 and message.count("\n") == 1
    assert "pip uninstall sqlglotc, then pip install --force-reinstall sqlglot==" in message


@pytest.mark.process
def test_a_command_names_the_extra_whose_package_is_missing() -> None:
    without = "import sys; sys.modules['pandas'] = None; from harness.cli import main; main(['claims', '.'])"
    done = subprocess.run([sys.executable, "-c", without], capture_output=True, text=True, check=False)
    needed = "harness: this needs the package pandas: pip install 'service-broker-harness[load]'\n"
    assert (done.returncode, done.stderr) == (3, needed)


@pytest.mark.parametrize(
    "arguments, code, text", BAD_INPUT, ids=lambda value: " ".join(value) if isinstance(value, list) else ""
)
def test_bad_input_is_one_line_and_a_code_and_starts_nothing(
    arguments: list[str], code: int, text: str, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    actual, message = failure(arguments, capsys)
    assert text in message
    assert message.startswith("harness: ") and message.count("\n") == 1
    assert actual == code
    assert list(tmp_path.iterdir()) == []


def test_an_unknown_setting_in_the_environment_is_one_line(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HARNESS_MESURE", "1s")
    assert failure(["matrix"], capsys) == (2, "harness: unknown setting HARNESS_MESURE; nearest: HARNESS_MEASURE\n")


def test_a_port_in_use_is_one_line_with_the_remedy(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(conventions, "FREED_WITHIN_S", 0.2)
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        code, message = failure(["ui", "--port", str(port)], capsys)
    assert code == 3
    assert re.fullmatch(
        rf"harness: port {port} on 127.0.0.1 cannot be used \(.*\): choose another with --port\n", message
    )


def test_no_driver_is_one_line_with_the_remedy(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("harness.lab.drivers.find", list)
    code, message = failure(["run"], capsys)
    assert code == 3
    assert message.startswith("harness: no ODBC driver for SQL Server found: pip install")


def test_missing_java_is_reported_before_the_sweep(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("JAVA_HOME", "/nowhere")
    code, message = failure(["matrix"], capsys)
    assert (code, list(tmp_path.iterdir())) == (3, [])
    assert message.startswith("harness: no Java")


def test_a_results_folder_that_cannot_be_written_is_one_line(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    (tmp_path / "file").touch()
    code, message = failure(["run", "--results", "file/results"], capsys)
    assert code == 3
    assert "the results folder file/results cannot be written (Not a directory): choose another" in message


def test_a_folder_where_a_file_should_be_and_a_name_too_long_are_one_line(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    code, message = failure(["claims", "x" * 300], capsys)
    if sys.version_info >= (3, 14):  # where there is no file with such a name
        assert code == 2 and message.endswith(" is not a result folder: it does not exist\n")
    else:
        assert code == 3 and message.endswith("/manifest.json: the name is too long: choose a shorter one\n")
    with pytest.raises(Failure, match="it is a folder: name a file"), one_line_errors():
        tmp_path.write_text("")


def test_the_systems_own_reason_is_one_line_where_no_remedy_is_known() -> None:
    with pytest.raises(Failure) as reason, one_line_errors():
        raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), "a/b")
    assert (reason.value.message, reason.value.exit_code) == ("a/b: Too many levels of symbolic links", 3)


@pytest.mark.parametrize("command", ["rates", "soak", "techniques"])
def test_a_question_answered_with_no_ends_any_command_with_a_line(
    command: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def decline(*arguments: object, **options: object) -> None:
        raise Declined("nothing was created on the servers")

    monkeypatch.setattr(api, f"run_{command}", decline)
    cell = [] if command == "techniques" else ["i1-t5-r1-p100-v2022"]
    code, out = printed([command, *cell, "--lab", "embedded"], capsys)
    assert (code, out.splitlines()[-1]) == (0, "nothing was created on the servers")


def test_output_that_nobody_reads_any_more_is_not_a_failure() -> None:
    with pytest.raises(BrokenPipeError), one_line_errors():
        raise BrokenPipeError(errno.EPIPE, os.strerror(errno.EPIPE))


@pytest.mark.parametrize("arguments", [["reduce", "steps"], ["claims", "steps"], ["compare", "steps", "steps"]])
def test_a_run_of_techniques_is_refused_with_the_remedy(
    arguments: list[str], capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    write_manifest(tmp_path / "steps", scenario={})
    code, message = failure(arguments, capsys)
    assert code == 2
    assert message == (
        "harness: steps is a run of techniques, without cells: draw it with harness figures, or add its table to a run "
        "of cells with harness techniques --add-to\n"
    )


@pytest.mark.parametrize(
    "arguments",
    [
        ["reduce", "run"],
        ["figures", "run"],
        ["report", "run"],
        ["claims", "run"],
        ["compare", "run", "run"],
        ["queue-course", "run", "i1"],
        ["support-bundle", "run"],
        ["plan", "--lab", "embedded", "--noise-from", "run"],
        ["matrix", "--resume", "run"],
        ["simulate", "--resume", "run"],
        ["calibrate", "--like", "run"],
        ["techniques", "--lab", "embedded", "--add-to", "run"],
    ],
)
def test_a_manifest_that_somebody_edited_is_named_with_the_line(
    arguments: list[str], capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    write_manifest(tmp_path / "run", cells="many")
    code, message = failure(arguments, capsys)
    mistake = "run/manifest.json, line 9: cells: should be a valid integer: put back what the harness wrote there"
    assert (code, message) == (2, f"harness: {mistake}\n")


@pytest.mark.parametrize(
    "is_opened, said", [(True, ""), (False, "No browser can be opened here"), (None, "No browser")]
)
def test_a_report_is_opened_in_a_browser_or_its_path_is_printed(
    is_opened: bool | None,
    said: str,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    asked = []

    def open_(uri: str) -> bool:
        asked.append(uri)
        if is_opened is None:
            raise webbrowser.Error("could not locate runnable browser")
        return is_opened

    monkeypatch.setattr(webbrowser, "open", open_)
    write_manifest(tmp_path / "a run")
    (tmp_path / "a run" / "report.html").touch()
    assert printed(["report", "a run"], capsys) == (0, "report: a run/report.html\n")
    assert asked == []
    code, out = printed(["report", "a run", "--open"], capsys)
    path, *more = out.splitlines()
    assert (code, path, len(more)) == (0, "report: a run/report.html", bool(said))
    assert said in "".join(more)
    assert asked == [f"{tmp_path.as_uri()}/a%20run/report.html"]


@pytest.mark.parametrize(
    "command", [*([name] for name in COMMANDS), *(["lab", name] for name in LAB_COMMANDS)], ids=" ".join
)
def test_every_command_has_help_with_examples_and_exit_codes(
    command: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    code, out = printed([*command, "--help"], capsys)
    assert code == 0
    assert "Exit codes" in out and re.search("Examples?:", out)
    assert len(out.splitlines()) > 12


@pytest.mark.parametrize("command", [[], ["lab"]], ids=["harness", "lab"])
def test_a_group_without_a_command_shows_its_help_as_it_is(
    command: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    code, message = failure(command, capsys)
    assert code == 2
    assert message == printed([*command, "--help"], capsys)[1]


@pytest.mark.process
def test_the_module_is_the_command_and_its_help_lists_the_commands_in_the_order_of_use() -> None:
    lines = harness("--help").stdout.splitlines()
    listed = [line.split()[0] for line in lines[lines.index("Commands:") + 1 :] if re.match(r"  \w", line)]
    assert listed[: len(COMMANDS)] == COMMANDS


@pytest.mark.process
def test_help_is_quick_because_no_part_is_imported() -> None:
    code = "import sys, harness.cli; print([m for m in ('pyspark', 'matplotlib', 'locust', 'pyodbc', 'rich') if m in sys.modules])"
    assert subprocess.check_output([sys.executable, "-c", code], text=True, timeout=400).strip() == "[]"


@pytest.mark.process
def test_an_instance_starts_without_settings_and_what_validates_them() -> None:
    code = (
        "import sys; from harness import cli; from harness.cli import serving; from harness.embedded.server import serve;"
        "print([m for m in ('pydantic', 'numpy', 'harness.files.settings') if m in sys.modules])"
    )
    assert subprocess.check_output([sys.executable, "-c", code], text=True, timeout=400).strip() == "[]"


@pytest.mark.process
def test_opening_and_examining_a_lab_needs_no_numbers_a_sweep_no_tables_and_a_plan_no_drawing() -> None:
    code = (
        "import sys, harness.doctor, harness.lab, harness.experiments.selected_cells; numbers = 'numpy' in sys.modules;"
        "import harness.experiments.matrix_run; print(numbers, 'pandas' in sys.modules, 'scipy' in sys.modules);"
        "import harness.experiments.sweep_plan; print('matplotlib' in sys.modules)"
    )
    assert subprocess.check_output([sys.executable, "-c", code], text=True, timeout=400).split() == ["False"] * 4


def test_plan_shows_cells_and_time_and_starts_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    _, out = printed(["plan", "--cells", "i1-*-r150-p100", "--list"], capsys)
    lines = out.splitlines()
    assert lines[0].startswith("lab: embedded (as selected)")
    assert lines[1].startswith("cells: 22")
    assert lines[3] == "dialogs to build: 15,000, at most 7,500 at once"
    assert len(lines) == 5 + 22
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "options, line",
    [
        (("--settle", "4s", "--measure", "2s"), "a queue reader is added every 5 s while messages are left over"),
        (("--rate", "50/s"), "1 thread per initiator can make 50 sends/s while a send takes at most 20 ms on average"),
        (("--settle", "10s", "--measure", "10s"), ""),  # long enough for what readers change
        (("--settle", "4s", "--measure", "1s"), ""),  # too short for another one
        (("--settle", "4s", "--measure", "2s", "--lab", "simulated"), ""),  # all run before
    ],
)
def test_plan_says_what_keeps_its_cells_from_a_number(
    options: tuple[str, ...], line: str, capsys: pytest.CaptureFixture[str]
) -> None:
    _, out = printed(["plan", "--cells", "i1-t1-r150-p100-*", *options], capsys)
    notes = [said for said in out.splitlines() if "a queue reader is added" in said or "can make" in said]
    assert [said[: len(line)] for said in notes] == ([line] if line else [])


def test_plan_says_that_nobody_knows_which_gain_repeats_can_show_before_any_were_made(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    _, out = printed(["plan", "--lab", "embedded", "--cells", "i1-*-p100", "--results", str(tmp_path)], capsys)
    rows = [line.split("│")[1:-1] for line in out.splitlines() if line.startswith("│")]
    visible = {row[0].strip(): row[-1].strip() for row in rows}
    assert visible == {"1": "none: one run has no interval", "3": "unknown", "5": "unknown", "10": "unknown"}
    assert "has no run of the embedded lab with repeats" in " ".join(out.split())


OWN_SIZES = "[body]\nsize = {uniform = [200, 400]}\n"
TEXT = '[body]\ntemplate = "order.json"\n[accounting]\nby = "count"\n'


@pytest.mark.parametrize("tables, payload", [("", 100), (OWN_SIZES, None), (TEXT, 200)])
def test_the_first_run_on_a_lab_sends_messages_that_the_workload_can_have(
    tmp_path: Path, tables: str, payload: int | None
) -> None:
    folder = shutil.copytree(workload_file.FOLDER / "fan-in", tmp_path / "orders")
    (folder / "workload.toml").write_text((folder / "workload.toml").read_text() + tables)
    (folder / "order.json").write_text(json.dumps({"a": "${filler}", "b": "x" * (100 - len('{"a": "", "b": ""}'))}))
    assert first_run.payload(workload_file.read(str(folder))) == payload


def test_the_first_run_ends_with_the_cells_that_do_not_count() -> None:
    assert first_run.closing({"a": "valid", "b": "valid"}) == "No step differs: measure with harness matrix."
    said = first_run.closing({"a": "disturbed", "b": "valid", "c": "starved"})
    assert said == "No step differs, but a is disturbed, c is starved: such a cell does not count. Step 3 says why."


@pytest.mark.parametrize("width", [60, 80, 100, 140])
def test_in_a_narrow_terminal_each_claim_has_its_numbers_and_its_verdict(
    width: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(results, "console", lambda: SafeConsole(width=width))
    names = ("statement", "wording", "number", "provenance", "verdict", "explanation")
    row = SimpleNamespace(
        **dict(
            zip(names, ("It is fast", "12,000", "12,600 messages/s", "predicted", "inconclusive", "why"), strict=True)
        )
    )
    results._print_claims([row])
    printed = capsys.readouterr().out
    assert max(map(len, printed.splitlines())) <= width
    assert all(word in printed for word in ("fast", "12,000", "12,600", "predicted", "inconclusive", "why"))


@pytest.mark.process
def test_a_terminal_that_is_closed_interrupts_a_command_once() -> None:
    code = (
        "import signal; from harness import cli\n"
        "def command(*_, **__):\n"
        "    try:\n"
        "        signal.raise_signal(signal.SIGHUP)  # the shell's\n"
        "    finally:\n"
        "        signal.raise_signal(signal.SIGHUP)  # the kernel's\n"
        "        print('cleaned up')\n"
        "cli.harness.main = command\n"
        "cli.main([])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stdout) == (130, "cleaned up\n"), done.stderr


def test_a_terminal_of_few_letters_shows_a_mark_for_others(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = io.TextIOWrapper(io.BytesIO(), encoding="ascii")
    monkeypatch.setattr(sys, "stdout", terminal)
    monkeypatch.setattr(cli.harness, "main", lambda *_, **__: SafeConsole().print("1 – 2"))
    assert _ended([]) == 0
    assert terminal.buffer.getvalue() == b"1 ? 2\n"  # type: ignore[attr-defined]


@pytest.mark.parametrize("width", [60, 80, 88, 100, 140])
def test_in_a_narrow_terminal_words_stay_whole_and_a_table_keeps_its_state(
    width: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(conventions, "console", lambda: SafeConsole(width=width))
    rows = [
        ["cell", "processed/s", "95 % interval", "call p50, ms", "p95, ms", "end to end p50, ms", "state"],
        ["i1-t50-r150-p8192-v2008", "1,394", "1,200 to 1,500\n3 blocks", "34", "81", "1,234.56", "disturbed"],
    ]
    conventions.print_rows(rows)
    printed = capsys.readouterr().out
    assert max(map(len, printed.splitlines())) <= width
    words, left_out = set(printed.split()), printed.partition("not shown in so narrow a terminal: ")[2]
    for name, text in zip(*rows, strict=True):
        assert name in " ".join(left_out.split()) or set(text.split()) <= words, name
    assert {"state", "disturbed", "1,394"} <= words
