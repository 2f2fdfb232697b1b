"""The proof on the page: where used dialogs lie with each ratio, and that a run's raw records say so."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from harness.lab import dialog_pool, opening
from harness.lab.instances import Lab
from harness.lab.opening import select_lab
from harness.observe import dialog_pages
from tests.commands import harness

pytestmark = pytest.mark.process

ROWS_PER_PAGE = 144  # 8096 bytes of a page, 56 of a row of sys.sysdesend with its slot


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    topology = select_lab({"lab": "embedded"}).topology
    directory = tmp_path_factory.mktemp("lab")
    with opening.open(topology, version="2008", initiators=1, directory=directory) as opened:
        yield opened


def test_dialogs_begun_one_after_another_share_pages_and_every_150th_does_not(lab: Lab) -> None:
    dialog_pool.build(lab, initiators=1, dialogs=600)
    spread = {"initiator-1": dialog_pages.located(lab.initiators[0])}
    found = dialog_pages.used(spread, 1, 300)["initiator-1"]
    assert [page.handle_rank for page in found] == list(range(300))
    counts = Counter(page.page_id for page in found)
    assert sorted(counts.values(), reverse=True) == [144, 144, 12]
    first = found[0].page_id
    assert all(
        (page.page_id, page.slot) == (first + page.handle_rank // ROWS_PER_PAGE, page.handle_rank % ROWS_PER_PAGE)
        for page in found
    )
    assert dialog_pages.at_target(lab.target, lab.initiators, 1, 300) == (
        "300 used dialogs lie on 3 pages of the target's sys.sysdercv, at most 144 on one page"
    )
    every_150th = dialog_pages.used(spread, 150, 4)
    assert [page.handle_rank for page in every_150th["initiator-1"]] == [149, 299, 449, 599]
    assert dialog_pages.summary(every_150th) == (
        "4 used dialogs lie on 4 pages of sys.sysdesend, at most 1 on one page; conversation handles are sequential"
    )


def test_a_run_records_one_dialog_a_page_with_the_ratio_and_all_on_one_without(tmp_path: Path) -> None:
    cells = "i1-t3-r1-p100-v2008", "i1-t3-r150-p100-v2008"
    times = ("--measure", "1s", "--settle", "200ms")
    done = harness(tmp_path, "matrix", "--lab", "embedded", "--only-sweep", "--cells", "i1-t3-r*-p100-v2008", *times)
    assert done.code == 0, done
    assert "sys.sysdesend" not in done.out, "the pages are the model's"
    [results] = (tmp_path / "results").iterdir()
    distinct = {}
    for cell in cells:
        rows = pq.read_table(results / "raw" / "dialog_pages" / f"{cell}-b1-a1.parquet").to_pylist()
        ratio = 150 if "-r150-" in cell else 1
        assert [row["dialog_id"] for row in rows] == [ratio, 2 * ratio, 3 * ratio]
        distinct[cell] = len({row["page_id"] for row in rows})
        for kind in ("latch_waits", "latches", "file_io"):
            assert (results / "raw" / kind / f"{cell}-b1-a1.parquet").exists()
        samples = pq.read_table(results / "raw" / "samples" / f"{cell}-b1-a1.parquet").to_pylist()
        assert {row["instance"] for row in samples if row["metric"] == "latch_looks"} == {"target", "initiator-1"}
        written = pq.read_table(results / "raw" / "file_io" / f"{cell}-b1-a1.parquet").to_pylist()
        assert {row["file_name"] for row in written} >= {"SSBTarget_log", "SSBInitiator1_log"}
        assert all(row["bytes_written"] > 0 and row["writes"] > 0 for row in written)
    assert list(distinct.values()) == [1, 3]
