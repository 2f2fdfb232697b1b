"""What another web page, or a stranger, can do with the pages: nothing. That of a real browser is in `tests/e2e/test_ui.py`."""

import socket
import urllib.error
import urllib.parse
import urllib.request
from typing import Any

import pytest
from flask import Flask

from harness.failures import UsageFailure
from harness.load.pages import guard, sweep
from harness.output.reporting import Reporter
from tests.processes import free_port

CROSS_SITE = {"Sec-Fetch-Site": "cross-site"}
NAVIGATION = CROSS_SITE | {"Sec-Fetch-Mode": "navigate"}
FOREIGN = [
    {"Host": "evil.example"},
    {"Host": "127.0.0.1.evil.example"},
    {"Host": "evil.example@127.0.0.1"},
    {"Host": "10.0.0.5"},
    {"Origin": "http://evil.example"},
    {"Origin": "http://127.0.0.1:1"},
    {"Origin": "null"},
    CROSS_SITE,
    {"Sec-Fetch-Site": "same-site"},  # another port of this machine
    NAVIGATION | {"Sec-Fetch-Dest": "iframe"},
]
TOKEN = "a token of 24 characters"


def statuses(url: str, form: dict[str, Any] | None = None) -> set[int]:
    """How a page answers requests that other pages cause: to a GET, or to a POST of a form."""
    data = None if form is None else urllib.parse.urlencode(form).encode()
    found = set()
    for headers in FOREIGN:
        try:
            with urllib.request.urlopen(urllib.request.Request(url, data, headers), timeout=60) as response:
                found.add(response.status)
        except urllib.error.HTTPError as error:
            found.add(error.code)
            error.close()
    return found


def app(host: str = "127.0.0.1", **options: bool) -> Flask:
    """An app that answers everything to everybody, as Locust's does."""
    made = Flask("page")
    made.add_url_rule("/", view_func=lambda: ("done", {"Access-Control-Allow-Origin": "*"}), methods=["GET", "POST"])
    guard.protect(made, host, **options)
    return made


@pytest.mark.parametrize("method", ["GET", "POST", "OPTIONS"])
@pytest.mark.parametrize("headers", FOREIGN, ids=str)
def test_what_another_page_causes_is_refused(method, headers):
    assert app().test_client().open("/", method=method, headers=headers).status_code == 403


def test_another_page_cannot_post_by_a_navigation_but_links_are_followed():
    headers = NAVIGATION | {"Sec-Fetch-Dest": "document"}
    assert app().test_client().post("/", headers=headers).status_code == 403
    assert app().test_client().get("/", headers=headers).text == "done"


@pytest.mark.parametrize("name", ["127.0.0.1", "localhost", "LOCALHOST", "[::1]", "127.0.0.2"])
@pytest.mark.parametrize("port", ["", ":8089", ":9000"])
def test_the_page_itself_and_programs_are_answered_under_each_name_of_this_machine(name, port):
    client, host = app("127.0.0.2").test_client(), {"Host": name + port}
    own = host | {"Origin": f"http://{name}{port}", "Sec-Fetch-Site": "same-origin"}
    for headers in (host, own, host | {"Sec-Fetch-Site": "none"}):
        assert client.post("/", headers=headers).text == "done"


def test_no_answer_can_be_read_or_framed_by_another_site():
    for path in ("/", "/nothing"):
        headers = app().test_client().get(path, headers={"Origin": "http://localhost"}).headers
        assert not any(name.startswith("Access-Control-") for name, _ in headers)
        assert headers["Content-Security-Policy"] == "frame-ancestors 'none'"
        assert headers["Cross-Origin-Resource-Policy"] == "same-origin"


def test_the_page_of_a_sweep_answers_no_other_page():
    port = free_port()
    with sweep.serving(Reporter(), port):
        for path in ("/", "/state", "/looks", "/looks/queues.csv", "/figures/x.png"):
            assert statuses(f"http://127.0.0.1:{port}{path}") == {403}


@pytest.mark.parametrize("host", ["", "0.0.0.0", "::", "10.0.0.5", "bench7"])
def test_a_page_for_other_machines_needs_tls_and_the_token(host, monkeypatch):
    monkeypatch.delenv("HARNESS_TOKEN", raising=False)
    with pytest.raises(UsageFailure, match=r"--web-host .* add --tls-cert, --tls-key and HARNESS_TOKEN"):
        app(host)
    with pytest.raises(UsageFailure, match="HARNESS_TOKEN is not set"):
        app(host, is_encrypted=True)
    monkeypatch.setenv("HARNESS_TOKEN", TOKEN)
    client = app(host, is_encrypted=True).test_client()
    for name in ("10.0.0.5:8089", "[fe80::1]", socket.gethostname(), host or "localhost"):
        own = {"Host": f"[{name}]" if name == "::" else name}
        assert client.get("/", headers=own).status_code == 401
        assert client.get("/", headers=own, auth=("", TOKEN + "x")).status_code == 401
        assert client.get("/", headers=own, auth=("anybody", TOKEN)).text == "done"
        assert client.post("/", headers=own | CROSS_SITE, auth=("", TOKEN)).status_code == 403
    assert client.get("/", headers={"Host": "evil.example"}, auth=("", TOKEN)).status_code == 403
