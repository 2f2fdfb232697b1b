"""Locust's web interface over HTTP, with an echo server behind it; the page in a browser is `tests/e2e/test_ui.py`."""

import csv
import json
import re
import subprocess
import sys
import time
import urllib.error
import urllib.parse
import urllib.request

import pytest

from tests.load.test_page_guard import statuses
from tests.processes import Child, children_of, command_line, free_port

pytestmark = pytest.mark.process

FIELDS = {"initiators": 1, "threads": 2, "dialog_ratio": 150, "payload_bytes": 100, "rate": ""}


class Page:
    def __init__(self, port, pid):
        self.pid = pid
        self.url = f"http://127.0.0.1:{port}"

    def get(self, path):
        with urllib.request.urlopen(self.url + path, timeout=120) as response:
            return response.read().decode()

    def post(self, path, **fields):
        data = urllib.parse.urlencode(fields).encode()
        with urllib.request.urlopen(self.url + path, data=data, timeout=60) as response:
            return json.loads(response.read())

    def start(self, **fields):
        return self.post("/swarm", user_count=0, spawn_rate=0, host="echo", **(FIELDS | fields))

    def stats(self):
        return json.loads(self.get("/stats/requests"))

    def status(self):
        return json.loads(self.get("/scenario"))["status"]

    def wait_for(self, condition, what):
        deadline = time.monotonic() + 120
        while not condition(stats := self.stats()):
            assert time.monotonic() < deadline, (what, stats["state"], self.status())
            time.sleep(0.1)
        return stats

    def stop(self):
        self.post("/stop")
        self.wait_for(lambda stats: stats["state"] in ("ready", "stopped") and not stats["user_count"], "stop")


@pytest.fixture(scope="module")
def page(tmp_path_factory):
    port = free_port()
    arguments = [sys.executable, "-m", "tests.load.echo_ui", str(port), str(tmp_path_factory.mktemp("logs"))]
    with Child(arguments) as process:
        page = Page(port, process.pid)
        deadline = time.monotonic() + 120
        while True:
            try:
                if json.loads(page.get("/looks?after=3"))["looks"]:  # the last of them; there is a worker before
                    break
            except urllib.error.URLError:
                pass
            assert process.poll() is None and time.monotonic() < deadline
            time.sleep(0.1)
        yield page
        process.terminate()
        process.wait(timeout=120)


def requests(stats):
    return stats["stats"][-1]["num_requests"]


def test_the_start_form_has_the_scenarios_fields_in_order(page):
    html = page.get("/")
    options = json.loads(html.split("window.templateArgs = ")[1].split("\n")[0])["extra_options"]
    assert list(options) == ["load_model", "rate", "initiators", "threads", "dialog_ratio", "payload_bytes"]
    assert options["load_model"]["choices"] == ["closed loop", "open loop"]
    assert [options[name]["choices"] for name in FIELDS] == [None] * 5
    assert options["initiators"]["help_text"] == "1 to 5 instances that send"
    assert '<datalist id="suggested_dialog_ratio" data-field="dialog_ratio"><option value="1">' in html
    assert (
        '<datalist id="suggested_initiators" data-field="initiators"><option value="1"></option><option value="2">'
        in html
    )
    assert "scenario-status" in html


def test_another_page_cannot_start_stop_reset_or_read(page):
    for path in ("/swarm", "/stop", "/stats/reset", "/user"):
        assert statuses(page.url + path, FIELDS) == {403}
    for path in ("/", "/logs", "/stats/requests", "/stats/report", "/looks", "/looks/queues.csv", "/scenario"):
        assert statuses(page.url + path) == {403}
    assert page.stats()["state"] == "ready"


def test_a_wrong_field_shows_in_the_form_and_nothing_starts(page):
    assert page.start(threads=1001) == {"success": False, "message": "threads '1001' is not valid: 1 to 1,000"}
    assert page.start(initiators=6) == {"success": False, "message": "initiators '6' is not valid: 1 to 5"}
    assert page.stats()["state"] == "ready"


def test_a_failed_lab_shows_in_the_form(page):
    assert page.start(threads=41) == {"success": False, "message": "no echo in this valley"}


def test_calls_flow_at_a_rate_stop_and_flow_again_with_other_fields(page):
    began = time.monotonic()
    assert page.start(initiators=3, threads=4, payload_bytes="1 KB", rate="20/s")["success"]
    running = page.wait_for(lambda stats: requests(stats) >= 20 and stats["user_count"] == 12, "first calls")
    assert (running["state"], len(running["workers"])) == ("running", 3)
    again = page.wait_for(lambda stats: requests(stats) > requests(running), "more calls")
    assert requests(again) <= 3 * (20 * (time.monotonic() - began) + 21)  # the rate is that of each initiator
    call = running["stats"][0]
    assert (call["method"], call["name"], call["avg_content_length"]) == ("CALL", "dbo.SendMessage", 1024)
    assert 0 < call["median_response_time"] < 1000
    fields = "every 150th dialog, 1,024 bytes, open loop, 20/s per initiator, sent by 3 workers"
    assert page.status() == f"3 initiators × 4 threads, {fields}"
    assert page.start()["message"] == "a scenario is running: stop it first"
    page.stop()
    assert page.status() == "stopped"
    assert page.start(initiators=1, threads=2, dialog_ratio=7)["success"]
    fields = "every 7th dialog, 100 bytes, closed loop, sent by 1 worker"
    assert page.status() == f"1 initiator × 2 threads, {fields}"
    again = page.wait_for(lambda stats: requests(stats) > 500 and stats["user_count"] == 2, "calls again")
    assert sorted(worker["user_count"] for worker in again["workers"]) == [0, 0, 2]
    page.stop()


