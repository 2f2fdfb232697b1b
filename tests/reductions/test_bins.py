"""The course of a cell in bins, against counting in plain Python."""

import itertools
import random

import pytest

from harness.reductions import bins, message_records
from harness.reductions.cells import completed_attempts
from tests.reductions.conftest import COMPLETED, S

pytestmark = pytest.mark.spark


@pytest.fixture
def table(summaries):
    def make(attempts, **records):
        course = message_records.course(summaries(attempts, **records))
        return bins.bins(attempts, course).orderBy("bin").toPandas()

    return make


def call_that_returns_at(ns):
    return {"intended_at_ns": ns - 1, "started_at_ns": ns - 1, "latency_ns": 1}


def test_bins_are_a_tenth_of_the_cell_or_shorter_and_are_cut_where_a_phase_ends(table, attempts):
    rows = table(
        attempts,
        calls=[call_that_returns_at(ns) for ns in (0, 1 * S - 1, 1 * S, 3 * S - 1)],
        processed=[{"processed_at_ns": 3 * S, "messages": 7}],
    )
    assert rows.phase.tolist() == ["settle"] * 3 + ["measure"] * 6 + ["drain"] * 2
    assert rows.from_s.tolist() == pytest.approx([0, 1 / 3, 2 / 3, *(1 + part / 3 for part in range(6)), 3, 3.25])
    assert rows.sent_messages.tolist() == [1, 0, 1, 1, 0, 0, 0, 0, 1, 0, 0]
    assert rows.processed_messages.tolist() == [0] * 9 + [7, 0]


def test_bins_of_a_long_cell_are_a_second_long(raw, table):
    moments = {"measured_from_ns": 20 * S, "measured_to_ns": 50 * S, "stopped_at_ns": 50 * S, "drained_at_ns": 50 * S}
    rows = table(completed_attempts(raw("cells", [COMPLETED | moments])))
    assert len(rows) == 50 and (rows.length_s == 1).all()


def test_every_message_is_in_the_bin_of_its_moment(raw, table):
    names = ("started_at_ns", "measured_from_ns", "measured_to_ns", "stopped_at_ns", "drained_at_ns")
    drawn, records, calls = {}, [], []
    for block in range(1, 5):
        rng = random.Random(block)
        edges = sorted(rng.randrange(8 * S) for _ in range(5))
        moments = [rng.randrange(edges[0], edges[-1]) for _ in range(60)]
        drawn[block] = edges, moments
        records.append(COMPLETED | {"block": block} | dict(zip(names, edges, strict=True)))
        calls += [call_that_returns_at(ns) | {"block": block} for ns in [*moments, *edges[:-1]]]
    of_all = table(completed_attempts(raw("cells", records)), calls=calls)
    for block, (edges, moments) in drawn.items():
        check_bins(of_all[of_all.block == block].reset_index(), edges, moments)


def check_bins(rows, edges, moments):
    length_s = (edges[-1] - edges[0]) / S
    assert rows.length_s.max() <= max(length_s / 10, 1e-6) + 1e-6
    assert rows.length_s.sum() == pytest.approx(length_s, abs=1e-4)
    ends = [*rows.from_s[1:], length_s]
    assert (rows.from_s + rows.length_s).tolist() == pytest.approx(ends, abs=2e-6)
    cuts_ns = [edges[0] + from_s * S for from_s in rows.from_s]
    for place, (low, high) in enumerate(itertools.pairwise([*cuts_ns, edges[-1]])):
        near = sum(low + 1000 <= ns < high - 1000 for ns in moments)
        wide = sum(low - 1000 <= ns < high + 1000 for ns in [*moments, *edges[:-1]])
        assert near <= rows.sent_messages[place] <= wide
    assert rows.sent_messages.sum() == len(moments) + 4


def test_what_another_clock_puts_outside_the_cell_is_in_its_first_or_last_bin(table, attempts):
    deliveries = [{"processed_at_ns": ns} for ns in (-5 * S, 3 * S + S // 2, 90 * S)]
    rows = table(attempts, deliveries=deliveries)
    assert rows.processed_messages.tolist() == [1, *[0] * (len(rows) - 2), 2]
