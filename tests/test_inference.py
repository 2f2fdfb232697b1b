"""Intervals, verdicts and the smallest visible difference, against numbers of the literature and against chance."""

import math

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from harness.definitions import inference
from harness.definitions.variances import Spread, Variances

LOGS = st.lists(st.integers(-2000, 2000).map(lambda thousandth: thousandth / 1000), min_size=3, max_size=12)


def test_the_interval_of_a_ratio_is_the_t_interval_of_its_logarithms():
    interval = inference.interval_of_ratio(np.log([1.1, 1.2, 1.3]))
    assert interval.ratio == pytest.approx((1.1 * 1.2 * 1.3) ** (1 / 3))
    half = 4.302653 * np.log([1.1, 1.2, 1.3]).std(ddof=1) / math.sqrt(3)  # t of 2 degrees of freedom, from a table
    assert interval.high == pytest.approx(interval.ratio * math.exp(half), rel=1e-6)
    assert interval.low == pytest.approx(interval.ratio / math.exp(half), rel=1e-6)
    assert interval.blocks == 3


@pytest.mark.parametrize("logs", [[0.2], [0.1, 0.3]])
def test_fewer_than_three_blocks_have_a_ratio_and_no_interval(logs):
    assert inference.interval_of_ratio(logs) == inference.Interval(
        pytest.approx(math.exp(0.2)), None, None, len(logs), None
    )
    assert inference.interval_between([0.0] * 5, logs) == inference.Interval(
        pytest.approx(math.exp(0.2)), None, None, len(logs), None
    )


@pytest.mark.parametrize("logs", [[], [0.1, math.nan, 0.2], [0.1, 0.2, -math.inf]])
def test_an_interval_of_nothing_or_of_a_rate_of_zero_is_refused(logs):
    with pytest.raises(ValueError, match="at least one block"):
        inference.interval_of_ratio(logs)
    with pytest.raises(ValueError, match="at least one block"):
        inference.interval_between([0.1, 0.2, 0.3], logs)


@pytest.mark.parametrize(("log", "p_value"), [(0.0, 1.0), (0.3, 0.0)])
def test_numbers_that_repeat_exactly_have_an_interval_without_width(log, p_value):
    exact = inference.Interval(math.exp(log), math.exp(log), math.exp(log), 4, p_value)
    assert inference.interval_of_ratio([log] * 4) == exact
    assert inference.interval_between([1.0] * 4, [1.0 + log] * 5) == inference.Interval(
        *(pytest.approx(math.exp(log)),) * 3, 4, p_value
    )


def test_what_differs_between_runs_as_wholes_widens_the_interval_as_satterthwaite_says():
    a, b = np.log([1.0, 1.1, 1.2]), np.log([1.3, 1.2, 1.4])
    assert inference.interval_between(a, b, between=Spread(0.0, 5)) == inference.interval_between(a, b)
    tiny, welch = inference.interval_between(a, b, between=Spread(1e-12, 5)), inference.interval_between(a, b)
    assert (tiny.low, tiny.high, tiny.p_value) == pytest.approx((welch.low, welch.high, welch.p_value))
    huge = inference.interval_between(a, b, between=Spread(100.0, 5))
    assert math.log(huge.high / huge.ratio) == pytest.approx(2.570582 * 10, rel=1e-3)  # t of 5 degrees, from a table


@given(LOGS, LOGS)
def test_turning_a_comparison_round_turns_its_interval_round(a, b):
    ahead, back = inference.interval_between(a, b), inference.interval_between(b, a)
    assert ahead.ratio == pytest.approx(1 / back.ratio)
    assert ahead.low == pytest.approx(1 / back.high) and ahead.high == pytest.approx(1 / back.low)
    assert ahead.low <= ahead.ratio * (1 + 1e-9) and ahead.ratio <= ahead.high * (1 + 1e-9)


@given(LOGS)
def test_the_p_value_is_below_a_twentieth_where_the_interval_has_no_one(logs):
    interval = inference.interval_of_ratio(logs)
    assert (interval.p_value < 0.05) == (not interval.low <= 1 <= interval.high)


