"""tedious and mssql, the clients of Node."""

import json
import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.clients.server import ANSWER, ASK, DATABASE, HANG_UP, HEAR, PASSWORD, Server

pytestmark = pytest.mark.process

LIBRARIES = Path(__file__).parents[2] / ".clients" / "node" / "node_modules"
SCRIPT = Path(__file__).parent / "node" / "scenarios.js"


class Node:
    def __init__(self, library: str, server: Server) -> None:
        self.library = library
        self.server = server

    def run(self, scenario: str, *, encrypt: str = "plain", given: Any = None) -> Any:
        words = [self.library, scenario, str(self.server.port), PASSWORD, DATABASE, encrypt]
        ended = subprocess.run(
            ["node", str(SCRIPT), *words],
            env=os.environ | {"NODE_PATH": str(LIBRARIES)},
            input=json.dumps(given),
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
        )
        assert ended.returncode == 0, ended.stderr
        return json.loads(ended.stdout)


@pytest.fixture(params=["tedious", "mssql"])
def node(request: pytest.FixtureRequest, server: Server) -> Node:
    if shutil.which("node") is None:
        pytest.skip("Node is not installed: apt-get install nodejs npm")
    if not (LIBRARIES / request.param).is_dir():
        pytest.skip(f"{request.param} is not installed: make clients")
    return Node(request.param, server)


@pytest.mark.parametrize("encrypt", ["plain", "TLS"])
def test_it_logs_in(node, encrypt):
    assert node.run("login", encrypt=encrypt) == [[DATABASE, "sa", 0]]


def test_it_logs_in_with_each_version_of_tds(node):
    assert node.run("versions") == [[0, "x", 7]] * 4


def test_a_wrong_password_is_refused(node):
    assert node.run("refused")["message"].startswith("Login failed for user 'sa'")


def test_a_parameter_of_each_type_and_null_arrive_and_come_back(node):
    assert node.run("kinds") == []


def test_a_procedure_has_output_and_a_status(node):
    assert node.run("output") == {"doubled": 42, "status": 7}


def test_several_results_follow_one_another(node):
    assert node.run("several") == [[["one"], [1]], [["word", "number"], ["two", 2]], [["three"]]]


def test_an_error_has_its_number_and_leaves_the_connection_usable(node):
    assert node.run("errors") == [[208, 2627, 50000], [[1]]]


def test_transactions_and_savepoints_end_as_the_client_says(node):
    assert node.run("transactions") == [["kept", 0]]


def test_a_timeout_and_a_cancel_leave_the_connection_usable(node):
    assert node.run("cancel") == ["ETIMEOUT", "ECANCEL", [[1]]]


def test_a_connection_is_reset_before_it_is_used_again(node):
    assert node.run("pool") == [[0, DATABASE]]


def test_a_megabyte_arrives_and_comes_back(node):
    assert node.run("megabyte") == [True, True]


def test_a_dialog_goes_there_and_back(node):
    [[handle]], asked, [[heard, body, kind]], [end], _ = node.run("dialog", given=[ASK, ANSWER, HEAR, HEAR, HANG_UP])
    assert (asked, heard, body, kind) == ([["how are you?"]], handle, "how are you? Fine!", "Words")
    assert end[2] == "http://schemas.microsoft.com/SQL/ServiceBroker/EndDialog"


def test_bulk_copy_inserts_all_rows_or_none(node):
    assert node.run("bulk") == [[2, 2627], [["a", 7, "2026-02-28"], ["Жизнь", 18, None]]]
