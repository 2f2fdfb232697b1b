"""Single claims on tables of a few rows, whose numbers can be seen."""

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.claims import NotMeasured
from harness.claims.intervals import bootstrap, of_proportion
from harness.claims.judging import MEASURES
from tests.claims.conftest import Tables


def cells(*rows, **same):
    """Rows of (initiators, threads, ratio, payload, version, rate)."""
    names = ["initiators", "threads", "dialog_ratio", "payload_bytes", "server_version", "processed_per_s"]
    table = pd.DataFrame(rows, columns=names)
    table["cell_id"] = table[names[:5]].astype(str).agg("-".join, axis=1)
    table["total_threads"] = table.initiators * table.threads
    return table.assign(**({"target_kept_up": True, "settle_s": 0.5, "measured_s": 1.0} | same))


def value(key, **tables):
    return MEASURES[key](Tables(**tables)).value


def missing(key, **tables):
    with pytest.raises(NotMeasured) as reason:
        MEASURES[key](Tables(**tables))
    return str(reason.value)


def test_a_peak_is_the_mean_of_versions_at_a_point_that_both_sustain():
    table = cells(
        (1, 30, 150, 100, "2005", 4000.0),
        (1, 30, 150, 100, "2008", 4400.0),
        (1, 50, 150, 100, "2005", 9000.0),
        (1, 50, 150, 100, "2008", 4100.0),
        (1, 50, 1, 100, "2008", 9900.0),
    )
    table.loc[2, "target_kept_up"] = False
    measured = MEASURES["peak_1_initiator"](Tables(cells=table))
    assert (measured.value, measured.interval, measured.spread) == (4200.0, (4000.0, 4400.0), "versions")


def test_one_versions_peak_has_the_interval_of_its_seconds():
    table = cells((1, 50, 150, 100, "2022", 4000.0), settle_s=2.5, measured_s=30.0)
    rates = [100, 100, 100, *([3900, 4100] * 15)]
    seconds = pd.DataFrame({"cell_id": table.cell_id[0], "second": range(len(rates)), "processed": rates})
    measured = MEASURES["peak_1_initiator"](Tables(cells=table, seconds=seconds))
    low, high = measured.interval
    assert 3900 < low < 4000 < high < 4100 and measured.spread == "seconds"
    assert MEASURES["peak_1_initiator"](Tables(cells=table, seconds=seconds[:6])).interval is None


def test_no_sustained_rate_is_no_peak():
    table = cells((1, 50, 150, 100, "2005", 4000.0), target_kept_up=False)
    assert "did the target keep up" in missing("peak_1_initiator", cells=table)
    assert "no completed cell with 2 initiators" in missing("peak_2_initiators", cells=table)


def test_a_rate_of_nothing_is_no_peak_and_nothing_grows_from_it():
    table = cells((1, 50, 150, 100, "2005", 0.0), (3, 50, 150, 100, "2005", 0.0), (3, 50, 150, 8192, "2005", 0.0))
    for key in ("peak_1_initiator", "linear_1_to_3", "peak_of_small_payloads", "payload_matters"):
        assert missing(key, cells=table)
    assert "nothing was sent" in missing("initiator_is_bottleneck", cells=table)


def test_a_matrix_is_as_complete_as_the_version_that_lacks_most():
    table = cells(
        *((1, threads, 150, 100, "2022", 1.0) for threads in (1, 2, 3)),
        *((1, threads, 150, 100, "2025", 1.0) for threads in (1, 2)),
    )
    assert value("matrix_complete", cells=table) == 2


def test_growth_is_of_peaks():
    table = cells(
        (1, 50, 150, 100, "2005", 5000.0), (2, 50, 150, 100, "2005", 12000.0), (3, 50, 150, 100, "2005", 18000.0)
    )
    seconds = pd.DataFrame(columns=["cell_id", "second", "processed"])
    assert value("linear_1_to_3", cells=table, seconds=seconds) == pytest.approx(3.6)
    assert value("linear_third_initiator", cells=table, seconds=seconds) == pytest.approx(1.5)


