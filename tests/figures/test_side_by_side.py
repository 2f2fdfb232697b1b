"""The figures that compare the rates of two runs, and their shapes."""

import pandas as pd
import pytest
from matplotlib import style

from harness.figures import side_by_side
from harness.figures.build import STYLE, frame
from harness.figures.parts import Sheet
from harness.figures.reduced_run import Missing

THREADS = (1, 5, 10, 50)


def cells(rates: tuple[float, ...], *, initiators: int = 1, ratio: int = 150, payload: int = 100) -> pd.DataFrame:
    return pd.DataFrame(
        {
            "server_version": "2008",
            "initiators": initiators,
            "threads": THREADS[: len(rates)],
            "dialog_ratio": ratio,
            "payload_bytes": payload,
            "processed_per_s": rates,
            "valid": True,
            "saturated": False,
        }
    )


def drawn(a: pd.DataFrame, b: pd.DataFrame) -> Sheet:
    with style.context(STYLE):
        sheet = side_by_side.shape((a, b), ("a", "b"))
        frame(sheet, "a lab", ["where it comes from"])
    return sheet


def test_runs_of_the_same_shape_and_different_speed_coincide() -> None:
    rates = (100.0, 400.0, 600.0, 800.0)
    sheet = drawn(cells(rates), cells(tuple(10 * rate for rate in rates)))
    (ax,) = sheet.axes
    a, b = (line.get_ydata() for line in ax.get_lines() if len(line.get_xdata()))
    assert list(a) == list(b) == [0.125, 0.5, 0.75, 1.0]
    assert "differ by 0 % of the highest rate at the median of 4 points, by 0 % at most" in sheet.subtitle
    assert "a 800/s, b 8,000/s" in ax.get_title(loc="left")


def test_the_difference_of_the_shapes_is_in_the_subtitle() -> None:
    sheet = drawn(cells((100.0, 400.0, 600.0, 1000.0)), cells((200.0, 500.0, 900.0, 1000.0)))
    assert "differ by 10 % of the highest rate at the median of 4 points, by 30 % at most." in sheet.subtitle


def test_rates_have_intervals_over_the_blocks_of_each_run() -> None:
    once = cells((100.0, 400.0, 600.0, 800.0)).assign(block=1)
    factors = {1: 0.9, 2: 1.0, 3: 1.1}
    often = pd.concat(
        [once.assign(block=block, processed_per_s=once.processed_per_s * factor) for block, factor in factors.items()]
    )
    with style.context(STYLE):
        sheet = side_by_side.throughput((once, once), (often, once), ("a", "b"), 1)
    assert [[bars.has_yerr for bars in ax.containers] for ax in sheet.axes] == [[True], [False]]
    assert "a: Bars: 95 % intervals over 3 blocks." in sheet.subtitle and "b: One run, no interval." in sheet.subtitle
    _, highest = sheet.axes[0].get_ylim()
    assert highest > 800 * 1.2, "the highest interval is inside"


def test_the_payload_has_its_usual_name() -> None:
    run = cells((100.0, 400.0, 600.0, 800.0), payload=4096)
    assert drawn(run, run).subtitle.startswith("4 KB a message.")


def test_there_is_a_panel_per_number_of_initiators_for_the_smallest_payload() -> None:
    rates = (100.0, 400.0, 600.0, 800.0)
    run = pd.concat(
        [cells(rates), cells(rates, initiators=3), cells((9e9,) * 4, payload=8192), cells((1.0,), initiators=2)]
    )
    sheet = drawn(run, run)
    assert [ax.get_title(loc="left").split(";")[0] for ax in sheet.axes] == ["1 initiator", "3 initiators"]
    assert all("800/s" in ax.get_title(loc="left") for ax in sheet.axes)


def test_points_are_hollow_where_a_cell_is_not_valid() -> None:
    a = cells((100.0, 400.0, 600.0, 800.0))
    sheet = drawn(a, a.assign(valid=[True, True, True, False]))
    hollow = [line for line in sheet.axes[0].get_lines() if line.get_markerfacecolor() == "white"]
    assert [list(line.get_xdata()) for line in hollow if len(line.get_xdata())] == [[50]]
    assert "Hollow: does not count (1 of 8; the report says why)." in sheet.subtitle
    texts = [sheet.title, sheet.subtitle, sheet.axes[0].get_title(loc="left"), sheet.axes[0].get_ylabel()]
    assert not any("peak" in text for text in texts), "the highest point is hollow"


def test_two_numbers_of_threads_have_no_shape() -> None:
    two = cells((100.0, 200.0))
    with pytest.raises(Missing, match="no shape to compare"):
        side_by_side.shape((two, two), ("a", "b"))
