"""Queues, queue monitors and readers of one cell."""

from pathlib import Path

import pandas as pd
import pytest
from matplotlib import style
from matplotlib.colors import to_hex

from harness import Run
from harness.definitions.matrix import Cell, Visit
from harness.figures import queue_course
from harness.figures.build import STYLE
from harness.figures.parts import Sheet
from harness.figures.queue_course import NO_MONITOR, STATE_COLOURS, Course
from harness.files.records import ResultsError, columns, write
from tests.results_fixture import NS, STARTED_AT_NS, write_cell, write_manifest

CELL = Cell("2022", 2, 150, 5, 100)
OTHER = Cell("2022", 2, 150, 50, 100)
# By second: the target's queue, its queue monitor and the sessions that wait there, readers.
TARGET = {0: (0, "INACTIVE", 0, 0), 1: (90, "NOTIFIED", 0, 1), 2: (40, "RECEIVES_OCCURRING", 0, 2), 3: (0, "", 0, 2)}
UNTRANSMITTED = {"initiator-1": (0, 8, 3, 0), "initiator-2": (1, 7, 2, 0)}


def samples() -> list[tuple[str, int, str, str, float]]:
    """Rows of the record: what the target and two initiators showed at 0, 1, 2 and 3 s."""
    rows: list[tuple[str, int, str, str, float]] = []
    for second, (depth, state, waiting, readers) in TARGET.items():
        at_ns = STARTED_AT_NS + second * NS
        rows.append(("target", at_ns, "queue_depth", "Orders", depth))
        rows.append(("target", at_ns, "transmission_queue_depth", "", 0))
        rows += [("target", at_ns, "queue_monitor", f"Orders\\{state}", waiting)] if state else []
        rows += [("target", at_ns, "activated_tasks", "[Target].[dbo].[Take]", readers)] if readers else []
        for name, depths in UNTRANSMITTED.items():
            rows.append((name, at_ns, "transmission_queue_depth", "", depths[second]))
    return rows


@pytest.fixture
def run(tmp_path: Path) -> Path:
    """A run of two cells; the first has the samples above."""
    write_manifest(tmp_path)
    for cell in (CELL, OTHER):
        write_cell(tmp_path, cell, 20.0, settle_s=1.0, measure_s=1.0, drain_s=0.98)
    write(tmp_path, "samples", Visit(CELL), 1, columns("samples", samples()))
    return tmp_path


def drawn(run: Path, rows: list[tuple[str, int, str, str, float]] | None = None) -> tuple[Course, Sheet]:
    if rows is not None:
        write(run, "samples", Visit(CELL), 1, columns("samples", rows))
    course = queue_course.read(run, CELL.id, 1)
    with style.context(STYLE):
        return course, queue_course.draw(course)


def lines(sheet: Sheet, panel: int) -> dict[str, list[float]]:
    """Numbers of the lines of a panel by name; only the first of several initiators has one."""
    named = {str(line.get_label()): list(line.get_ydata()) for line in sheet.axes[panel].get_lines()}
    return {name: numbers for name, numbers in named.items() if not name.startswith("_")}


def strip(sheet: Sheet) -> list[tuple[str, float, float]]:
    """State, begin and end of each part of the queue monitors' strips."""
    names = {colour: state for state, colour in STATE_COLOURS.items()}
    boxes = [(bar.get_facecolor()[0], bar.get_paths()[0].get_extents()) for bar in sheet.axes[1].collections]
    return [(names[to_hex(colour)], box.x0, box.x1) for colour, box in boxes]


def test_depths_states_and_readers_lie_on_one_axis(run: Path) -> None:
    _, sheet = drawn(run)
    depths, readers = lines(sheet, 0), lines(sheet, 2)
    assert depths["target's queue"] == [0, 90, 40, 0]
    assert depths["transmission queues of the initiators, a line each"] == [0, 8, 3, 0]
    assert readers == {"started by activation": [0, 1, 2, 2], "sessions that wait in RECEIVE": [0, 0, 0, 0]}
    assert strip(sheet) == [
        ("INACTIVE", 0.0, 0.5),
        ("NOTIFIED", 0.5, 1.5),
        ("RECEIVES_OCCURRING", 1.5, 2.5),
        (NO_MONITOR, 2.5, 3.0),
    ]
    assert {ax.get_xlim() for ax in sheet.axes} == {(0.0, 3.0)}
    assert "At most 90 messages were seen in the target's queue, and 8 in a transmission queue." in sheet.subtitle
    marks = {text.get_text().strip() for text in sheet.axes[0].texts}
    assert marks == {"measured", "clients stopped"}


def test_what_an_observer_could_not_read_is_a_gap_with_the_reason(run: Path) -> None:
    at_ns = STARTED_AT_NS + 2 * NS
    failed = ("target", at_ns, "observer_failure", "query timeout expired", 1.0)
    _, sheet = drawn(run, [row for row in samples() if row[:2] != ("target", at_ns)] + [failed])
    assert pd.isna(lines(sheet, 0)["target's queue"][2]) and pd.isna(lines(sheet, 2)["started by activation"][2])
    assert [state for state, *_ in strip(sheet)] == ["INACTIVE", "NOTIFIED", NO_MONITOR]
    assert "The observers failed 1 time: query timeout expired." in sheet.subtitle


@pytest.mark.parametrize(
    "failures, why",
    [
        ([], "No state was seen: no queue of this lab has activation."),
        ([STARTED_AT_NS + second * NS for second in TARGET], "No state was seen: the observers failed, see above."),
    ],
)
def test_a_lab_without_states_says_so_in_their_panel(run: Path, failures: list[int], why: str) -> None:
    depths = [row for row in samples() if row[2] == "queue_depth"]
    _, sheet = drawn(run, [*depths, *(("target", at_ns, "observer_failure", "denied", 1.0) for at_ns in failures)])
    assert [text.get_text() for text in sheet.axes[1].texts] == [why]
    assert bool(sheet.axes[2].texts) == bool(failures)


def test_the_beginning_of_an_id_names_a_cell_if_no_other_begins_so(run: Path, unrendered: None) -> None:
    assert [path.name for path in Run(run).queue_course("i2-t5")] == [
        f"queue-course-{CELL.id}-b1.png",
        f"queue-course-{CELL.id}-b1.svg",
    ]
    for name, block, message in (
        ("i2", 1, f"'i2' matches 2 cells, {CELL.id} to {OTHER.id}: name one"),
        ("i2-t6", 1, "has no cell 'i2-t6'; nearest: i2-t5"),
        ("t5", 1, "has no cell 't5'; its first is i"),
        (CELL.id, 2, f"has no block 2 of {CELL.id}: leave out --block"),
    ):
        with pytest.raises(ResultsError, match=message):
            Run(run).queue_course(name, block=block)


def test_a_cell_that_failed_has_no_course(run: Path) -> None:
    path = run / "raw" / "cells" / f"{CELL.id}-b1-a1.parquet"
    pd.read_parquet(path).assign(outcome="failed", reason="not drained: 3 messages are left").to_parquet(path)
    with pytest.raises(ResultsError, match="has no samples in block 1, as it failed: not drained: 3 messages are left"):
        queue_course.read(run, CELL.id, 1)
    for kept in path.parent.iterdir():
        kept.unlink()
    with pytest.raises(ResultsError, match="has no raw records of cells"):
        queue_course.read(run, CELL.id, 1)