def test_a_line_levels_off_where_it_first_reaches_nine_tenths_of_its_highest_rate():
    rates = {1: 1000.0, 5: 4000.0, 10: 7000.0, 15: 9200.0, 20: 9500.0, 50: 10000.0}
    rows = [(3, threads, 150, payload, "2005", rate) for payload in (4096, 8192) for threads, rate in rates.items()]
    assert value("plateau_of_large_payloads", cells=cells(*rows)) == 45
    still_growing = [(*row[:5], 100.0 * row[1]) for row in rows]
    assert value("plateau_of_large_payloads", cells=cells(*still_growing)) == 150
    assert "3×15" not in missing("plateau_of_large_payloads", cells=cells(*[row for row in rows if row[1] != 15]))


def test_versions_are_compared_cell_by_cell():
    pairs = [
        (1, threads, 150, 100, version, rate)
        for threads in (1, 5)
        for version, rate in (("2005", 100.0), ("2008", 120.0))
    ]
    lone = (2, 1, 150, 100, "2008", 9999.0)
    behind = [(3, 50, 150, 100, version, rate) for version, rate in (("2005", 1.0), ("2008", 9.0))]
    table = cells(*pairs, lone, *behind)
    table.loc[table.initiators == 3, "target_kept_up"] = False
    assert value("versions_alike", cells=table) == pytest.approx(1.2)
    assert "2005 and 2008" in missing("versions_alike", cells=cells(lone))


def gain(*rows):
    """Rows of (threads of each of three initiators, factor)."""
    table = pd.DataFrame(rows, columns=["threads", "factor"])
    return table.assign(
        initiators=3,
        total_threads=3 * table.threads,
        payload_bytes=100,
        gain_percent=100 * (table.factor - 1),
        target_kept_up=True,
    )


def test_a_single_number_of_threads_that_gains_breaks_no_gain_up_to_15():
    assert value("no_gain_up_to_15", gain=gain((1, 1.0), (3, 1.3), (5, 0.9))) == pytest.approx(30)
    assert "15 threads" in missing("no_gain_up_to_15", gain=gain((1, 1.0), (10, 2.0)))


def test_a_single_number_of_threads_that_does_not_gain_breaks_noticeable_from_30():
    table = gain((5, 1.0), (10, 1.2), (30, 1.05), (50, 4.0))
    assert value("gain_noticeable_from_30", gain=table) == pytest.approx(5)
    assert value("gain_max", gain=table) == pytest.approx(300)
    assert "no sustained gain" in missing("gain_max", gain=table.assign(target_kept_up=False))
    assert "no pair" in missing("gain_max")


def waits(*rows):
    """Rows of (role, threads of each of three initiators, ratio, wait type, milliseconds) beside their cells."""
    points = sorted({(3, threads, ratio, 100, "2005", 1000.0) for _, threads, ratio, _, _ in rows})
    table = cells(*points)
    names = {(row.threads, row.dialog_ratio): row.cell_id for row in table.itertuples()}
    told = pd.DataFrame(
        {"cell_id": names[threads, ratio], "role": role, "initiators": 3, "wait_type": kind, "wait_time_ms": waited_ms}
        for role, threads, ratio, kind, waited_ms in rows
    )
    whole = told.groupby(["cell_id", "role"]).wait_time_ms.transform("sum")
    return {"cells": table, "waits": told.assign(share_percent=100 * told.wait_time_ms / whole)}


def test_page_latches_of_both_modes_count_as_one_wait():
    tables = waits(
        ("initiator", 50, 1, "PAGELATCH_EX", 40),
        ("initiator", 50, 1, "PAGELATCH_SH", 20),
        ("initiator", 50, 1, "WRITELOG", 40),
        ("initiator", 5, 1, "WRITELOG", 9000),
    )
    assert value("initiator_top_wait_without_trick", **tables) == pytest.approx(20)
    assert "dialog ratio 150" in missing("initiator_top_wait_with_trick", **tables)
    assert "target" in missing("target_top_wait", **tables)


def test_a_lead_is_of_all_waiting_and_not_of_what_the_table_keeps():
    tables = waits(("target", 50, 150, "WRITELOG", 40), ("target", 50, 150, "PAGELATCH_EX", 10))
    tables["waits"]["share_percent"] /= 2  # as much again is waited for what lies beyond the longest
    assert value("target_top_wait", **tables) == pytest.approx(30)


def test_where_one_role_waited_and_the_other_did_not_that_is_a_measured_zero():
    rows = (("target", threads, 1, "WRITELOG", 7) for threads in (5, 50))
    tables = waits(*rows, ("initiator", 50, 1, "PAGELATCH_EX", 9))
    assert value("contention_above_15", **tables) == 100


