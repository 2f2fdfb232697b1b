"""Claims on rates, on tables of a few rows."""

import pandas as pd
import pytest

from harness.claims.measurement import place
from tests.claims.tables import cells, measured, missing, value


def test_a_peak_is_the_geometric_mean_of_versions_at_a_point_that_both_sustain():
    table = cells(
        (1, 30, 150, 100, "2005", 4000.0),
        (1, 30, 150, 100, "2008", 4400.0),
        (1, 50, 150, 100, "2005", 9000.0),
        (1, 50, 150, 100, "2008", 4100.0),
        (1, 50, 1, 100, "2008", 9900.0),
    )
    table.loc[2, "state"] = "unsettled"
    found = measured("peak_1_initiator", cells=table)
    assert found.value == pytest.approx((4000 * 4400) ** 0.5)
    assert (found.single, found.blocks, found.low) == (pytest.approx((4000, 4400)), 1, None)


def test_growth_is_the_quotient_of_peaks_of_the_same_block():
    rates = {1: (5000.0, 6000.0, 4000.0), 3: (15000.0, 18000.0, 12000.0)}
    table = pd.concat(
        cells((initiators, 50, 150, 100, "2005", rate), block=block)
        for initiators, of in rates.items()
        for block, rate in enumerate(of, start=1)
    )
    found = measured("linear_1_to_3", cells=table)
    assert (found.low, found.value, found.high) == pytest.approx((3, 3, 3))
    peak = measured("peak_1_initiator", cells=table)
    assert peak.low < 4000 < peak.value < 6000 < peak.high
    apart = table[(table.initiators == 1) != (table.block == 1)]
    assert "in no version and block" in missing("linear_1_to_3", cells=apart)


def test_without_a_valid_cell_there_is_no_peak():
    table = cells((1, 50, 150, 100, "2005", 4000.0), state="unsettled")
    assert "every 150th dialog is valid, of 1" in missing("peak_1_initiator", cells=table)
    assert "no cell with 2 initiators" in missing("peak_2_initiators", cells=table)


def test_a_rate_of_zero_is_no_peak_and_has_no_growth():
    table = cells((1, 50, 150, 100, "2005", 0.0), (3, 50, 150, 100, "2005", 0.0), (3, 50, 150, 8192, "2005", 0.0))
    for key in ("peak_1_initiator", "linear_1_to_3", "peak_of_small_payloads", "payload_matters"):
        assert missing(key, cells=table)
    assert "nothing was sent" in missing("initiator_is_bottleneck", cells=table)


def test_a_matrix_is_as_complete_as_its_least_complete_version():
    table = cells(
        *((1, threads, 150, 100, "2022", 1.0) for threads in (1, 2, 3)),
        *((1, threads, 150, 100, "2025", 1.0) for threads in (1, 2)),
    )
    assert value("matrix_complete", cells=table) == 2


def test_growth_compares_peaks():
    table = cells(
        (1, 50, 150, 100, "2005", 5000.0), (2, 50, 150, 100, "2005", 12000.0), (3, 50, 150, 100, "2005", 18000.0)
    )
    assert value("linear_1_to_3", cells=table) == pytest.approx(3.6)
    assert value("linear_third_initiator", cells=table) == pytest.approx(1.5)


def test_a_line_levels_off_where_it_stays_above_nine_tenths_of_its_highest_rate():
    rates = {1: 1000.0, 5: 4000.0, 10: 7000.0, 15: 9200.0, 20: 9500.0, 50: 10000.0}
    rows = [(3, threads, 150, payload, "2005", rate) for payload in (4096, 8192) for threads, rate in rates.items()]
    assert value("plateau_of_large_payloads", cells=cells(*rows)) == 45
    still_growing = [(*row[:5], 100.0 * row[1]) for row in rows]
    assert value("plateau_of_large_payloads", cells=cells(*still_growing)) == 150
    falling = [(*row[:5], row[5] if row[1] <= 15 else 4000.0) for row in rows]
    assert value("plateau_of_large_payloads", cells=cells(*falling)) == 150
    assert "3×15" not in missing("plateau_of_large_payloads", cells=cells(*[row for row in rows if row[1] != 15]))


@pytest.mark.parametrize(
    ("numbers", "blocks", "low"), [([45], 1, None), ([45, 45, 45], 0, None), ([45, 45, 60], 3, 28)]
)
def test_a_number_that_is_the_same_in_all_blocks_is_a_count_and_that_of_one_block_is_none(numbers, blocks, low):
    found = place(pd.Series(numbers, pd.Index(range(len(numbers)), name="block")), "threads")
    assert (found.blocks, found.low if found.low is None else round(found.low)) == (blocks, low)


def test_smaller_payloads_level_off_later_or_not():
    rates = {1: 1000.0, 15: 9200.0, 20: 9500.0, 50: 10000.0}
    large = [(3, threads, 150, 8192, "2005", rate) for threads, rate in rates.items()]
    growing = [(3, threads, 150, 100, "2005", 200.0 * threads) for threads in rates]
    assert value("plateau_before_small_payloads", cells=cells(*large, *growing)) == pytest.approx(150 / 45)
    alike = [(*row[:3], 1024, *row[4:]) for row in large]
    assert value("plateau_before_small_payloads", cells=cells(*large, *alike)) == 1
    assert "payloads" in missing("plateau_before_small_payloads", cells=cells(*large))


def test_versions_are_compared_cell_by_cell():
    pairs = [
        (1, threads, 150, 100, version, rate)
        for threads in (1, 5)
        for version, rate in (("2005", 100.0), ("2008", 120.0))
    ]
    lone = (2, 1, 150, 100, "2008", 9999.0)
    behind = [(3, 50, 150, 100, version, rate) for version, rate in (("2005", 1.0), ("2008", 9.0))]
    table = cells(*pairs, lone, *behind)
    table.loc[table.initiators == 3, "state"] = "unsettled"
    assert value("versions_alike", cells=table) == pytest.approx(1.2)
    assert "2005 and 2008" in missing("versions_alike", cells=cells(lone))


def test_each_step_of_the_threads_must_raise_the_rate():
    rates = {1: 100.0, 10: 900.0, 30: 1800.0, 50: 1620.0}
    table = cells(*((1, threads, 150, 100, "2005", rate) for threads, rate in rates.items()))
    found = measured("threads_raise_throughput", cells=table)
    assert found.value == pytest.approx(0.9) and "from 30 to 50 threads" in found.basis
    assert "with 1 thread" in missing("threads_raise_throughput", cells=table[table.threads > 1])
    alone = table[table.threads.isin([1, 30])].assign(server_version=["2005", "2008"])
    assert "no pair" in missing("threads_raise_throughput", cells=alone)


def test_a_peak_must_be_valid_in_all_versions():
    table = cells(
        (1, 30, 150, 100, "2005", 4000.0),
        (1, 30, 150, 100, "2008", 4400.0),
        (1, 50, 150, 100, "2005", 9000.0),
        (1, 50, 150, 100, "2008", 9100.0),
    )
    table.loc[3, "state"] = "unsettled"
    assert value("peak_1_initiator", cells=table) == pytest.approx((4000 * 4400) ** 0.5)
