"""Claims on pages, on tables of a few rows."""

import pandas as pd
import pytest

from tests.claims.tables import missing, value


def test_a_share_counts_the_tasks_that_were_seen_waiting():
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