def test_a_single_kind_of_wait_is_a_hundred_points_ahead_or_behind():
    tables = waits(("initiator", 50, 1, "WRITELOG", 7), ("initiator", 50, 150, "WRITELOG", 7))
    assert value("initiator_top_wait_without_trick", **tables) == -100
    assert value("initiator_top_wait_with_trick", **tables) == 100


def test_an_initiator_is_compared_with_the_target_not_all_three():
    tables = waits(("initiator", 50, 1, "WRITELOG", 300), ("target", 50, 1, "WRITELOG", 100))
    assert value("initiator_waits_more", **tables) == pytest.approx(50)


def test_contention_is_compared_for_each_message():
    rows = (("initiator", 5, 1, "PAGELATCH_EX", 10), ("initiator", 50, 1, "PAGELATCH_EX", 90))
    assert value("contention_above_15", **waits(*rows)) == pytest.approx(90)
    left = (*rows, ("initiator", 50, 150, "PAGELATCH_EX", 9), ("initiator", 5, 150, "WRITELOG", 1))
    assert value("trick_removes_contention", **waits(*left)) == pytest.approx(10)
    assert value("contention_above_15", **waits(*((*row[:3], "WRITELOG", 5) for row in rows))) == 0


def test_whose_pages_are_waited_for():
    seen = pd.DataFrame(
        {
            "cell_id": "a",
            "initiators": 3,
            "threads": 50,
            "dialog_ratio": 1,
            "instance": ["initiator-1", "initiator-1", "target"],
            "object_name": ["sys.sysdesend", "sys.sysxmitqueue", "sys.sysdercv"],
            "times_seen": [75, 25, 100],
        }
    )
    assert value("contention_on_sysdesend", latch_share=seen) == pytest.approx(75)
    assert value("sysdercv_no_bottleneck", latch_share=seen) == pytest.approx(50)
    nobody = seen.assign(object_name=None, times_seen=0)
    for key in ("contention_on_sysdesend", "sysdercv_no_bottleneck"):
        assert "nobody was seen waiting" in missing(key, latch_share=nobody)
        assert "3 initiators" in missing(key, latch_share=seen.assign(initiators=2))
    assert "was not observed" in missing("contention_on_sysdesend")


def test_where_used_dialogs_lie():
    spread = pd.DataFrame(
        {
            "dialog_ratio": [150, 150, 1],
            "used_dialogs": [50, 10, 50],
            "dialogs_per_page_max": [1, 1, 50],
            "dialogs_sharing_a_page": [0, 0, 50],
        }
    )
    assert value("page_of_its_own_with_trick", page_spread=spread) == 1
    assert value("hot_page_without_trick", page_spread=spread) == 100
    assert value("page_of_its_own_with_trick", page_spread=spread.assign(dialogs_per_page_max=2)) == 2


def test_a_bottleneck_is_counted_in_cells():
    table = cells(*((1, threads, 1, 100, "2005", 100.0) for threads in (1, 2, 3, 4)))
    table.loc[0, "target_kept_up"] = False
    assert value("initiator_is_bottleneck", cells=table) == 75


@pytest.mark.parametrize("role", ["initiator", "target"])
def test_processors_are_of_the_load_at_which_peaks_are_looked_for(role):
    few, many = ((3, threads, 150, 100, "2005", 1000.0) for threads in (10, 40))
    used = {"initiator_processor_percent": [20.0, 50.0], "target_processor_percent": [20.0, 50.0]}
    assert value(f"{role}_processors", cells=cells(few, many).assign(**used)) == 50
    assert "30 or more threads" in missing(f"{role}_processors", cells=cells(few, few).assign(**used))


