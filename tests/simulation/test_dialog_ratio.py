"""The 150 trick follows from pages of 144 rows: what any ratio gives is page arithmetic, and nothing knows of 150."""

from __future__ import annotations

from collections import Counter

import pyarrow.parquet as pq
import pytest

from harness import records
from harness.lab import dialogs, link
from harness.matrix import Cell
from harness.observe import pages
from harness.simulation import cell as cells
from harness.simulation import lab as simulated
from harness.simulation.cell import Times
from harness.simulation.parameters import read
from harness.whitepaper import SYSDESEND_ROWS_PER_PAGE

USED = 12  # dialogs, and client threads


def per_page_by_arithmetic(ratio: int) -> list[int]:
    """How many used dialogs lie on each page that has any: every ratio-th row, pages filled one after another."""
    return list(Counter((used * ratio - 1) // SYSDESEND_ROWS_PER_PAGE for used in range(1, USED + 1)).values())


@pytest.fixture(scope="module")
def latch_ms_per_message(tmp_path_factory: pytest.TempPathFactory) -> dict[int, float]:
    """Waiting for page latches of an initiator, by dialog ratio; where the used dialogs lie is checked on the way."""
    found = {}
    for ratio in (1, 50, 100, 144, 145, 150, 300):
        results = tmp_path_factory.mktemp(f"ratio-{ratio}")
        lab = simulated.open(read("paper"), version="2008", initiators=1, seed=1)
        link.link(lab)
        dialogs.build(lab, initiators=1, used_dialogs=USED, dialog_ratio=ratio)
        spread = {lab.initiators[0].name: pages.located(lab.initiators[0])}
        per_page = Counter(page.page_id for page in spread["initiator-1"])
        assert list(per_page.values()) == per_page_by_arithmetic(ratio), ratio
        cell = Cell("2008", 1, ratio, USED, 100)
        measured = cells.run(lab, cell, 1, Times(0.1, 0.3), results, pages=spread)
        waits = pq.read_table(records.raw_path(results, "waits", cell, 1)).to_pylist()
        of_initiator = [row for row in waits if row["instance"] == "initiator-1"]
        latch_ms = sum(row["wait_time_ms"] for row in of_initiator if row["wait_type"].startswith("PAGELATCH"))
        found[ratio] = latch_ms / (measured.sent_per_s * measured.window_s)
    return found


def test_from_144_on_every_used_dialog_has_a_page_of_its_own_and_nobody_waits(latch_ms_per_message):
    for ratio in (144, 145, 150, 300):
        assert per_page_by_arithmetic(ratio) == [1] * USED
        assert latch_ms_per_message[ratio] < 0.1, ratio


def test_below_it_the_fewer_share_a_page_the_less_is_waited(latch_ms_per_message):
    assert max(per_page_by_arithmetic(50)) == 3
    assert max(per_page_by_arithmetic(100)) == 2
    waited = [latch_ms_per_message[ratio] for ratio in (1, 50, 100, 144)]
    assert waited == sorted(waited, reverse=True)
    assert waited[0] > 10 * waited[1] > 20 * waited[3]