def test_intervals_of_equal_sides_exclude_no_difference_in_a_twentieth():
    random = np.random.default_rng(1)
    paired = [inference.interval_of_ratio(random.normal(0, 0.1, 4)).p_value for _ in range(600)]
    # Sides of different spread and length, for which a pooled variance would fail.
    apart = [
        inference.interval_between(random.normal(0, 0.05, 8), random.normal(0, 0.2, 4)).p_value for _ in range(600)
    ]
    for p_values in (paired, apart):
        assert 0.03 < np.mean(np.array(p_values) < 0.05) < 0.07


def test_p_values_are_adjusted_as_in_the_paper_of_benjamini_and_hochberg():
    # Its example: 15 comparisons, of which the four smallest are discoveries at 5 %.
    example = [1e-4, 4e-4, 0.0019, 0.0095, 0.0201, 0.0278, 0.0298, 0.0344, 0.0459, 0.324, 0.4262, 0.5719, 0.6528]
    adjusted = inference.benjamini_hochberg([*example, 0.759, 1.0])
    assert [each < 0.05 for each in adjusted] == [True] * 4 + [False] * 11


def test_a_comparison_without_interval_does_not_count_among_the_others():
    assert inference.benjamini_hochberg([None, 0.04, None]) == [None, pytest.approx(0.04), None]
    assert inference.benjamini_hochberg([None]) == [None]


@pytest.mark.parametrize(
    ("ratio", "low", "high", "p_value", "expected"),
    [
        (1.10, 1.02, 1.19, 0.02, "faster"),
        (0.90, 0.84, 0.97, 0.01, "slower"),
        (1.00, 0.96, 1.04, 0.90, "same within 5 %"),
        (1.03, 1.02, 1.04, 0.001, "same within 5 %"),  # surely faster, and surely by less than the threshold
        (1.04, 1.01, 1.07, 0.02, "cannot tell"),  # surely faster; perhaps by more, perhaps by less
        (1.30, 0.90, 1.90, 0.12, "cannot tell"),  # by much more, if it is
        (0.93, 0.80, 1.08, 0.30, "cannot tell"),
        (1.30, None, None, None, "cannot tell"),
    ],
)
def test_a_verdict_needs_threshold_and_interval(ratio, low, high, p_value, expected):
    assert str(inference.verdict(inference.Interval(ratio, low, high, 5, p_value), 0.05)) == expected


def test_one_of_many_comparisons_needs_more_than_its_own_interval():
    lucky = inference.Interval(1.2, 1.01, 1.43, 5, 0.04)
    others = [inference.Interval(1.0, 0.7, 1.4, 5, 0.9)] * 9
    assert inference.verdict(lucky, 0.05).difference is inference.Difference.FASTER
    assert inference.verdicts([lucky, *others], 0.05)[0].difference is inference.Difference.UNKNOWN


def test_families_of_comparisons_share_the_level():
    one = [inference.Interval(0.8, 0.66, 0.98, 5, 0.03)]
    assert inference.verdicts(one, 0.05)[0].difference is inference.Difference.SLOWER
    assert inference.verdicts(one, 0.05, families=2)[0].difference is inference.Difference.UNKNOWN


def rows(*blocks):
    """One row per member and block, of texts such as `a1 b3`: a member and its value."""
    return pd.DataFrame(
        [
            {"block": block, "cell": text[0], "log": float(text[1:])}
            for block, texts in enumerate(blocks, 1)
            for text in texts.split()
        ]
    )


def test_a_block_counts_once_however_many_cells_it_has():
    assert inference.block_means(rows("a1 b3", "a2 b4", "a3 b8"), ["cell"], "log").tolist() == [2, 3, 5.5]


def test_a_cell_that_a_block_lacks_does_not_move_it():
    # Without care the second block would be 1, because the fast cell is missing.
    assert inference.block_means(rows("a1 b9", "a1", "a1 b9", "a1 b9"), ["cell"], "log").tolist() == [5, 5, 5, 5]


def test_a_cell_of_one_block_is_left_out_where_others_have_three():
    assert inference.block_means(inference.repeated(rows("a1 b9", "a2", "a3"), ["cell"]), ["cell"], "log").tolist() == [
        1,
        2,
        3,
    ]
    assert inference.block_means(inference.repeated(rows("a1 b9"), ["cell"]), ["cell"], "log").tolist() == [5]