def test_clients_that_cannot_log_in_stop_the_scenario_with_the_reason(page):
    assert page.start(threads=42)["success"]
    stats = page.wait_for(lambda stats: stats["errors"] and not stats["user_count"], "login failures")
    assert "Login failed for user 'sa'" in stats["errors"][0]["error"]
    page.wait_for(lambda stats: stats["state"] in ("ready", "stopped"), "stop")
    assert "Login failed for user 'sa'" in page.status()


def test_the_logs_say_what_the_harness_did(page):
    page.post("/swarm", threads="none")
    logs = "\n".join(json.loads(page.get("/logs"))["master"])
    for line in (
        "INFO/harness.load.pages.scenario: Echo, not SQL Server: it only answers",
        "WARNING/harness.load.pages.looks: not shown: initiator-1: connection refused",
        "INFO/harness.load.pages.looks: all instances are shown again",
        "WARNING/harness.load.pages.scenario: not started: threads 'none' is not valid: 1 to 1,000",
    ):
        assert line in logs
    assert re.search(r"INFO/harness.load.master: worker \S+ of \S+ has joined, process \d+", logs)


def test_failed_calls_show_as_failures(page):
    assert page.start(threads=43)["success"]
    stats = page.wait_for(lambda stats: stats["stats"][-1]["num_failures"] >= 430, "failures")
    assert "The service queue is currently disabled" in stats["errors"][0]["error"]
    page.stop()


@pytest.mark.thorough
def test_a_worker_that_is_killed_ends_the_scenario_and_the_next_one_starts(page):
    assert page.start(initiators=2)["success"]
    page.wait_for(lambda stats: stats["user_count"] == 4 and requests(stats) > 100, "calls")
    workers = [child for child in children_of(page.pid) if "locustfile.py" in " ".join(command_line(child))]
    worker = sorted(workers, key=lambda child: child.create_time())[1]
    worker.kill()
    page.wait_for(lambda stats: stats["state"] in ("ready", "stopped") and not stats["user_count"], "stop")
    assert "locust-worker-2" in page.status() and "SIGKILL" in page.status()
    assert page.start(initiators=2)["success"]
    page.wait_for(lambda stats: stats["user_count"] == 4 and requests(stats) > 100, "calls again")
    page.stop()


def test_each_tab_of_looks_has_a_csv_file_with_the_numbers_of_its_charts(page):
    shown = json.loads(page.get("/looks?after=2"))["looks"]
    assert [look["number"] for look in shown] == [3, 4]
    assert shown[0]["charts"]["rate"] == {"sent": 1004, "processed": 900}
    head, *rows = csv.reader(page.get("/looks/waits.csv").splitlines())
    assert head[:2] == ["lab", "time"]
    assert head[3:] == [
        "Waits of the target: WRITELOG (ms waited/s)",
        "Waits of the target: PAGELATCH_EX (ms waited/s)",
    ]
    assert [row[3:] for row in rows[1:4]] == [["250.5", "0.0"], ["250.5", "40.0"], ["250.5", "0.0"]]
    assert {row[0] for row in rows} == {"Echo, not SQL Server: it only answers"}
    states = [row[3] for row in csv.reader(page.get("/looks/monitors.csv").splitlines())]
    assert states == ["target MySSBLabTestQueue", "NOTIFIED", "NOTIFIED", *["RECEIVES_OCCURRING"] * 3]


STOPPING = """
from functools import partial
from flask import Flask, jsonify
from harness.load.pages.scenario import add_own_page_parts

app = Flask("page")
app.after_request(partial(add_own_page_parts, ""))
app.add_url_rule("/stats/requests", view_func=lambda: jsonify(state="stopping", user_count=2))
print(app.test_client().get("/stats/requests").get_json())
"""


def test_the_page_never_sees_stopping_after_which_locusts_page_would_ask_no_more():
    done = subprocess.run([sys.executable, "-c", STOPPING], capture_output=True, text=True, check=True, timeout=100)
    assert done.stdout.splitlines()[-1] == "{'state': 'running', 'user_count': 2}"


LOGIN = """
from locust.env import Environment
from harness.load.pages.looks import add_to_locust

web_ui = Environment().create_web_ui("127.0.0.1", 0, web_login=True, delayed_start=True)
web_ui.app.secret_key = "of a test"
web_ui.login_manager.user_loader(lambda name: None)
add_to_locust(web_ui)
print([web_ui.app.test_client().get(path).location for path in ("/looks", "/looks/waits.csv")])
"""


def test_the_looks_are_behind_locusts_login_where_a_locustfile_has_one():
    done = subprocess.run([sys.executable, "-c", LOGIN], capture_output=True, text=True, check=True, timeout=100)
    assert done.stdout.splitlines()[-1] == "['/login?next=%2Flooks', '/login?next=%2Flooks%2Fwaits.csv']"
