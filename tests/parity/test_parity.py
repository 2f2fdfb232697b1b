"""`make parity`, with embedded instances in the place of SQL Server."""

import json
import os
import secrets
import subprocess
import sys
from pathlib import Path

import pytest

from harness.lab.processes import Child

pytestmark = pytest.mark.process

SUITE = "tests/conformance/test_dialogs.py"
# A few tests with rows, messages, several connections, a waiting thread, and errors.
TESTS = [
    f"{SUITE}::{name}"
    for name in (
        "test_waitfor_receive_wakes_when_a_message_arrives",
        "test_ending_a_dialog_sends_enddialog_and_both_ends_close",
        "test_a_rolled_back_receive_returns_the_messages",
        "test_wrong_statements_raise_sql_servers_error_numbers",
    )
]
TESTS.append("tests/conformance/test_probes.py::test_tempdb_has_files")
TESTS.append("tests/conformance/batches.py::test_table_variables__a_violation_of_a_key_shows_its_value")
TESTS.append("tests/conformance/test_language.py::test_names_of_databases_services_and_types_come_from_the_catalog")
ENTRY = (
    "from tests.parity.__main__ import main; import pathlib, sys;",
    "sys.exit(main(sys.argv[2:], pathlib.Path(sys.argv[1])))",
)


def parity(results: Path, *, environment: dict[str, str]) -> subprocess.CompletedProcess[str]:
    clean = {key: value for key, value in os.environ.items() if not key.startswith(("CONFORMANCE_", "DOCKER_"))}
    command = [sys.executable, "-c", " ".join(ENTRY), str(results), *TESTS]
    return subprocess.run(command, capture_output=True, text=True, env=clean | environment, timeout=500, check=False)


def against(command: list[str], folder: Path) -> tuple[subprocess.CompletedProcess[str], str]:
    """Compare with the server that a command starts; the output and the page."""
    password = secrets.token_urlsafe(16)
    serve = [sys.executable, "-m", *command]
    environment = {"HARNESS_PASSWORD": password}
    with Child("stand-in", serve, log=folder / "log", environment=environment, pipe_stdout=True) as child:
        port = json.loads(child.read_line(timeout_s=120))["port"]
        place = {"CONFORMANCE_SERVER": f"127.0.0.1,{port}", "CONFORMANCE_PASSWORD": password}
        done = parity(folder / "results", environment=place)
    assert done.returncode == 0, done.stdout + done.stderr
    assert password not in done.stdout + done.stderr
    return done, (folder / "results" / "parity.md").read_text(encoding="utf-8")


@pytest.mark.thorough  # the test below has two differences, and no third
def test_the_embedded_broker_does_not_differ_from_itself(tmp_path: Path) -> None:
    serve = ["harness", "serve", "--name", "other", "--port", "0", "--data", str(tmp_path / "data")]
    done, page = against(serve, tmp_path)
    assert "23 tests compared, 0 different" in done.stdout.splitlines()[-1]
    assert "0 different; 0 of " in page and "## Differences" not in page
    assert "not SQL Server but a stand-in" in page
    assert "## Only on stand-in" in page and "FROM tempdb.sys.database_files" in page


def test_a_changed_text_and_a_changed_column_are_shown_with_both_answers(tmp_path: Path) -> None:
    _, page = against(["tests.parity.differing_server", str(tmp_path / "data")], tmp_path)
    text, column = page.split("## Differences")[1].split("## Only on")[0].split("### ")[1:]
    [answers] = [line for line in text.splitlines() if line.startswith("| error |")]
    assert "BEGIN DIALOG @h FROM SERVICE [//No]" in text
    assert "is not found" in answers.split(" | ")[1] and "No service '//No' is &#124; known here." in answers
    assert "| rows | 'BINARY' | 'NONE' |" in column
    assert "## Passed on embedded, not on stand-in" in page and "`test_language.py::test_names_of" in page
    assert "not SQL Server but a stand-in" in page


def test_without_a_server_it_prints_one_line_and_ends_with_exit_code_3(tmp_path: Path) -> None:
    done = parity(tmp_path, environment={"DOCKER_HOST": "tcp://127.0.0.1:9"})
    assert done.returncode == 3
    assert done.stderr.count("\n") == 1 and "no Docker engine answers" in done.stderr
    assert not list(tmp_path.iterdir())


def test_with_a_refused_password_it_prints_one_line_and_ends_with_exit_code_3(tmp_path: Path) -> None:
    serve = [
        sys.executable,
        "-m",
        *["harness", "serve", "--name", "other", "--port", "0", "--data"],
        str(tmp_path / "data"),
    ]
    environment = {"HARNESS_PASSWORD": secrets.token_urlsafe(16)}
    with Child("other", serve, log=tmp_path / "log", environment=environment, pipe_stdout=True) as child:
        port = json.loads(child.read_line(timeout_s=120))["port"]
        wrong = {"CONFORMANCE_SERVER": f"127.0.0.1,{port}", "CONFORMANCE_PASSWORD": "wrong"}
        done = parity(tmp_path / "results", environment=wrong)
    assert done.returncode == 3
    [line] = done.stderr.splitlines()
    assert line.startswith("parity: nothing ran on sqlserver:") and "Login failed" in line


@pytest.fixture(autouse=True)
def _at_the_root(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(Path(__file__).parents[2])
