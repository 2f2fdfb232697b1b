"""System.Data.SqlClient, as Mono brings it."""

import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.clients.server import ANSWER, ASK, DATABASE, HANG_UP, HEAR, PASSWORD, Server

pytestmark = pytest.mark.process

SOURCE = Path(__file__).parent / "dotnet" / "Scenarios.cs"
Run = Callable[..., list[list[str]]]


@pytest.fixture(scope="session")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    if shutil.which("mcs") is None or shutil.which("mono") is None:
        pytest.skip("Mono is not installed: make clients")
    path = tmp_path_factory.mktemp("dotnet") / "Scenarios.exe"
    subprocess.run(["mcs", "-r:System.Data.dll", f"-out:{path}", str(SOURCE)], check=True, timeout=300)
    return path


@pytest.fixture
def run(program: Path, server: Server) -> Run:
    def run(scenario: str, *, encrypt: str = "plain", given: str = "") -> list[list[str]]:
        words = ["mono", str(program), scenario, str(server.port), PASSWORD, DATABASE, encrypt]
        ended = subprocess.run(words, input=given, capture_output=True, text=True, timeout=300, check=False)
        # Not the exit code: Mono may fail when it ends its timers' thread after Main.
        *lines, last = ended.stdout.splitlines() or [""]
        assert last == "end", ended.stderr[:2000]
        return [line.split("|") for line in lines]

    return run


@pytest.mark.parametrize("encrypt", ["plain", "TLS"])
def test_it_logs_in(run, encrypt):
    assert run("login", encrypt=encrypt) == [[DATABASE, "sa", "0"]]


def test_a_wrong_password_is_refused(run):
    assert run("refused") == [["18456"]]


def test_a_parameter_of_each_type_and_null_arrive_and_come_back(run):
    assert run("kinds") == []


def test_columns_that_cannot_be_null_are_read(run):
    [row] = run("columns")
    assert row[:11] == [
        *("True", "2", "3", "4", "5", "6.5", "7.5", "8.25", "9.5000", "2026-11-22 00:00:00.0000000"),
        "01b241a8-4cde-45ed-9cc6-eaa548a341f3",
    ]
    assert row[11:] == ["l", "m", "2026-11-22 12:30:15.1234567"]


def test_a_procedure_has_output_and_a_status(run):
    assert run("output") == [["42", "7"]]


def test_several_results_follow_one_another(run):
    assert run("several") == [["one"], ["1"], ["word", "number"], ["two", "2"], ["three"]]


def test_an_error_has_its_number_and_a_message_its_text(run):
    assert run("errors") == [["208"], ["2627"], ["50000"], ["told"], ["1"]]


def test_transactions_and_savepoints_end_as_the_client_says(run):
    assert run("transactions") == [["kept", "0"]]


def test_a_request_that_is_given_up_leaves_the_connection_usable(run):
    assert run("cancel") == [["-2"], ["Operation cancelled by user."], ["1"]]


def test_a_pool_gives_a_reset_connection_out_again(run):
    assert run("pool") == [[DATABASE, "0"]] * 3 + [["1"]]


def test_a_megabyte_arrives_and_comes_back(run):
    assert run("megabyte") == [["True", "True"]]


def test_a_dialog_goes_there_and_back(run):
    [handle], asked, [heard, body, kind], [_, _, end] = run(
        "dialog", given="\0".join([ASK, ANSWER, HEAR, HEAR, HANG_UP])
    )
    assert (asked, heard, body, kind) == (["how are you?"], handle, "how are you? Fine!", "Words")
    assert end == "http://schemas.microsoft.com/SQL/ServiceBroker/EndDialog"


def test_bulk_copy_inserts_all_rows_or_none(run):
    assert run("bulk") == [["2627"], ["a", "7", "2026-02-28"], ["Жизнь", "18", "NULL"]]


def test_a_client_that_asks_for_several_results_at_once_goes_on_without(run):
    assert run("mars") == [["1"]]
