"""`harness ui` in headless Chromium: the start form, moving charts, stop, and another start with other fields.

An open loop keeps the processors free: a page that shows calls needs only a few of them.
"""

import contextlib
import csv
import re
import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from harness.files.workload_file import FOLDER
from tests.processes import Child, free_port

pytestmark = pytest.mark.process

SCENARIO = {"rate": "20/s", "initiators": 1, "threads": 1, "dialog_ratio": 1, "payload_bytes": 100, "user_count": 0}
# A pool of dialogs is begun and warmed up between pressing Start and the first call.
START_TIMEOUT_MS = 90_000


@contextlib.contextmanager
def serving(*options: str) -> Iterator[str]:
    """The address of `harness ui`, until the block ends."""
    port = free_port()
    arguments = [
        sys.executable,
        "-m",
        "harness",
        "ui",
        "--lab",
        "embedded",
        "--port",
        str(port),
        "--rate",
        "20/s",
        *options,
    ]
    with Child(arguments, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        said = []
        for line in process.stdout:
            said.append(line)
            if f"http://127.0.0.1:{port}" in line:
                break
        else:
            pytest.fail(f"harness ui ended: {said}")
        yield f"http://127.0.0.1:{port}/"
        process.send_signal(signal.SIGINT)
        assert process.wait(timeout=120) == 130


@pytest.fixture
def page(browser: Any) -> Iterator[Any]:
    page = browser.new_page(viewport={"width": 1300, "height": 1000})
    yield page
    page.close()


def fill(page: Any, **fields: int) -> None:
    for name, value in fields.items():
        page.locator(f"form [name={name}]").last.fill(str(value))


def start(page: Any) -> None:
    page.locator("form button[type=submit]").last.click()


def requests(page: Any) -> int:
    row = page.locator("tr", has_text="Aggregated").first
    row.wait_for(timeout=START_TIMEOUT_MS)
    return int(row.locator("td").nth(2).inner_text())


def wait_for_requests(page: Any, condition: str, number: int) -> int:
    """Wait until the page shows a number of requests that is `>` or `!=` another, and return it."""
    page.wait_for_function(
        """([condition, number]) => {
            const row = [...document.querySelectorAll("tr")].find(row => row.textContent.includes("Aggregated"));
            const shown = row && Number(row.querySelectorAll("td")[2].textContent);
            return row && (condition == ">" ? shown > number : shown != number);
        }""",
        arg=[condition, number],
        timeout=START_TIMEOUT_MS,
    )
    return requests(page)


def wait_for_rising_requests(page: Any, before: int = 0) -> None:
    """Wait until the page shows more and more requests. After another start it first shows those of the start before."""
    wait_for_requests(page, ">", wait_for_requests(page, "!=", before))


def stop(page: Any) -> None:
    page.get_by_role("button", name="Stop").click()
    page.get_by_role("button", name="New").wait_for(timeout=120_000)


def open_tab(page: Any, title: str) -> None:
    page.get_by_role("tab", name=title).click()
    page.locator(f"#looks[data-tab={title.lower()}]").wait_for()


def table(page: Any) -> dict[str, str]:
    """What the table of a tab says of each series now."""
    rows = page.locator("#looks tr[data-series]").evaluate_all(
        "rows => rows.map(row => [row.dataset.series, row.cells[1].textContent])"
    )
    return dict(rows)


def points(page: Any) -> dict[str, int]:
    """How many points each line of a tab's charts has; the page asks for its first looks after it has drawn itself."""
    page.locator("#looks path.series").first.wait_for(state="attached")
    found = page.locator("#looks path.series").evaluate_all(
        "lines => lines.map(line => [line.dataset.name, line.getAttribute('d').split('L').length])"
    )
    return dict(found)


@contextlib.contextmanager
def echo_ui(page: Any, logs: Path) -> Iterator[tuple[Child, str]]:
    """Locust's page with an echo server behind it, open in the browser, and its address."""
    port = free_port()
    with Child([sys.executable, "-m", "tests.load.echo_ui", str(port), str(logs)]) as echo:
        while True:
            try:
                page.goto(f"http://localhost:{port}/")
                break
            except Exception:  # of Playwright: nothing listens yet
                assert echo.poll() is None
        yield echo, f"http://localhost:{port}/"


def test_the_tabs_draw_what_their_csv_files_hold_in_both_themes(page: Any, tmp_path: Path) -> None:
    with echo_ui(page, tmp_path) as (echo, _):
        draw_and_compare(page, tmp_path)
        echo.kill()
        page.get_by_text("The harness has ended. It said last: 1 initiator × 1 thread").wait_for()


# All that a page can do to another one: returns what it could read.
ATTACK = """async ([target, form]) => {
    const posts = ["swarm", "stats/reset", "stop"].map(path => target + path);
    const read = await fetch(target + "logs").then(answer => answer.text(), () => "");
    const loaded = element => new Promise(resolve => {
        element.onload = element.onerror = resolve;
        document.body.append(element);
    });
    for (const url of posts) {
        await fetch(url, {method: "POST", mode: "no-cors", body: new URLSearchParams(form)}).catch(() => 0);
        await loaded(Object.assign(new Image(), {src: url}));
    }
    await loaded(Object.assign(document.createElement("iframe"), {name: "framed", src: target}));
    await loaded(Object.assign(document.createElement("iframe"), {name: "answer"}));
    const sender = Object.assign(document.createElement("form"), {method: "POST", action: posts[0], target: "answer"});
    for (const [name, value] of Object.entries(form)) {
        sender.append(Object.assign(document.createElement("input"), {name, value}));
    }
    document.body.append(sender);
    await new Promise(resolve => { document.querySelector("[name=answer]").onload = resolve; sender.submit(); });
    return read;
}"""


@pytest.mark.thorough
def test_another_page_starts_nothing_reads_nothing_and_frames_nothing(page: Any, tmp_path: Path) -> None:
    foreign = ThreadingHTTPServer(("127.0.0.1", 0), partial(SimpleHTTPRequestHandler, directory=str(tmp_path)))
    threading.Thread(target=foreign.serve_forever, daemon=True).start()
    with contextlib.closing(foreign.socket), echo_ui(page, tmp_path) as (_, address):
        for site in ("evil.example", "localhost"):
            page.goto(f"http://{site}:{foreign.server_port}/")
            assert page.evaluate(ATTACK, [address, SCENARIO]) == ""
            assert not page.frame_locator("[name=framed]").locator("#root").count()
        page.goto(address.replace("localhost", "rebound.example"))
        page.get_by_text("This page has another name").wait_for()
        page.goto(address)
        found = page.evaluate("fetch('stats/requests').then(answer => answer.json())")
        assert (found["state"], found["stats"][-1]["num_requests"]) == ("ready", 0)


def draw_and_compare(page: Any, tmp_path: Path) -> None:
    page.get_by_text("Echo, not SQL Server: it only answers").wait_for()
    page.locator("form [name=dialogRatio]").wait_for()
    fill(page, threads=1)
    rate = page.locator("form [name=rate]").last
    assert not rate.is_editable()
    page.locator("form [name=loadModel]").select_option("open loop")
    rate.fill("20/s")
    start(page)
    page.get_by_role("button", name="Stop").wait_for(timeout=START_TIMEOUT_MS)

    open_tab(page, "Queues")
    assert points(page) == {"target's queue": 5, "initiators' transmission queues": 5, "sent": 5, "processed": 5}
    assert table(page)["Messages sent and processed: sent (messages/s)"] == "1,005"
    with page.expect_download() as downloaded:
        page.locator("#looks figure[data-chart=rate] .tools a", has_text="CSV").click()
    head, *rows = csv.reader(downloaded.value.path().read_text().splitlines())
    assert [row[head.index("Messages sent and processed: sent (messages/s)")] for row in rows][-1] == "1005.0"
    with page.expect_download() as downloaded:
        page.locator("#looks figure[data-chart=rate] .tools a", has_text="PNG").click()
    assert downloaded.value.path().read_bytes().startswith(b"\x89PNG")

    page.get_by_text("Not shown now: initiator-1: connection refused").wait_for()

    open_tab(page, "Monitors")
    states = page.locator("#looks rect.state").evaluate_all("all => all.map(one => one.dataset.state)")
    assert states == ["NOTIFIED", "RECEIVES_OCCURRING"]
    open_tab(page, "Waits")
    assert points(page) == {"WRITELOG": 5, "PAGELATCH_EX": 5}
    open_tab(page, "Latches")
    assert table(page)["Whose pages tasks of the initiators waited for: sys.sysdesend (tasks waiting)"] == "12.5"

    back = page.locator("#looks figure svg > rect").first
    assert back.get_attribute("fill") == "#fff"
    page.locator("header button svg").last.click()
    page.locator("#looks figure svg > rect[fill='#27272a']").first.wait_for()
    page.screenshot(path=tmp_path / "latches-dark.png")


def test_the_form_starts_stops_and_starts_again_with_other_fields(page: Any, tmp_path: Path) -> None:
    with serving("--initiators", "2") as address:
        page.goto(address)
        start_stop_and_start_again(page, tmp_path)


def start_stays_in_sight(page: Any) -> None:
    """Also below what is said of a field that is not valid; and Locust advertises nothing."""
    size = page.viewport_size
    page.set_viewport_size({"width": 900, "height": 900})
    button, line = (page.locator(name).last.bounding_box() for name in ("form button[type=submit]", "#scenario-status"))
    assert button["y"] + button["height"] < line["y"]
    assert not page.get_by_text("Azure Load Testing").is_visible()
    page.set_viewport_size(size)


def start_stop_and_start_again(page: Any, tmp_path: Path) -> None:
    page.locator("form [name=dialogRatio]").wait_for()
    assert not page.locator("form [name=userCount]").is_visible()

    offered = page.locator("form [name=dialogRatio]").last.evaluate(
        "field => [...field.list.options].map(o => o.value)"
    )
    assert offered == ["1", "150"]
    page.screenshot(path=tmp_path / "form.png")

    fill(page, initiators=4, threads=3)
    start(page)
    page.get_by_text("initiators '4' is not valid: 1 to 2").wait_for()
    start_stays_in_sight(page)

    fill(page, initiators=1, threads=3, dialogRatio=1, payloadBytes=100)
    start(page)
    page.get_by_role("button", name="Stop").wait_for(timeout=START_TIMEOUT_MS)
    wait_for_rising_requests(page)
    page.get_by_text("1 initiator × 3 threads, every dialog, 100 bytes").wait_for()
    page.get_by_text("sent by 1 worker").wait_for()
    assert (
        "_service-broker_embedded-lab_"
        in page.request.get(f"{page.url}stats/requests/csv").headers["content-disposition"]
    )

    page.get_by_role("tab", name="Charts").click()
    page.locator("canvas").first.wait_for()
    page.screenshot(path=tmp_path / "charts.png")
    open_tab(page, "Queues")
    page.locator("#looks line.run").first.wait_for(state="attached")
    assert table(page)["Messages in queues: target's queue (messages)"]
    page.wait_for_function(
        "() => [...document.querySelectorAll('#looks tr[data-series*=\"processed: processed\"] td')].pop()?.textContent > 0",
        timeout=START_TIMEOUT_MS,
    )
    page.wait_for_function("document.querySelector('#looks tr[data-series=\"End-to-end latency: median (ms)\"]')")
    page.screenshot(path=tmp_path / "queues.png")
    page.get_by_role("tab", name="Statistics").click()

    stop(page)
    page.get_by_text(re.compile("^stopped$")).first.wait_for()
    shown = requests(page)

    page.get_by_role("button", name="New").click()
    page.locator("form [name=dialogRatio]").last.wait_for()
    fill(page, initiators=2, threads=2, dialogRatio=7, payloadBytes=4000)
    start(page)
    page.get_by_text("2 initiators × 2 threads, every 7th dialog, 4,000 bytes").wait_for(timeout=START_TIMEOUT_MS)
    wait_for_rising_requests(page, shown)
    page.screenshot(path=tmp_path / "again.png")
    stop(page)


@pytest.mark.thorough
def test_messages_with_sizes_of_their_own_are_sent_with_their_mean_in_the_form(page: Any, tmp_path: Path) -> None:
    workload = shutil.copytree(FOLDER / "fan-in", tmp_path / "orders")
    with (workload / "workload.toml").open("a", encoding="utf-8") as file:
        file.write("\n[body]\nsize = {uniform = [200, 1000]}\n")
    with serving("--workload", str(workload), "--initiators", "1") as address:
        page.goto(address)
        payload = page.locator("form [name=payloadBytes]").last
        payload.wait_for()
        assert not payload.is_editable()
        assert page.locator("form [name=threads]").last.is_editable()
        assert payload.input_value() == "600"
        assert payload.evaluate("field => [...field.list.options].map(o => o.value)") == ["600"]
        page.get_by_text("embedded lab, workload orders").first.wait_for()
        fill(page, threads=2, dialogRatio=1)
        start(page)
        page.get_by_text("1 initiator × 2 threads, every dialog, 600 bytes on average").wait_for(
            timeout=START_TIMEOUT_MS
        )
        wait_for_rising_requests(page)
        page.screenshot(path=tmp_path / "own.png")
        stop(page)
