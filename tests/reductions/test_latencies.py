"""Percentiles of latencies, against sorted values."""

import random

import pytest
from pyspark.testing import assertDataFrameEqual

from harness.reductions.cells import completed_attempts
from harness.reductions.message_records import latencies
from tests.reductions import oracle
from tests.reductions.conftest import CELL, COMPLETED, S

pytestmark = pytest.mark.spark

US = 1_000
NAMES = [f"{prefix}_{quantile}" for prefix in ("latency_us", "end_to_end_us") for quantile in ("p50", "p95", "p99")]


def test_the_latency_of_an_open_loop_is_that_of_the_calls_due_in_the_window(raw, summaries):
    attempts = completed_attempts(raw("cells", [COMPLETED | {"rate_per_s": 2.0, "due_calls": 3, "missed_calls": 1}]))
    calls = [
        {"intended_at_ns": 1 * S - 1, "started_at_ns": 1 * S - 1, "latency_ns": 500 * US},  # due before the window
        {"intended_at_ns": 2 * S, "started_at_ns": 2 * S, "latency_ns": 7 * US},
        {"intended_at_ns": 3 * S - 1, "started_at_ns": 3 * S + S, "latency_ns": 2 * S},  # returns long after it
    ]
    (row,) = latencies(summaries(attempts, calls=calls * 10)).collect()
    assert (row.latency_us_p50, row.latency_us_max) == ((7 + 2_000_000) / 2, 2_000_000)


def test_a_percentile_needs_ten_values_beyond_it(raw, summaries):
    expected = {
        19: (None, None, None),
        20: (10.5, None, None),
        199: (100, None, None),
        200: (100.5, 190.05, None),
        999: (500, 949.1, None),
        1000: (500.5, 950.05, 990.01),
    }
    # The block of a cell is its number of values.
    attempts = completed_attempts(raw("cells", [COMPLETED | {"block": values} for values in expected]))
    each = [({"block": values}, 2 * S, us * US) for values in expected for us in range(1, values + 1)]
    calls = [block | {"started_at_ns": at_ns, "latency_ns": took_ns} for block, at_ns, took_ns in each]
    deliveries = [block | {"sent_at_ns": at_ns, "processed_at_ns": at_ns + took_ns} for block, at_ns, took_ns in each]
    found = latencies(summaries(attempts, calls=calls, deliveries=deliveries)).collect()
    assert {row.block: tuple(row[name] for name in NAMES) for row in found} == {
        values: percentiles * 2 for values, percentiles in expected.items()
    }


def test_percentiles_are_those_of_all_values_sorted_whatever_their_range(raw, summaries):
    rng = random.Random(1)
    drawn = {
        1: [rng.randrange(-3 * S, 3 * S) for _ in range(1200)],  # wide, and half of them below zero
        2: [rng.choice((-1500, -500, -499, 499, 500, 1500, 4_000_499)) for _ in range(1200)],  # halves, and few values
        3: [2 * US] * 1199 + [90 * S],
    }
    attempts = completed_attempts(raw("cells", [COMPLETED | {"block": block} for block in drawn]))
    deliveries = [
        {"block": block, "sent_at_ns": 2 * S, "processed_at_ns": 2 * S + ns} for block in drawn for ns in drawn[block]
    ]
    for row in latencies(summaries(attempts, deliveries=deliveries)).collect():
        microseconds = [(abs(ns) + 500) // 1000 * (1 if ns > 0 else -1) for ns in drawn[row.block]]
        expected = [oracle.percentile(microseconds, quantile) for quantile in (0.5, 0.95, 0.99)]
        assert [row[name] for name in NAMES[3:]] == pytest.approx(expected, abs=0.0006), row.block
        assert row.end_to_end_negative == sum(ns < 0 for ns in drawn[row.block])


def test_end_to_end_is_of_messages_sent_in_the_window_and_keeps_negatives(spark, summaries, attempts):
    deliveries = [
        {"sent_at_ns": 1 * S - 1, "processed_at_ns": 2 * S},
        {"sent_at_ns": 2 * S, "processed_at_ns": 2 * S + 30 * US},
        {"sent_at_ns": 2 * S, "processed_at_ns": 2 * S - 10 * US},  # the target's clock is behind
        {"sent_at_ns": 3 * S - 1, "processed_at_ns": 3 * S - 1 + 50 * US},  # processed after the window
    ]
    names = ", ".join(f"{name} double" for name in (*NAMES, "latency_us_max"))
    expected = spark.createDataFrame(
        [(CELL.id, 1, 1, *[None] * 7, 1)],
        f"cell_id string, block int, attempt int, {names}, end_to_end_negative long",
    )
    assertDataFrameEqual(latencies(summaries(attempts, deliveries=deliveries)).select(*expected.columns), expected)
