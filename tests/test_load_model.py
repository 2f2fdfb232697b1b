"""The schedule of an open loop."""

import itertools
from statistics import mean

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.definitions.load_model import OpenLoop, describe, parse_rate
from harness.files.settings import SettingsError, create, create_simulation

S = 1_000_000_000

open_loops = st.builds(
    OpenLoop, st.floats(0.01, 60_000), st.sampled_from(["constant", "poisson"]), st.integers(0, 2**32 - 1)
)


def first(loop: OpenLoop, count: int, initiator: int = 1, block: int = 1) -> list[int]:
    return list(itertools.islice(loop.starts_ns(initiator, block), count))


@given(open_loops)
def test_intended_starts_ascend_from_the_cells_start_and_are_the_same_every_time(loop: OpenLoop) -> None:
    starts = first(loop, 200)
    assert starts[0] >= 0 and starts == sorted(starts)
    assert starts == first(loop, 200)


@given(open_loops, st.integers(1, 200))
def test_the_sends_due_are_those_whose_intended_start_lies_in_the_window(loop: OpenLoop, number: int) -> None:
    starts = first(loop, 1 + number)
    assert loop.due(1, 1, 0, starts[number]) == sum(at_ns < starts[number] for at_ns in starts)
    middle = starts[number // 2]
    assert loop.due(1, 1, 0, middle) + loop.due(1, 1, middle, starts[number]) == loop.due(1, 1, 0, starts[number])


@given(st.floats(0.01, 60_000), st.integers(0, 1000))
def test_constant_intervals_make_the_rate_within_one_send(rate_per_s: float, seed: int) -> None:
    starts = first(OpenLoop(rate_per_s, "constant", seed), 300)
    assert starts[0] < S / rate_per_s + 1
    assert all(abs(b - a - S / rate_per_s) <= 1 for a, b in itertools.pairwise(starts))


def test_poisson_arrivals_have_exponential_gaps() -> None:
    starts = first(OpenLoop(1000.0, "poisson", 1), 20_000)
    gaps_ms = [(b - a) / 1e6 for a, b in itertools.pairwise(starts)]
    # Mean and deviation of an exponential distribution are equal, and 63 % of it lie below the mean. The bounds are six
    # standard errors and the seed is fixed.
    assert mean(gaps_ms) == pytest.approx(1.0, abs=0.045)
    assert mean((gap - 1) ** 2 for gap in gaps_ms) == pytest.approx(1.0, abs=0.12)
    assert mean(gap < 1 for gap in gaps_ms) == pytest.approx(0.632, abs=0.02)


@pytest.mark.parametrize("arrivals", ["constant", "poisson"])
def test_each_initiator_and_block_has_a_schedule_of_its_own(arrivals: str) -> None:
    loop = OpenLoop(100.0, arrivals, 1)  # type: ignore[arg-type]
    schedules = {tuple(first(loop, 3, initiator, block)) for initiator in (1, 2, 3) for block in (1, 2)}
    assert len(schedules) == 6


@pytest.mark.parametrize("text, rate", [("500/s", 500), ("30/min", 0.5), ("0.5 / s", 0.5), ("7", 7), (7, 7)])
def test_rates_have_units(text: object, rate: float) -> None:
    assert parse_rate(text) == rate


def test_the_load_model_is_named() -> None:
    assert describe(None) == "closed loop"
    assert describe(OpenLoop(1500.0, "constant", 1)) == "open loop, 1,500/s per initiator, constant intervals"
    assert describe(OpenLoop(0.5, "poisson", 1)) == "open loop, 0.5/s per initiator, Poisson arrivals"


BAD = [
    ({"rate": "fast"}, "--rate: invalid rate 'fast': write 500/s or 30/min"),
    ({"rate": "0/s"}, "--rate: '0/s': input should be greater than 0"),
    ({"rate": "1000000/s"}, "--rate: '1000000/s': input should be less than or equal to 60000"),
    ({"rate": "5/s", "arrivals": "posson"}, "--arrivals: 'posson' is not valid; nearest: poisson"),
    (
        {"arrivals": "poisson"},
        "--arrivals: 'poisson': arrivals are those of an open loop: give its rate with --rate as well",
    ),
]


@pytest.mark.parametrize("options, message", BAD)
def test_a_wrong_load_model_is_one_line(options: dict[str, str], message: str) -> None:
    for kind in (create, create_simulation):
        with pytest.raises(SettingsError) as caught:
            kind(options, environment={})
        assert str(caught.value) == message


def test_the_settings_of_a_stored_run_in_the_closed_loop_are_valid() -> None:
    stored = create({}, environment={}).model_dump(mode="json")
    assert create({}, environment={}, defaults=lambda given: stored).open_loop is None
    assert create({"rate": "5/s", "seed": 3}, environment={}).open_loop == OpenLoop(5.0, "constant", 3)