def test_logs_of_initiators_and_target():
    table = cells((3, 50, 150, 100, "2005", 1000.0), (3, 50, 150, 8192, "2005", 100.0))
    rows = [
        (cell.cell_id, instance, database, "LOG", 3, bytes_written)
        for cell in table.itertuples()
        for instance, database, bytes_written in (
            ("target", "SSBTarget", 400_000),
            ("target", "tempdb", 10**9),
            ("initiator-1", "SSBInitiator1", 80),
            ("initiator-2", "SSBInitiator2", 100),
            ("initiator-3", "SSBInitiator3", 90),
        )
    ]
    names = ["cell_id", "instance", "database_name", "file_type", "initiators", "bytes_written"]
    files = pd.DataFrame(rows, columns=names)
    assert value("initiators_alike", cells=table, file_io=files) == pytest.approx(80)
    idle = files.assign(bytes_written=files.bytes_written.where(files.instance != "initiator-2", 0))
    assert value("initiators_alike", cells=table, file_io=idle) == 0
    # 1,000 messages of 100 bytes; of 100 messages of 8,192 bytes, 2,000 each are stored.
    assert value("messages_on_disk", cells=table, file_io=files) == pytest.approx((4 * 2) ** 0.5)


def test_transactions_are_compared_by_the_log_writes_of_one_initiator_and_its_target():
    rows = [
        (1, 50, 150, "initiator-1", "SSBInitiator1", 300),
        (1, 50, 150, "target", "SSBTarget", 200),
        (1, 50, 150, "target", "tempdb", 999),
        (1, 5, 150, "initiator-1", "SSBInitiator1", 900),
        (1, 5, 150, "target", "SSBTarget", 1),
        (3, 50, 150, "initiator-2", "SSBInitiator2", 900),
    ]
    files = pd.DataFrame(
        rows, columns=["initiators", "threads", "dialog_ratio", "instance", "database_name", "writes"]
    ).assign(file_type="LOG")
    files["cell_id"] = files.initiators.astype(str) + "-" + files.threads.astype(str)
    assert value("initiator_transactions", file_io=files) == pytest.approx(1.5)
    assert "not observed" in missing("initiator_transactions", file_io=files[files.threads == 5])
    unwritten = files.assign(writes=files.writes.where(files.instance != "target", 0))
    assert "not both written" in missing("initiator_transactions", file_io=unwritten)


def techniques(**rates):
    rows = [(name, run, rate) for name, runs in rates.items() for run, rate in enumerate(runs, start=1)]
    return pd.DataFrame(rows, columns=["technique", "run", "processed_per_s"]).assign(target_kept_up=True)


def test_advice_is_worth_the_quotient_of_means():
    table = techniques(baseline=[900.0, 1100.0], receive_top_1=[250.0, 150.0], cold=[0.0])
    measured = MEASURES["receive_top_1"](Tables(techniques=table))
    assert measured.value == pytest.approx(5)
    assert measured.interval == pytest.approx((3.6, 1100 / 150)) and measured.spread == "runs"
    assert "few_readers" in missing("few_readers", techniques=table)
    assert "cold" in missing("warm_up_needed", techniques=table)
    assert "were not run" in missing("warm_up_needed")
    table.loc[table.technique == "receive_top_1", "target_kept_up"] = False
    assert "the target fell behind in receive_top_1" in MEASURES["receive_top_1"](Tables(techniques=table)).basis


def test_the_ladder_is_as_good_as_its_weakest_step():
    steps = ("dialog_per_message", "reuse", "receive_top_n", "activation_life", "readers_per_core", "trick_150")
    rates = dict(zip(steps, ([100.0], [300.0], [600.0], [660.0], [594.0], [1000.0]), strict=True))
    measured = MEASURES["techniques_build_up"](Tables(techniques=techniques(**rates)))
    assert measured.value == pytest.approx(0.9) and "from activation_life to readers_per_core" in measured.basis
    del rates["trick_150"]
    assert "trick_150" in missing("techniques_build_up", techniques=techniques(**rates))


@given(st.integers(1, 500).flatmap(lambda trials: st.tuples(st.integers(0, trials), st.just(trials))))
def test_the_interval_of_a_proportion_holds_it_and_stays_a_proportion(case):
    successes, trials = case
    low, high = of_proportion(successes, trials)
    assert 0 <= low <= successes / trials + 1e-12 and successes / trials - 1e-12 <= high <= 1


@settings(max_examples=20, deadline=None)
@given(st.lists(st.floats(1, 1e6), min_size=5, max_size=20))
def test_a_bootstrap_interval_of_a_mean_stays_within_the_data_and_repeats(values):
    rows = pd.DataFrame({"value": values})
    first, second = (bootstrap(rows, lambda array: float(np.mean(array))) for _ in range(2))
    assert first == second
    assert min(values) * (1 - 1e-9) <= first[0] <= first[1] <= max(values) * (1 + 1e-9)
