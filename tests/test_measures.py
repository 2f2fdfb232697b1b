"""The quantities of an attempt, from literal records."""

import random
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.definitions.measures import COLUMNS_READ, Distribution, Measures

S, US = 1_000_000_000, 1_000
ATTEMPT = {
    "measured_from_ns": 1 * S,
    "measured_to_ns": 3 * S,
    "stopped_at_ns": 3 * S,
    "drained_at_ns": 7 * S,
    "rate_per_s": 0.0,
    "due_calls": 0,
    "missed_calls": 0,
}


def measured(
    *, attempt: dict[str, Any] = ATTEMPT, in_batch: bool = False, parts: int = 1, **records: list[tuple[int, int]]
) -> Measures:
    """Measure records of two columns, by kind, each in so many parts."""
    found = Measures(attempt, in_batch=in_batch)
    for kind, rows in records.items():
        for part in np.array_split(np.array(rows, np.int64), parts):
            found.add(kind, dict(zip(COLUMNS_READ[kind], part.T, strict=True)))
    return found


@pytest.mark.parametrize("parts", [1, 2, 3])
def test_records_add_up_in_whatever_parts_they_are_read(parts: int) -> None:
    found = measured(
        parts=parts,
        calls=[(1 * S, 9 * US), (2 * S, 8 * US), (2 * S, 7 * US)],
        deliveries=[(1 * S, 2 * S), (2 * S, 2 * S)],
        receives=[(1 * S, 1), (2 * S, 4), (2 * S, 2)],
    )
    assert (found.calls, found.processed, found.receives, found.received) == (3, 2, 3, 7)
    assert (found.latencies.longest_us, found.end_to_end.longest_us) == (9, 1_000_000)


def test_tables_have_rates_of_two_digits() -> None:
    columns = measured(attempt=ATTEMPT | {"measured_to_ns": 4 * S}, calls=[(2 * S, US)], deliveries=[(2 * S, 3 * S)])
    rates = {name: value for name, value in columns.columns().items() if name.endswith("_s")}
    assert rates == {"measured_s": 3.0, "sent_per_s": 0.33, "processed_per_s": 0.33}


def test_a_call_belongs_to_the_window_in_which_it_returns() -> None:
    calls = [
        (1 * S - 5 * US, 4 * US),  # returns before the window
        (1 * S - 5 * US, 5 * US),  # returns with its first nanosecond
        (2 * S, 7 * US),
        (3 * S - 5 * US, 6 * US),  # returns when the window is over
    ]
    found = measured(calls=calls)
    assert (found.calls, found.sent_per_s, found.latencies.longest_us) == (2, 1.0, 7.0)


def test_the_latency_of_an_open_loop_is_that_of_the_calls_due_in_the_window() -> None:
    calls = [
        (1 * S - 1, 500 * US),  # due before the window
        (2 * S, 7 * US),
        (3 * S - 1, 2 * S),  # returns long after it
    ]
    found = measured(attempt=ATTEMPT | {"rate_per_s": 2.0}, calls=calls * 10)
    assert found.columns()["latency_us_p50"] == (7 + 2_000_000) / 2
    assert (found.calls, found.latencies.longest_us) == (20, 2_000_000)


def test_a_call_of_an_open_loop_that_was_never_made_waited_until_the_clients_stopped() -> None:
    attempt = ATTEMPT | {"rate_per_s": 20.0, "due_calls": 40, "missed_calls": 10, "stopped_at_ns": 4 * S}
    found = measured(attempt=attempt, calls=[(1 * S + n * S // 20, 7 * US) for n in range(30)])
    assert (found.calls, found.columns()["latency_us_p50"]) == (30, 7)
    assert found.latencies.longest_us == 1_500_000  # due 0.5 s before the end of the window
    assert found.latencies.quantile_us(0.75) == pytest.approx(7 + 0.25 * (1_050_000 - 7))


def test_a_message_is_processed_when_it_is_stored_and_the_end_of_its_dialog_is_no_message() -> None:
    found = measured(
        deliveries=[(0, 1 * S - 1), (0, 1 * S), (0, 2 * S), (0, 3 * S)],
        receives=[(1 * S, 2), (2 * S, 2), (3 * S, 4)],  # each message and its EndDialog
    )
    assert (found.processed, found.processed_per_s) == (2, 1.0)
    assert (found.receives, found.received) == (2, 4)


def test_messages_that_are_counted_have_a_rate_and_no_receives() -> None:
    found = measured(processed=[(1 * S - 1, 99), (2 * S, 30), (3 * S, 5)])
    assert (found.processed_per_s, found.receives) == (15.0, None)


def test_a_target_that_received_nothing_in_the_window_processed_zero() -> None:
    found = measured(deliveries=[(2 * S, 5 * S)], receives=[(5 * S, 1)])
    assert (found.processed, found.receives) == (0, 0)


def test_a_batch_is_received_from_the_end_of_the_clients_until_all_is_drained() -> None:
    found = measured(in_batch=True, deliveries=[(2 * S, 2 * S), (2 * S, 4 * S)], receives=[(2 * S, 1), (4 * S, 8)])
    assert (found.processed_per_s, found.receives, found.received) == (0.25, 1, 8)


def test_end_to_end_is_of_messages_sent_in_the_window_and_keeps_negatives() -> None:
    deliveries = [
        (1 * S - 1, 2 * S),
        (2 * S, 2 * S - 10 * US),  # the target's clock is behind
        (2 * S, 2 * S + 30 * US),
        (3 * S - 1, 3 * S - 1 + 50 * US),  # processed after the window
    ]
    found = measured(deliveries=deliveries * 10)
    assert found.columns()["end_to_end_us_p50"] == 30
    assert (found.end_to_end.negative, found.end_to_end.longest_us) == (10, 50)
    assert measured(deliveries=deliveries[:1]).end_to_end.negative is None


@pytest.mark.parametrize(
    "values, expected",
    [
        (19, [None, None, None]),
        (20, [10.5, None, None]),
        (199, [100, None, None]),
        (200, [100.5, 190.05, None]),
        (999, [500, 949.1, None]),
        (1000, [500.5, 950.05, 990.01]),
    ],
)
def test_a_percentile_needs_ten_values_beyond_it(values: int, expected: list[float | None]) -> None:
    assert (
        list(measured(calls=[(2 * S, us * US) for us in range(1, values + 1)]).latencies.columns("").values())
        == expected
    )


@given(
    st.lists(
        st.integers(-3 * S, 3 * S) | st.sampled_from((-1500, -500, -499, 499, 500, 1500)), min_size=1, max_size=50
    ),
    st.integers(1, 9),
)
def test_percentiles_are_those_of_all_values_whatever_their_range_and_their_batches(
    drawn: list[int], parts: int
) -> None:
    values = np.array(random.Random(parts).choices(drawn, k=1200), np.int64)
    found = Distribution()
    for batch in np.array_split(values, parts):
        found.add(batch)
    whole_us = [(abs(ns) + 500) // 1000 * (1 if ns > 0 else -1) for ns in values.tolist()]
    expected = np.quantile(whole_us, (0.5, 0.95, 0.99))
    assert list(found.columns("").values()) == pytest.approx(expected.tolist(), abs=0.0006)
    assert (found.negative, found.longest_us) == ((values < 0).sum(), values.max() / 1000)
