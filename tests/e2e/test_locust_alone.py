"""`locust -f harness/load/locustfile.py` alone: what a user of Locust knows."""

import csv
import json
import os
import signal
import subprocess
import sys
import urllib.parse
import urllib.request
from pathlib import Path
from typing import Any

import psutil
import pytest

from harness.machine.places import LOCUSTFILE
from tests.e2e.test_listeners import listening
from tests.load.test_page_guard import statuses
from tests.processes import Child, children_of
from tests.waiting import wait_until

pytestmark = pytest.mark.process

LOCUST = [sys.executable, "-m", "locust", "-f", str(LOCUSTFILE)]


def environment(**more: str) -> dict[str, str]:
    return {key: value for key, value in os.environ.items() if key != "LOCUST_SKIP_MONKEY_PATCH"} | more


def test_headless_with_variables_of_locust_and_statistics_as_csv(tmp_path: Path) -> None:
    words = ["--csv", "calls", "--lab", "embedded", "--initiators", "2", "--dialog-ratio", "1", "--rate", "20/s"]
    variables = environment(LOCUST_HEADLESS="1", LOCUST_USERS="3", LOCUST_SPAWN_RATE="3")
    with Child([*LOCUST, *words], env=variables, cwd=tmp_path, stderr=subprocess.DEVNULL) as process:
        # Locust writes its files out every ten seconds.
        wait_until(lambda: process.poll() is not None or rows(tmp_path / "calls_stats.csv", "dbo.SendMessage"))
        process.send_signal(signal.SIGTERM)
        assert process.wait(timeout=120) == 0
    [sends] = rows(tmp_path / "calls_stats.csv", "dbo.SendMessage")
    assert int(sends["Request Count"]) > 0 and (sends["Type"], sends["Failure Count"]) == ("CALL", "0")
    assert rows(tmp_path / "calls_stats_history.csv", "Aggregated")[-1]["User Count"] == "3"


def rows(file: Path, name: str) -> list[dict[str, str]]:
    """Those of a name in a table of Locust's."""
    if not file.exists():
        return []
    with file.open() as text:
        return [row for row in csv.DictReader(text) if row["Name"] == name]


def rates(looks: list[dict[str, Any]]) -> list[list[str]]:
    """The names of the rates of each look that has those of both sides; a look of a busy machine may lack one."""
    return [list(look["charts"]["rate"]) for look in looks if "processed" in look["charts"].get("rate", ())]


def test_the_web_page_starts_and_stops_a_test_and_everything_ends(tmp_path: Path) -> None:
    words = ["--web-port", "0", "--lab", "embedded", "--dialog-ratio", "1", "--rate", "50/s"]
    log = tmp_path / "locust.log"
    with log.open("wb") as stderr, Child([*LOCUST, *words], env=environment(), cwd=tmp_path, stderr=stderr) as process:

        def get(path: str, form: dict[str, int] | None = None) -> str:
            data = None if form is None else urllib.parse.urlencode(form).encode()
            with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", data, timeout=60) as response:
                return str(response.read().decode())

        wait_until(lambda: listening(process.pid))
        [(host, port)] = listening(process.pid)
        assert host == "127.0.0.1"
        fields = json.loads(get("/").split("window.templateArgs = ")[1].split("\n")[0])["extra_options"]
        assert list(fields) == ["initiators", "dialog_ratio", "payload_bytes", "rate"]
        refused = json.loads(get("/swarm", {"user_count": 2, "spawn_rate": 2, "payload_bytes": 1}))
        assert refused == {"success": False, "message": "payload bytes '1' is not valid: 32 to 1,048,576"}
        assert statuses(f"http://127.0.0.1:{port}/swarm", {"user_count": 2, "spawn_rate": 2}) == {403}
        servers = children_of(process.pid)
        assert len(servers) == 2
        for users in (2, 3):
            assert json.loads(get("/swarm", {"user_count": users, "spawn_rate": users}))["success"]
            wait_until(lambda: json.loads(get("/stats/requests"))["stats"][0]["num_requests"] > 0)
            wait_until(lambda: rates(json.loads(get("/looks"))["looks"][-1:]))
            assert json.loads(get("/stop", {}))["success"]
            found = json.loads(get("/stats/requests"))
            assert not found["errors"]
        looks = json.loads(get("/looks"))
        assert [name for _, name in looks["runs"]] == ["Run #1", "Run #2"]
        assert rates(looks["looks"])[-1] == ["sent", "processed"]
        assert looks["lab"].startswith("Embedded lab, not SQL Server") and 'id="lab-banner"' in get("/")
        process.send_signal(signal.SIGINT)
        assert process.wait(timeout=120) == 0
        assert "Traceback" not in log.read_text()
        _, alive = psutil.wait_procs(servers, timeout=60)
        assert not alive


@pytest.mark.parametrize(
    ("words", "line"),
    [
        (["--headless", "--lab", "nowhere"], "harness: --lab: unknown lab 'nowhere'"),
        (["--web-host", "0.0.0.0", "--lab", "embedded"], "harness: --web-host opens the page to other machines: add"),
    ],
)
def test_a_wrong_option_is_one_line(tmp_path: Path, words: list[str], line: str) -> None:
    done = subprocess.run(
        [*LOCUST, *words], env=environment(), cwd=tmp_path, capture_output=True, text=True, check=False, timeout=300
    )
    assert done.returncode == 1
    assert done.stderr.splitlines()[-1].startswith(line)
