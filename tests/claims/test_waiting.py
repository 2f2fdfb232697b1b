"""Claims on waits and pages, on tables of a few rows."""

import pandas as pd
import pytest

from tests.claims.tables import cells, measured, missing, value


def waits(*rows):
    """Make waits from rows of (role, threads per initiator, ratio, wait type, milliseconds), and their cells."""
    points = sorted({(3, threads, ratio, 100, "2005", 1000.0) for _, threads, ratio, _, _ in rows})
    table = cells(*points)
    names = {(row.threads, row.dialog_ratio): row.cell_id for row in table.itertuples()}
    waits = pd.DataFrame(
        {
            "cell_id": names[threads, ratio],
            "block": 1,
            "role": role,
            "initiators": 3,
            "wait_type": kind,
            "wait_time_ms": waited_ms,
        }
        for role, threads, ratio, kind, waited_ms in rows
    )
    whole = waits.groupby(["cell_id", "role"]).wait_time_ms.transform("sum")
    return {"cells": table, "waits": waits.assign(share_percent=100 * waits.wait_time_ms / whole)}


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


def test_a_lead_is_a_share_of_all_waiting_not_of_the_waits_in_the_table():
    tables = waits(("target", 50, 150, "WRITELOG", 40), ("target", 50, 150, "PAGELATCH_EX", 10))
    tables["waits"]["share_percent"] /= 2  # waits that are not in the table take as long again
    assert value("target_top_wait", **tables) == pytest.approx(30)


def test_a_role_that_did_not_wait_where_the_other_did_is_a_measured_zero():
    rows = (("target", threads, 1, "WRITELOG", 7) for threads in (5, 50))
    tables = waits(*rows, ("initiator", 50, 1, "PAGELATCH_EX", 9))
    assert value("contention_above_15", **tables) == 100


def test_a_single_wait_type_is_a_hundred_points_ahead_or_behind():
    tables = waits(("initiator", 50, 1, "WRITELOG", 7), ("initiator", 50, 150, "WRITELOG", 7))
    assert value("initiator_top_wait_without_trick", **tables) == -100
    assert value("initiator_top_wait_with_trick", **tables) == 100


def test_one_initiator_and_not_all_three_is_compared_with_the_target():
    tables = waits(("initiator", 50, 1, "WRITELOG", 300), ("target", 50, 1, "WRITELOG", 100))
    assert value("initiator_waits_more", **tables) == pytest.approx(50)


def test_contention_is_compared_per_message():
    rows = (("initiator", 5, 1, "PAGELATCH_EX", 10), ("initiator", 50, 1, "PAGELATCH_EX", 90))
    assert value("contention_above_15", **waits(*rows)) == pytest.approx(90)
    left = (*rows, ("initiator", 50, 150, "PAGELATCH_EX", 9), ("initiator", 5, 150, "WRITELOG", 1))
    assert value("trick_removes_contention", **waits(*left)) == pytest.approx(10)
    assert value("contention_above_15", **waits(*((*row[:3], "WRITELOG", 5) for row in rows))) == 0


def test_a_share_counts_the_tasks_that_were_seen_waiting():
    seen = pd.DataFrame(
        {
            "cell_id": "a",
            "block": 1,
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
        assert "no task was seen waiting" in missing(key, latch_share=nobody)
        assert "3 initiators" in missing(key, latch_share=seen.assign(initiators=2))
    assert "were not sampled" in missing("contention_on_sysdesend")


def test_dialogs_that_share_a_page_are_counted():
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


def test_a_share_has_the_interval_of_the_shares_of_its_blocks():
    rows = (("initiator", 50, 1, "PAGELATCH_EX", 60), ("initiator", 50, 1, "WRITELOG", 40))
    tables = waits(*rows)
    table = pd.concat([tables["waits"].assign(block=block) for block in (1, 2, 3)], ignore_index=True)
    table.wait_time_ms *= table.block  # a block in which all took longer has the same share
    blocks = {"cells": pd.concat([tables["cells"].assign(block=block) for block in (1, 2, 3)]), "waits": table}
    found = measured("initiator_top_wait_without_trick", **blocks)
    assert (found.value, found.low, found.blocks) == (pytest.approx(20), None, 0), "the same in all blocks"
    table.loc[(table.block == 3) & (table.wait_type == "WRITELOG"), "wait_time_ms"] *= 1.5
    found = measured("initiator_top_wait_without_trick", **blocks)
    assert (found.value, found.blocks) == (pytest.approx(20 * 2 / 3), 3) and found.low < found.value < found.high
    table.loc[0, "wait_time_ms"] = 30
    found = measured("initiator_top_wait_without_trick", **blocks)
    assert found.low < 0 < found.value < found.high
