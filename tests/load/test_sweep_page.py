"""What the page of `harness matrix --web` is told, from a reporter's calls and the journal."""

import os
import socket

import pytest

from harness.definitions.lab_kinds import EMBEDDED
from harness.files import journal
from harness.load.pages.sweep import SweepPage
from tests.commands import harness
from tests.noting import NotingReporter

CELLS = [f"i1-t{threads}-r150-p100-v2008" for threads in (1, 5, 10, 20, 30)]


def entry(cell: str, outcome: str = "completed", *, attempt: int = 1) -> journal.Entry:
    measured = {"sent_per_s": 20.0, "processed_per_s": 10.5, "state": "valid"} if outcome == "completed" else {}
    reason = "" if measured else "the target has died"
    return journal.Entry(cell, attempt, outcome, reason, "2026-01-01T00:00:00", 1, **measured)


def test_a_page_knows_what_is_done_failed_now_and_next(tmp_path) -> None:
    console = NotingReporter()
    page = SweepPage(console, "http://127.0.0.1:1")
    assert page.state()["completed"] == []
    page.sweep(tmp_path, [*CELLS, f"{CELLS[0]} (block 2)"], EMBEDDED)
    assert console.notes == ["page: http://127.0.0.1:1"]
    kept = journal.Journal(tmp_path / journal.NAME)
    kept.append(entry(CELLS[0]))  # of a run that was interrupted
    page.begin(6, 1)
    page.phase(f"{CELLS[1]}: settle")
    kept.append(entry(CELLS[1], "failed"))
    state = page.state()
    assert (state["now"], state["failed"]) == (CELLS[1], [])  # it is tried again
    kept.append(entry(CELLS[1], "failed", attempt=2))
    page.cell_done(2, CELLS[1], "failed", "the target has died")
    page.phase(f"{CELLS[2]}: settle")
    state = page.state()
    assert [(cell["name"], cell["processed_per_s"], cell["threads"]) for cell in state["completed"]] == [
        (CELLS[0], 10.5, 1)
    ]
    assert state["failed"] == [{"name": CELLS[1], "reason": "the target has died"}]
    assert (state["now"], state["next"]) == (CELLS[2], [*CELLS[3:], f"{CELLS[0]} (block 2)"])
    assert (state["stage"]["done"], state["stage"]["left_s"] is not None) == (2, True)
    page.begin(12, 0, unit="table")
    assert (page.state()["next"], page.state()["stage"]["unit"]) == ([], "table")
    page.finish("done")  # nobody looks
    assert page.state()["ended"] == "done"


def test_figures_older_than_the_last_cell_are_not_shown(tmp_path) -> None:
    page = SweepPage(NotingReporter(), "")
    page.sweep(tmp_path, CELLS, EMBEDDED)
    (tmp_path / "figures").mkdir()
    figure = tmp_path / "figures" / "old.png"
    figure.write_bytes(b"")
    kept = journal.Journal(tmp_path / journal.NAME)
    kept.append(entry(CELLS[0]))
    (tmp_path / "figures" / "new.png").write_bytes(b"")
    os.utime(figure, (1, 1))
    assert page.state()["figures"] == ["new.png"]
    client = page.app.test_client()
    assert client.get("/figures/new.png").status_code == 200
    assert client.get("/figures/../journal.jsonl").status_code == 404


@pytest.mark.process
def test_a_port_that_is_taken_is_told_before_anything_starts(tmp_path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        done = harness(tmp_path, "matrix", "--lab", "embedded", "--web", str(port))
    assert done.code == 3
    assert done.line.endswith(
        f"port {port} on 127.0.0.1 cannot be used (Address already in use): choose another with --web"
    )
    assert list(tmp_path.iterdir()) == []
    for wrong in ("0", "70000"):
        refused = harness(tmp_path, "matrix", "--lab", "embedded", "--web", wrong)
        assert (refused.code, refused.line.endswith(f"invalid --web {wrong}: choose 1 to 65535")) == (2, True)
