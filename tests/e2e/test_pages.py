"""The proof on the page: where used dialogs lie with each ratio. `test_matrix.py` looks at what a run records of it."""

from collections import Counter
from collections.abc import Iterator

import pytest

from harness.lab import dialog_pool, opening
from harness.lab.instances import Lab
from harness.lab.opening import select_lab
from harness.observe import dialog_pages

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
