import errno
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from harness.failures import MachineFailure
from harness.files.records import NotWritable
from harness.output.reporting import Reporter
from harness.run.engine import Sweep, SweepStopped
from harness.run.in_process import InProcess
from harness.run.under_way import InUse, locked, under_way
from tests.results_fixture import write_manifest
from tests.run.test_engine import CELLS, FakeTestbed

FIRST = "measured: 1 of 3 cells"


def run(folder: Path, second_cell: Callable[[], None]) -> None:
    """Sweep three cells, in the second of which something happens."""

    def trouble(cell: str, attempt: int) -> None:
        if cell == CELLS[1].id:
            second_cell()

    with under_way(folder) as kept:
        Sweep(InProcess(FakeTestbed(trouble), Reporter()), kept, Reporter(), folder).run(CELLS)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    write_manifest(tmp_path / "run", cells=3)
    return tmp_path / "run"


def raising(error: BaseException) -> Callable[[], None]:
    def second_cell() -> None:
        raise error

    return second_cell


def test_one_process_at_a_time_writes_into_a_run(folder: Path) -> None:
    with (
        locked(folder),
        pytest.raises(InUse, match=f"{folder} is in use by process {os.getpid()}: wait"),
        locked(folder),
    ):
        pass
    with locked(folder):
        pass


@pytest.mark.parametrize(
    "kind, how",
    [
        ({}, "measured: 1 of 3 cells; go on with: harness matrix --resume '{}'"),
        ({"rates": {"arrivals": "constant"}}, "measured: 1 of 3 steps; go on with: harness rates --resume '{}'"),
        ({"scenario": {}}, "measured: 1 of 3 runs; go on with: harness techniques --resume '{}'"),
    ],
)
def test_an_interrupt_says_what_was_measured_and_how_to_go_on(tmp_path: Path, kind: dict[str, Any], how: str) -> None:
    folder = tmp_path / "a run"
    write_manifest(folder, cells=3, **kind)
    with pytest.raises(KeyboardInterrupt) as interrupted:
        run(folder, raising(KeyboardInterrupt()))
    assert str(interrupted.value) == how.format(folder)


def test_a_lab_that_fails_after_a_cell_says_how_to_go_on(folder: Path) -> None:
    with pytest.raises(SweepStopped, match=rf"^no lab; {FIRST}; go on with: harness matrix --resume {folder}$"):
        run(folder, raising(SweepStopped("no lab")))
    with pytest.raises(MachineFailure, match=r"^no lab$"), under_way(folder.parent / "run") as kept:
        kept.entries.clear()
        raise MachineFailure("no lab")


@pytest.mark.parametrize(
    "number, text", [(errno.ENOSPC, "the disk is full: free some space"), (errno.EROFS, "Read-only file system")]
)
def test_a_folder_that_takes_no_more_is_named_with_what_was_measured(folder: Path, number: int, text: str) -> None:
    with pytest.raises(NotWritable, match=rf"^{folder}: {text}; {FIRST}; go on with: "):
        run(folder, raising(OSError(number, os.strerror(number))))


@pytest.mark.parametrize("vanish", [shutil.rmtree, lambda folder: folder.rename(folder.with_name("elsewhere"))])
def test_a_folder_that_vanishes_is_told_with_the_numbers_that_were_in_it(
    folder: Path, vanish: Callable[[Path], None]
) -> None:
    def second_cell() -> None:
        if folder.exists():
            vanish(folder)
        (folder / "raw").mkdir(parents=True)  # as who writes raw records does

    lost = rf"^{folder} is gone, and with it what was measured: 1 of 3 cells: {CELLS[0].id} 9 processed/s$"
    with pytest.raises(NotWritable, match=lost):
        run(folder, second_cell)
