"""`report.html` in headless Chromium, on a wide and on a narrow screen: one file, tables that sort and filter by the
keyboard, figures that enlarge, sections that a link unfolds, light and dark."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from matplotlib.figure import Figure

from harness import claims
from harness.figures import report
from harness.figures.reduced_run import read
from tests.results_fixture import quick_cells, write_reduced
from tests.thorough import one_of_each

pytestmark = pytest.mark.process

WIDTHS = one_of_each((400, 1300, 900), lambda pixels: pixels < 600)


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("report")
    reduced = write_reduced(folder / "run", quick_cells(), shape="paper")
    cells = pd.read_parquet(reduced / "reduced" / "cells.parquet")
    cells.loc[0, ["state", "state_reason"]] = ("behind", "the target processed 33% of what was sent")
    cells.loc[1, ["state", "state_reason"]] = ("unsettled", "queue readers went from 1 to 2")
    cells.to_parquet(reduced / "reduced" / "cells.parquet")
    run = read(reduced)
    drawn = folder / "a-figure.svg"
    Figure(figsize=(9, 5)).savefig(drawn)
    return report.write(run, [drawn], claims.evaluate(run, lab=run.lab, hardware=run.hardware))


@pytest.fixture(params=WIDTHS)
def page(browser: Any, path: Path, request: pytest.FixtureRequest) -> Iterator[Any]:
    page = browser.new_page(viewport={"width": request.param, "height": 900})
    asked, failed = list[str](), list[str]()
    page.on("request", lambda request: asked.append(request.url))
    page.on("pageerror", lambda error: failed.append(str(error)))
    page.goto(path.as_uri())
    page.evaluate("document.querySelectorAll('details').forEach(folded => { folded.open = true; })")
    yield page
    page.close()
    assert not failed
    assert all(url == path.as_uri() or url.startswith("data:") for url in asked), "the page needs no other file"


def test_a_claim_and_its_verdict_are_on_the_screen_without_scrolling_aside(page: Any) -> None:
    width = page.viewport_size["width"]
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    rows = page.locator("table.claims tbody tr")
    for row in rows.all():
        statement, verdict = row.locator("td").first.bounding_box(), row.locator("td").last.bounding_box()
        assert statement["width"] >= 250
        assert verdict["x"] >= 0 and verdict["x"] + verdict["width"] <= width
    assert rows.count() > 30


def test_the_headline_numbers_are_on_the_screen_without_scrolling_aside(page: Any) -> None:
    box = page.locator("table.headlines").locator("xpath=..")
    assert box.evaluate("box => box.scrollWidth <= box.clientWidth")
    width = page.viewport_size["width"]
    numbers = page.locator("table.headlines tbody td")
    boxes = [number.bounding_box() for number in numbers.all()]
    assert len(boxes) > 10 and all(box["x"] >= 0 and box["x"] + box["width"] <= width for box in boxes)


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", WIDTHS)
def test_the_answer_and_a_figure_are_on_the_first_screen_and_the_rest_is_folded(
    browser: Any, path: Path, width: int, scheme: str
) -> None:
    page = browser.new_page(viewport={"width": width, "height": 900}, color_scheme=scheme)
    page.goto(path.as_uri())
    answer, figure = page.locator(".answer").bounding_box(), page.locator("figure img").bounding_box()
    assert answer["y"] < figure["y"] and figure["y"] + figure["height"] <= 900
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    claims_table = page.locator("table.claims")
    assert not claims_table.is_visible()
    page.locator("nav a", has_text="Claims").click()
    claims_table.wait_for(state="visible")
    ink, back = (page.evaluate(f"getComputedStyle(document.body).{name}") for name in ("color", "backgroundColor"))
    assert (_brightness(ink) > _brightness(back)) == (scheme == "dark")
    page.close()


def _brightness(color: str) -> int:
    return sum(map(int, re.findall(r"\d+", color)[:3]))


def test_cells_that_do_not_count_are_sorted_and_filtered(page: Any) -> None:
    page.locator("#invalid th button", has_text="reason").press("Enter")
    reasons = page.locator("#invalid tbody td:last-child")
    assert reasons.all_inner_texts() == ["queue readers went from 1 to 2", "the target processed 33% of what was sent"]
    page.locator("#invalid").get_by_label("Show only cells with").fill("behind")
    assert [row.inner_text() for row in reasons.all() if row.is_visible()] == [
        "the target processed 33% of what was sent"
    ]


def test_a_table_is_sorted_by_the_keyboard(page: Any) -> None:
    head = page.locator("table.claims th", has_text="verdict")

    def verdicts() -> list[str]:
        return [str(text) for text in page.locator("table.claims tbody td:last-child").all_inner_texts()]

    before = verdicts()
    head.locator("button").focus()
    page.keyboard.press("Enter")
    assert head.get_attribute("aria-sort") == "ascending"
    assert verdicts() == sorted(before) != before
    page.keyboard.press("Enter")
    assert head.get_attribute("aria-sort") == "descending"
    assert verdicts() == sorted(before, reverse=True)


def test_numbers_are_sorted_by_their_value(page: Any) -> None:
    page.locator("#cells th button", has_text="processed/s").press("Enter")
    rates = [float(text.replace(",", "")) for text in page.locator("#cells tbody td:nth-child(4)").all_inner_texts()]
    assert rates == sorted(rates) and len(rates) == len(quick_cells())


def test_only_rows_with_all_words_stay(page: Any) -> None:
    rows = page.locator("table.claims tbody tr")
    whole = rows.count()
    page.get_by_label("Show only claims with").fill("holds initiator")
    left = [row.inner_text().lower() for row in rows.all() if row.is_visible()]
    assert 0 < len(left) < whole and all("holds" in text and "initiator" in text for text in left)
    page.get_by_label("Show only claims with").fill("")
    assert all(row.is_visible() for row in rows.all())


def test_a_figure_is_enlarged_and_closed_by_the_keyboard(page: Any) -> None:
    small = page.locator("figure img").bounding_box()
    page.locator("figure button").press("Enter")
    large = page.locator("dialog img")
    assert large.bounding_box()["width"] > 1.15 * small["width"]
    page.keyboard.press("Escape")
    assert not large.is_visible()