def test_points_side_by_side_are_corrected_together():
    table = rows("a.31 b.1 c.7", "a.30 b-.1 c.8", "a.29 b.02").assign(version="2022")
    points = inference.intervals(table, ["cell"], ["version"], "log").set_index("cell")
    assert points.differs.to_dict() == {"a": True, "b": False, "c": False}
    assert points.ratio.a == pytest.approx(math.exp(0.3))
    assert points.loc["c"].isna().to_dict() == {
        "ratio": False, "low": True, "high": True, "blocks": False, "p_value": True, "differs": False
    }  # fmt: skip


@pytest.mark.parametrize(("blocks", "noise"), [(3, 0.1), (5, 0.05), (10, 0.15)])
def test_the_smallest_visible_difference_is_seen_in_eight_of_ten_experiments(blocks, noise):
    gain = inference.smallest_visible_difference(blocks, noise)
    random = np.random.default_rng(blocks)
    experiments = random.normal(math.log(1 + gain), noise, (400, blocks))
    assert 0.76 < np.mean([inference.interval_of_ratio(each).low > 1 for each in experiments]) < 0.84


def test_the_smallest_visible_difference_shrinks_with_repeats_and_grows_with_noise():
    assert [inference.smallest_visible_difference(blocks, 0.1) for blocks in (1, 2)] == [None, None]
    assert inference.smallest_visible_difference(3, 0.0) == 0
    seen = [inference.smallest_visible_difference(blocks, 0.1) for blocks in (3, 5, 10, 100)]
    assert seen[:3] == sorted(seen[:3], reverse=True) and seen[-1] < seen[2]
    assert inference.smallest_visible_difference(5, 0.2) > inference.smallest_visible_difference(5, 0.1)


def test_noise_is_that_inside_pairs_and_not_that_between_them():
    table = rows("a1 b5 c9", "a1.2 b5.4", "a0.8 b4.6")
    assert inference.noise_of_pairs(table, ["cell"], "log") == pytest.approx(math.sqrt((0.08 + 0.32) / 4))
    assert inference.noise_of_pairs(rows("a1 b5"), ["cell"], "log") is None


def test_the_interval_of_a_mean_is_the_t_interval_of_its_blocks_and_may_reach_below_zero():
    found = inference.interval_of_mean([1.0, 2.0, 6.0])
    half = 4.302653 * math.sqrt(7 / 3)  # t of 2 degrees of freedom, from a table
    assert (found.mean, found.low, found.high) == pytest.approx((3, 3 - half, 3 + half))
    assert found.low is not None and found.low < 0
    two = inference.interval_of_mean([0.0, 4.0])
    assert (two.mean, two.low, two.high, two.blocks) == (2, None, None, 2)
    same = inference.interval_of_mean([0.1 + 0.2, 0.3, 0.3])
    assert same.low == same.mean == same.high
    with pytest.raises(ValueError, match="finite"):
        inference.interval_of_mean([1.0, math.nan])


def test_the_smallest_visible_slowdown_between_two_runs_is_that_of_runs_alone_with_many_blocks():
    twins = Variances(run=0.03, cell=0.0, block=0.05, rest=0.1, runs=6)
    seen = [inference.smallest_visible_slowdown(blocks, 6, twins, 3) for blocks in (3, 5, 10, math.inf)]
    assert seen[:3] == sorted(seen[:3], reverse=True) and seen[-1] < seen[2]
    errors = stats.t.ppf(1 - 0.05 / 6, 5) + stats.t.ppf(0.8, 5)
    assert seen[-1] == pytest.approx(1 - math.exp(-errors * 0.03 * math.sqrt(2)))
    assert inference.smallest_visible_slowdown(3, 6, Variances(0.0, 0.0, 0.0, 0.0, 6), 3) == 0.0


@pytest.mark.parametrize(("run", "blocks"), [(0.0, 8), (0.03, 8), (0.06, 20)])
def test_a_slowdown_between_two_runs_that_is_called_visible_is_found_in_eight_of_ten(run, blocks):
    twins, random = Variances(run, 0.0, 0.05, 0.0, 6), np.random.default_rng(3)
    slowdown = np.log1p(-inference.smallest_visible_slowdown(blocks, 1, twins, 1))
    found = []
    for _ in range(1000):
        a, b = (random.normal(random.normal(0, run), 0.05, blocks) for _ in range(2))
        known = 2 * random.normal(0, run, 6).var(ddof=1)  # as the twins of that time told
        interval = inference.interval_between(a, b + slowdown, between=Spread(known, 5))
        found.append(interval.high < 1)
    assert 0.74 < np.mean(found) < 0.84
