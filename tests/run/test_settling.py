from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.definitions.whitepaper import ACTIVATION_PERIOD_S
from harness.observe.observers import TargetProgress
from harness.run.settling import INTERVAL_MAX_S, INTERVAL_MIN_S, SHORTEST_MAX_S, SHORTEST_MIN_S, Settling, shortest_s

SPAN_S = 1.0


def fed(
    sent_per_s: Sequence[float],
    processed_per_s: Sequence[float] | None = None,
    *,
    depths: Sequence[int] = (0,),
    readers: Sequence[int] = (1,),
    span_s: float = SPAN_S,
    is_counted: bool = False,
) -> Settling:
    """A settling with a reading each interval; rates hold from one reading to the next, the last values stay."""
    settling = Settling(2 * span_s)
    sent = processed = 0.0
    interval_s = settling.interval_s
    for number in range(len(sent_per_s) + 1):
        if number:
            sent += sent_per_s[number - 1] * interval_s
            processed += (processed_per_s or sent_per_s)[number - 1] * interval_s
            settling.add_sent(number * interval_s, round(sent))
        depth, count = (values[min(number, len(values) - 1)] for values in (depths, readers))
        progress = TargetProgress(round(processed), depth, count)
        if is_counted:
            progress = TargetProgress(0, depth, count, untransmitted=round(sent - processed) - depth)
        settling.add_target(number * interval_s, progress)
    return settling


def test_an_even_cell_is_steady_once_the_shortest_settling_has_passed() -> None:
    assert fed([1000.0] * 5).unsteady() == ["only 0.5 s had passed"]
    assert fed([1000.0] * 10).unsteady() == []


def test_a_slow_start_is_forgotten() -> None:
    assert fed([100.0] * 5 + [1000.0] * 10).unsteady() == []


def test_a_rising_rate_is_named_with_both_rates() -> None:
    assert fed([1000.0] * 5 + [1500.0] * 5, [1000.0] * 10).unsteady() == [
        "the rate sent went from 1,000 to 1,500 messages/s"
    ]
    assert fed([1000.0] * 10, [1500.0] * 5 + [1000.0] * 5).unsteady() == [
        "the rate processed went from 1,500 to 1,000 messages/s"
    ]


def test_a_processed_rate_that_is_counted_is_judged_by_what_was_sent_and_waits() -> None:
    assert fed([1000.0] * 10, is_counted=True).unsteady() == []
    assert fed([1000.0] * 10, [1000.0] * 5 + [500.0] * 5, is_counted=True).unsteady() == [
        "the rate processed went from 1,000 to 500 messages/s"
    ]


@pytest.mark.parametrize("depths", [[0, 0, 0, 0, 0, 200, 200, 200, 200, 200, 200], [500, 400, 300, 200, 100, 0]])
def test_a_queue_that_grows_or_drains_is_not_steady(depths: list[int]) -> None:
    [found] = fed([1000.0] * 10, depths=depths).unsteady()
    assert found.startswith("the target's queue went from ")


GROWING = [number * 60 for number in range(17)]  # by 600 a second


def test_a_target_cannot_keep_up_if_its_queue_grows_all_the_time() -> None:
    settling = fed([1000.0] * 16, [400.0] * 16, depths=GROWING)
    assert settling.cannot_keep_up() and settling.unsteady()


def test_what_the_queue_does_before_its_first_reader_says_nothing() -> None:
    assert not fed([1000.0] * 14, [400.0] * 14, depths=GROWING).cannot_keep_up()


@pytest.mark.parametrize("depths", [[0] * 12 + [150, 300, 450, 600], [*range(0, 150, 10)]])
def test_a_queue_that_grows_in_one_half_or_little_may_become_steady(depths: list[int]) -> None:
    assert not fed([1000.0] * 16, depths=depths).cannot_keep_up()


def test_a_queue_that_grows_waits_for_a_queue_reader_where_one_can_be_added() -> None:
    assert not fed([1000.0] * 16, [400.0] * 16, depths=GROWING, span_s=ACTIVATION_PERIOD_S).cannot_keep_up()


def test_readers_that_come_or_go_are_not_steady_unless_it_is_one() -> None:
    assert fed([1000.0] * 10, readers=[1] * 9 + [3]).unsteady() == ["the number of queue readers was between 1 and 3"]
    assert fed([1000.0] * 10, readers=[1] * 9 + [2]).unsteady() == []
    assert fed([1000.0] * 20, readers=[3] * 9 + [2]).unsteady() == []


def test_nothing_sent_is_not_steady() -> None:
    assert len(fed([0.0] * 10).unsteady()) == 2


def test_readings_that_say_nothing_new_about_the_clients_are_ignored() -> None:
    settling = fed([1000.0] * 10)
    settling.add_sent(1.0, 0)
    assert settling.unsteady() == []


def test_no_time_to_settle_is_not_steady() -> None:
    assert Settling(0.0).unsteady() == ["the target was not read often enough"]


@given(st.floats(1, 1e6), st.integers(10, 60), st.integers(0, 10_000), st.integers(0, 16))
def test_any_constant_cell_is_steady(per_s: float, readings: int, depth: int, readers: int) -> None:
    found = fed([per_s] * readings, depths=[depth], readers=[readers]).unsteady()
    # Counts are whole: less than two messages in half a second may look like none.
    assert found == [] or per_s < 4


@given(st.floats(1000, 1e6), st.floats(1.12, 10), st.booleans())
def test_a_step_of_more_than_the_tolerance_is_seen(per_s: float, factor: float, is_upwards: bool) -> None:
    low, high = [per_s] * 5, [per_s * factor] * 5
    assert fed(low + high if is_upwards else high + low).unsteady()


@given(st.floats(0, 3600))
def test_the_target_is_read_at_most_once_a_second_in_a_long_settling(longest_s: float) -> None:
    settling = Settling(longest_s)
    assert INTERVAL_MIN_S <= settling.interval_s <= INTERVAL_MAX_S
    assert min(longest_s / 2, SHORTEST_MIN_S) <= shortest_s(longest_s) <= min(longest_s / 2, SHORTEST_MAX_S)
    if longest_s >= 4 * SHORTEST_MAX_S:
        assert settling.interval_s == INTERVAL_MAX_S


def test_the_next_reading_is_due_after_the_interval() -> None:
    settling = Settling(2 * SPAN_S)
    assert settling.is_due(0.0)
    settling.add_target(0.0, TargetProgress(0, 0, 0))
    assert not settling.is_due(0.09)
    assert settling.is_due(0.1)
