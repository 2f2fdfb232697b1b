import itertools
import math

import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from matplotlib import style
from matplotlib.colors import to_rgb
from matplotlib.figure import Figure

from harness.definitions.matrix import PAYLOADS_BYTES
from harness.definitions.whitepaper import GAIN_MAX_PERCENT
from harness.figures.build import STYLE
from harness.figures.gain import GAIN_SCALE, comparison_scale
from harness.figures.parts import log_value_axis, payload_name, payload_style, percent, spread_apart, versions_note
from harness.figures.reduced_run import Missing
from harness.figures.throughput import busiest


@given(st.lists(st.floats(-1000, 1000), max_size=8), st.floats(1, 20))
def test_spread_positions_keep_their_order_and_their_distance(positions, gap):
    placed = spread_apart(positions, gap)
    ordered = sorted(range(len(positions)), key=lambda place: positions[place])
    for below, above in itertools.pairwise(ordered):
        assert placed[above] - placed[below] >= gap - 1e-6


@given(st.lists(st.integers(0, 10), unique=True, max_size=6))
def test_positions_that_are_far_apart_do_not_move(places):
    positions = [100.0 * place for place in places]
    assert spread_apart(positions, 50) == pytest.approx(positions)


@given(st.floats(1e-3, 1e6), st.floats(1, 1e4))
def test_a_logarithmic_axis_has_three_to_twelve_different_numbers(lowest, factor):
    ax = Figure().subplots()
    log_value_axis(ax, lowest, lowest * factor)
    ticks = ax.yaxis.get_majorticklocs()
    written = [ax.yaxis.get_major_formatter()(tick) for tick in ticks]
    assert 3 <= len(set(written)) == len(written) <= 12
    assert not any("e" in number for number in written), "1,000 is not 1e+03"
    low, high = ax.get_ylim()
    assert all(low <= tick <= high for tick in ticks)


def test_payloads_stay_apart_in_grey_by_marker_and_by_line():
    with style.context(STYLE):
        styles = [payload_style(payload) for payload in PAYLOADS_BYTES]
    greys = [
        sum(part * weight for part, weight in zip(to_rgb(each["color"]), (0.299, 0.587, 0.114), strict=True))
        for each in styles
    ]
    assert greys == sorted(greys)
    assert min(above - below for below, above in itertools.pairwise(greys)) > 0.05
    assert (
        len({each["marker"] for each in styles}) == len({each["linestyle"] for each in styles}) == len(PAYLOADS_BYTES)
    )


@pytest.mark.parametrize("payload, name", [(100, "100 bytes"), (1024, "1 KB"), (8192, "8 KB")])
def test_payloads_are_named_as_in_the_paper(payload, name):
    assert payload_name(payload, pd.DataFrame()) == name


@pytest.mark.parametrize(
    "value, text", [(0.2, "0 %"), (-0.4, "0 %"), (12.6, "+13 %"), (-7.0, "−7 %"), (1234, "+1,234 %")]
)
def test_percentages_carry_their_sign_and_zero_has_none(value, text):
    assert percent(value) == text


def test_colours_are_as_strong_for_a_half_as_for_a_double_and_pale_for_noise():
    for ratios, largest in (([0.97, 1.05], 1.4), ([0.22, 21.03], 21.03), ([0.02, 1.5], 50)):
        scale = comparison_scale(pd.Series(ratios))
        assert (scale(math.log(0.5)) + scale(math.log(2))) == pytest.approx(1)
        assert (scale(-math.log(largest)), scale(math.log(largest))) == (pytest.approx(0), pytest.approx(1))


def test_the_papers_largest_gain_is_on_the_scale_of_the_gain_map():
    assert 0.9 < GAIN_SCALE(math.log(1 + GAIN_MAX_PERCENT.value / 100)) < 1


def points(*rows):
    return pd.DataFrame(rows, columns=["server_version", "threads", "payload_bytes"])


def test_the_note_on_versions_fits_the_points():
    assert versions_note(points(("2008", 1, 100), ("2008", 2, 100))) == ""
    assert "mean of versions 2005 and 2008" in versions_note(points(("2005", 1, 100), ("2008", 1, 100)))
    assert "of one version, 2005 or 2008" in versions_note(points(("2005", 1, 100), ("2008", 2, 100)))


def test_the_busiest_cell_has_the_deepest_queues_and_two_samples():
    cells = pd.DataFrame(
        {
            "cell_id": ["shallow", "deep", "unseen"],
            "block": 1,
            "queue_depth_peak": [1.0, 50.0, 900.0],
            "transmission_queue_depth_peak": [9.0, None, 0.0],
            "processed_per_s": [5.0, 1.0, 9.0],
        }
    )
    seconds = pd.DataFrame(
        {"cell_id": ["shallow"] * 2 + ["deep"] * 2 + ["unseen"], "block": 1, "queue_depth": [1.0, 1, 50, 2, 900]}
    )
    assert busiest(seconds, cells).cell_id == "deep"
    with pytest.raises(Missing):
        busiest(seconds[seconds.cell_id == "unseen"], cells)
