from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from harness.sweep.settling import Settling, halves_agree


def fed(counts: list[int], *, step_s: float = 0.1, floor_s: float = 0.3, cap_s: float = 2) -> Settling:
    settling = Settling(floor_s, cap_s)
    for number, count in enumerate(counts):
        settling.add(number * step_s, count)
    return settling


def test_an_even_rate_is_steady_after_the_floor() -> None:
    assert fed([0, 10, 20, 30, 40, 50]).is_steady()
    assert not fed([0, 10, 20, 30, 40, 50], floor_s=1).is_steady()


def test_a_rising_rate_is_not_steady_and_ends_at_the_cap() -> None:
    settling = fed([0, 10, 30, 60, 100, 150])
    assert not settling.is_steady()
    assert not settling.is_over(1.9)
    assert settling.is_over(2.0)


def test_a_count_read_twice_is_not_a_pause() -> None:
    settling = Settling(0.3, 2)
    for number in range(12):
        settling.add(number * 0.05, number // 2 * 10)
    assert settling.is_steady()


def test_two_rates_are_not_enough() -> None:
    assert not halves_agree([10.0, 10.0])


@given(st.floats(1, 1e6), st.integers(4, 50))
def test_any_constant_rate_is_steady(rate: float, count: int) -> None:
    assert halves_agree([rate] * count)
