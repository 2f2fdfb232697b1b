"""The page of `harness matrix --web` in headless Chromium: what is drawn agrees with the journal."""

import threading
import time
from pathlib import Path
from typing import Any

import pytest

from harness.definitions.lab_kinds import EMBEDDED
from harness.files import journal
from harness.load.pages import sweep
from harness.load.pages.sweep import SweepPage
from harness.output.reporting import Reporter
from tests.processes import free_port

pytestmark = pytest.mark.process

RATES = {(threads, ratio): 100.0 * threads + ratio for threads in (1, 10) for ratio in (1, 150)}
REFERENCE = Path(__file__).parents[2] / "results" / "reference" / "simulated" / "figures" / "figure-5-gain.png"


def name_of(threads: int, ratio: int) -> str:
    return f"i1-t{threads}-r{ratio}-p100-v2008"


def show_instances(page: Any, reporter: SweepPage) -> None:
    """Each tab draws what the run has sampled and recorded, with a marker where the cell's load began."""
    reporter.phase("i1-t50-r1-p100-v2008 (block 2): settle")
    now_ns = time.time_ns()
    for second in range(4):
        at_ns = now_ns + second * 1_000_000_000
        depths = [("queue_depth", "Q", 10.0 * second), ("queue_monitor", "Q\\NOTIFIED", 0.0)]
        reporter.sampled("target", at_ns, depths)
        reporter.sampled("initiator-1", at_ns, [("transmission_queue_depth", "", 2.0)])
    waits = {"instance": ["target"], "wait_type": ["WRITELOG"], "wait_time_ms": [500]}
    reporter.recorded({"waits": waits}, range(now_ns, now_ns + 2_000_000_000))
    for tab, row, highest in (
        ("Queues", "Messages in queues: target's queue (messages)", "30"),
        ("Waits", "Waits of the target: WRITELOG (ms waited/s)", "250"),
    ):
        page.click(f"[role=tab]:has-text('{tab}')")
        page.wait_for_selector(f'#looks [data-series="{row}"]')
        assert page.inner_text(f'#looks [data-series="{row}"] td:last-child') == highest
        assert page.is_hidden("main")
    assert page.get_attribute("#looks .run", "data-run") == "i1-t50-r1-p100-v2008 (block 2)"
    page.click("[role=tab]:has-text('Monitors')")
    page.wait_for_selector("#looks rect[data-state=NOTIFIED]")
    page.click("[role=tab]:has-text('Sweep')")
    page.wait_for_selector("#looks", state="detached")
    assert page.is_visible("main")


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_page_shows_each_cell_and_figure_and_how_the_sweep_ended(tmp_path: Path, scheme: str, browser: Any) -> None:
    port = free_port()
    with sweep.serving(Reporter(), port) as reporter:
        page = browser.new_context(color_scheme=scheme).new_page()
        wrong: list[str] = []
        page.on("pageerror", lambda error: wrong.append(str(error)))
        page.goto(f"http://127.0.0.1:{port}/")
        page.wait_for_function("document.getElementById('stage').textContent === 'preparing'")
        cells = [name_of(*cell) for cell in RATES]
        reporter.sweep(tmp_path, [*cells, "i1-t50-r1-p100-v2008"], EMBEDDED)
        reporter.begin(5, 0)
        kept = journal.Journal(tmp_path / journal.NAME)
        for number, (cell, rate) in enumerate(RATES.items(), start=1):
            entry = journal.Entry(
                *(name_of(*cell), 1, "completed", "", "2026-01-01T00:00:00", number),
                **{"sent_per_s": rate, "processed_per_s": rate, "state": "valid"},
            )
            kept.append(entry)
            reporter.cell_done(number, entry.cell, "completed", "")
        reporter.phase("i1-t50-r1-p100-v2008: settle")
        page.wait_for_function("document.querySelectorAll('#cells tr').length === 5")
        page.wait_for_function(
            "words => document.getElementById('lab-banner').textContent === words", arg=EMBEDDED.whose_numbers
        )
        rows = page.eval_on_selector_all("#cells tr", "rows => rows.map(row => [...row.cells].map(c => c.textContent))")
        assert {row[0]: float(row[5].replace(",", "")) for row in rows[1:]} == {
            name_of(*cell): rate for cell, rate in RATES.items()
        }
        words = page.eval_on_selector_all(".point title", "titles => titles.map(title => title.textContent)")
        assert len(words) == len(RATES) + 2  # and two gains
        assert f"{name_of(1, 150)}: {250 / 101:.2f} times the rate of {name_of(1, 1)}" in words
        assert "now: i1-t50-r1-p100-v2008" in page.inner_text("#coming")
        assert page.inner_text("#to-do").startswith("1")
        dark = "getComputedStyle(document.body).backgroundColor"
        assert page.evaluate(dark) == ("rgb(39, 39, 42)" if scheme == "dark" else "rgb(255, 255, 255)")
        (tmp_path / "figures").mkdir()
        (tmp_path / "figures" / "gain.png").write_bytes(REFERENCE.read_bytes())
        ending = threading.Thread(target=reporter.finish, args=("done",))
        ending.start()
        page.wait_for_function("document.getElementById('title').textContent === 'Sweep: done'")
        page.wait_for_function("document.querySelector('#figures img').naturalWidth > 0")
        ending.join()
        show_instances(page, reporter)
        page.set_viewport_size({"width": 400, "height": 900})
        assert page.evaluate("document.documentElement.scrollWidth") <= 400
        assert wrong == []
        page.context.close()
