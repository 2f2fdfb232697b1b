import shutil
from contextlib import contextmanager
from pathlib import Path

import pytest

from harness.figures import sharing
from harness.figures.build import draw
from harness.figures.sharing import Drawn, Shared, claimed, shared, tell, told
from harness.lab.processes import ChildError
from tests.figures.conftest import FIGURES
from tests.noting import FigureReporter

pytestmark = [pytest.mark.drawing, pytest.mark.process]


def test_a_second_process_draws_the_figures_that_nobody_has_claimed(quick_run, drawn_run, tmp_path, monkeypatch):
    run = shutil.copytree(quick_run, tmp_path / drawn_run.folder.name, ignore=shutil.ignore_patterns("figures"))
    (run / "reduced" / "page_spread.parquet").unlink()
    monkeypatch.setattr(sharing, "is_worth_it", lambda: True)
    left = ["queues", "page-spread"]
    with shared(run) as work:
        mine = list(claimed(work.folder, [name for name in FIGURES if name not in left]))
        work.wait()
        there = told(work.folder, mine)
    assert len(mine) == len(FIGURES) - len(left)
    assert sorted(there) == sorted(left)
    assert there["queues"] == Drawn([str(run / "figures" / name) for name in ("queues.png", "queues.svg")], "")
    for file in map(Path, there["queues"].files):
        assert file.read_bytes() == (drawn_run.folder / "figures" / file.name).read_bytes()
    assert there["page-spread"].reason.startswith("the pages of the dialogs were not read")


@pytest.mark.usefixtures("unrendered")
def test_the_figures_of_both_processes_are_counted_and_returned_in_order(quick_run, tmp_path, monkeypatch):
    run = shutil.copytree(quick_run, tmp_path / "run", ignore=shutil.ignore_patterns("figures"))
    (run / "figures").mkdir()
    there = [run / "figures" / f"waits.{ending}" for ending in ("png", "svg")]
    late = {"queues": Drawn([], "it is late")}

    @contextmanager
    def beside_another(_):
        for path in there:
            path.touch()
        assert list(claimed(tmp_path, ["waits", "queues"])) == ["waits", "queues"]
        tell(tmp_path, "waits", Drawn([str(path) for path in there], ""))
        yield Shared(tmp_path, lambda: [tell(tmp_path, *each) for each in late.items()])

    monkeypatch.setattr(sharing, "shared", beside_another)
    reporter = FigureReporter()
    files = draw(run, progress=reporter)
    assert [path.stem for path in files if path.suffix == ".svg"] == FIGURES[:-1]
    assert (reporter.total, sorted(reporter.completed)) == (len(FIGURES), sorted(FIGURES[:-1]))
    assert reporter.completed[1] == "waits" and reporter.left_out == {"queues": "it is late"}


def test_a_second_process_that_fails_is_an_error_of_one_line(tmp_path, monkeypatch):
    monkeypatch.setattr(sharing, "is_worth_it", lambda: True)
    monkeypatch.setattr("sys.executable", "/bin/false")
    with (
        shared(tmp_path) as work,
        pytest.raises(ChildError, match=r"draws figures .* ended with exit code 1") as caught,
    ):
        work.wait()
    assert "\n" not in str(caught.value)


def test_without_a_second_processor_there_is_no_second_process(tmp_path, monkeypatch):
    monkeypatch.undo()
    monkeypatch.setattr(sharing.processors, "count", lambda: 1)
    monkeypatch.setattr(sharing, "Child", None)
    with shared(tmp_path) as work:
        work.wait()
        assert list(claimed(work.folder, FIGURES)) == FIGURES
