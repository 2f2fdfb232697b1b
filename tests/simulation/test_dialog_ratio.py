"""The 150 trick follows from pages of 144 rows: what any ratio gives is page arithmetic, and nothing knows of 150."""

from collections import Counter
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from harness.definitions.matrix import Cell, Visit
from harness.definitions.whitepaper import SYSDESEND_ROWS_PER_PAGE
from harness.files import records
from harness.lab import dialog_pool, link
from harness.observe import dialog_pages
from harness.run.attempt import Times
from harness.simulation import forks, simulated_cell, simulated_lab
from harness.simulation.parameters import read
from harness.simulation.simulated_lab import SimulatedLab

pytestmark = pytest.mark.process

USED = 12  # dialogs, and client threads


RATIOS = (1, 50, 100, 144, 145, 150, 300)


def per_page_by_arithmetic(ratio: int) -> list[int]:
    """How many used dialogs lie on each page that has any: every ratio-th row, pages filled one after another."""
    return list(Counter((used * ratio - 1) // SYSDESEND_ROWS_PER_PAGE for used in range(1, USED + 1)).values())


@dataclass(frozen=True)
class Seen:
    """Of an initiator."""

    per_page: list[int]  # used dialogs on each page that has any
    latch_ms_per_message: float  # waited for page latches


@pytest.fixture(scope="module")
def seen(tmp_path_factory: pytest.TempPathFactory) -> dict[int, Seen]:
    """Cells by dialog ratio, each run in a fork of one lab with one pool."""
    with forks.frozen_heap():
        lab = simulated_lab.open(read("paper"), version="2008", initiators=1, seed=1)
        link.link(lab)
        dialog_pool.build(lab, initiators=1, dialogs=USED * RATIOS[-1])
    return {
        ratio: forks.in_fork(partial(_seen, lab, ratio, tmp_path_factory.mktemp(f"ratio-{ratio}"))) for ratio in RATIOS
    }


def _seen(lab: SimulatedLab, ratio: int, results: Path) -> Seen:
    spread = dialog_pages.used({lab.initiators[0].name: dialog_pages.located(lab.initiators[0])}, ratio, USED)
    visit = Visit(Cell("2008", 1, ratio, USED, 100))
    measured = simulated_cell.run(lab, visit, 1, Times(0.1, 0.3), results, pages=spread)
    waits = pq.read_table(records.raw_path(results, "waits", visit, 1)).to_pylist()
    of_initiator = [row for row in waits if row["instance"] == "initiator-1"]
    latch_ms = sum(row["wait_time_ms"] for row in of_initiator if row["wait_type"].startswith("PAGELATCH"))
    return Seen(
        list(Counter(page.page_id for page in spread["initiator-1"]).values()),
        latch_ms / (measured.sent_per_s * measured.window_s),
    )


@pytest.mark.parametrize("ratio", RATIOS)
def test_used_dialogs_lie_on_the_computed_pages(seen, ratio):
    assert seen[ratio].per_page == per_page_by_arithmetic(ratio)


@pytest.mark.parametrize("ratio", [144, 145, 150, 300])
def test_from_144_on_every_used_dialog_has_its_own_page_and_no_task_waits(seen, ratio):
    assert per_page_by_arithmetic(ratio) == [1] * USED
    assert seen[ratio].latch_ms_per_message < 0.1


def test_below_144_waiting_decreases_with_the_dialogs_on_a_page(seen):
    assert max(per_page_by_arithmetic(50)) == 3
    assert max(per_page_by_arithmetic(100)) == 2
    waited = [seen[ratio].latch_ms_per_message for ratio in (1, 50, 100, 144)]
    assert waited == sorted(waited, reverse=True)
    assert waited[0] > 10 * waited[1] > 20 * waited[3]
