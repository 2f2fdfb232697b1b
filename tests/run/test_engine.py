import errno
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.definitions.matrix import Cell, Visit
from harness.failures import StatementRefused
from harness.files.journal import Journal
from harness.files.records import State
from harness.output.reporting import Reporter
from harness.run import in_process
from harness.run.attempt import Measured
from harness.run.cell_failures import CellFailed, NotReady
from harness.run.engine import Attempted, Due, Sweep, SweepStopped, describe
from harness.run.in_process import InProcess
from harness.run.phases import Phases
from tests.noting import NotingReporter

CELLS = [Visit(Cell.parse(f"i1-t{threads}-r1-p100-v2008")) for threads in (1, 2, 3)]
MEASURED = Measured(sent_per_s=10, processed_per_s=9, sent=20, window_s=1, columns={})


class FakeTestbed(in_process.Testbed[Visit]):
    """Runs cells at once; `trouble` may raise for a (cell, attempt)."""

    def __init__(
        self,
        trouble: Callable[[str, int], None] = lambda cell, attempt: None,
        states: Mapping[tuple[str, int], State] = {},
    ) -> None:
        self.trouble = trouble
        self.states = states
        self.ran: list[tuple[str, int]] = []
        self.torn_down = 0

    def run(self, cell: Visit, attempt: int, run: int, phases: Phases) -> Measured:
        self.ran.append((cell.id, attempt))
        self.trouble(cell.id, attempt)
        return replace(MEASURED, state=self.states.get((cell.id, attempt), State.VALID))

    def tear_down(self) -> None:
        self.torn_down += 1

    def close(self) -> None:
        self.tear_down()


SILENT = Reporter()


def sweep(
    testbed: FakeTestbed, folder: Path, free: int = 2**40, *, again: bool = False, reporter: Reporter = SILENT
) -> Sweep:
    return Sweep(
        InProcess(testbed, SILENT),
        Journal(folder / "journal.jsonl"),
        reporter,
        folder,
        together=(lambda visit: visit.block) if again else None,
        free_bytes=lambda path: free,
    )


def failing(*attempts: tuple[str, int], error: Exception | None = None) -> Callable[[str, int], None]:
    def trouble(cell: str, attempt: int) -> None:
        if (cell, attempt) in attempts:
            raise error or CellFailed("initiator-1 was killed by signal 9 (SIGKILL)")

    return trouble


def test_a_failed_cell_is_tried_once_more_on_a_rebuilt_testbed_and_the_sweep_goes_on(tmp_path: Path) -> None:
    testbed = FakeTestbed(failing((CELLS[0].id, 1)))
    tally = sweep(testbed, tmp_path).run(CELLS)
    assert [attempt for _, attempt in testbed.ran] == [1, 2, 1, 1]
    assert (tally.completed, tally.failed) == (3, 0)
    assert testbed.torn_down == 2  # after the failure and at the end
    entries = Journal(tmp_path / "journal.jsonl").entries
    assert [(entry.cell, entry.attempt, entry.outcome) for entry in entries[:2]] == [
        (CELLS[0].id, 1, "failed"),
        (CELLS[0].id, 2, "completed"),
    ]
    assert "signal 9" in entries[0].reason


def test_a_cell_that_fails_twice_is_failed_and_the_sweep_goes_on(tmp_path: Path) -> None:
    tally = sweep(FakeTestbed(failing((CELLS[1].id, 1), (CELLS[1].id, 2))), tmp_path).run(CELLS)
    assert (tally.completed, tally.failed) == (2, 1)


def test_a_cell_that_would_fail_the_same_way_is_not_tried_again_and_the_sweep_goes_on(tmp_path: Path) -> None:
    wrong = failing((CELLS[1].id, 1), error=CellFailed("Divide by zero", is_final=True))
    testbed = FakeTestbed(wrong)
    tally = sweep(testbed, tmp_path).run(CELLS)
    assert [cell for cell, _ in testbed.ran] == [cell.id for cell in CELLS]
    assert (tally.completed, tally.failed) == (2, 1)


def test_an_interrupted_sweep_resumes_with_the_cells_that_are_missing(tmp_path: Path) -> None:
    def interrupt(cell: str, attempt: int) -> None:
        if cell == CELLS[1].id:
            raise KeyboardInterrupt

    testbed = FakeTestbed(interrupt)
    with pytest.raises(KeyboardInterrupt):
        sweep(testbed, tmp_path).run(CELLS)
    assert testbed.torn_down == 1
    resumed = FakeTestbed()
    tally = sweep(resumed, tmp_path).run(CELLS)
    assert [cell for cell, _ in resumed.ran] == [CELLS[1].id, CELLS[2].id]
    assert tally.completed == 3


@given(
    blocks=st.integers(1, 4),
    killed_at=st.integers(0, 11),
    failing_once=st.sets(st.tuples(st.integers(0, 2), st.integers(1, 4))),
)
def test_a_sweep_killed_anywhere_resumes_inside_its_block_and_visits_each_cell_in_each_block_once(
    tmp_path_factory: pytest.TempPathFactory, blocks: int, killed_at: int, failing_once: set[tuple[int, int]]
) -> None:
    folder = tmp_path_factory.mktemp("blocks")
    visits = [Visit(each.cell, block) for block in range(1, blocks + 1) for each in CELLS]
    ended: list[Visit] = []

    class Killed(FakeTestbed):
        def run(self, cell: Visit, attempt: int, run: int, phases: Phases) -> Measured:
            if len(ended) == killed_at:
                raise KeyboardInterrupt
            if (CELLS.index(Visit(cell.cell)), cell.block) in failing_once and attempt == 1:
                raise CellFailed("a moment's trouble")
            ended.append(cell)
            return MEASURED

    try:
        sweep(Killed(), folder).run(visits)
    except KeyboardInterrupt:
        killed_at = -1
        assert sweep(Killed(), folder).run(visits).completed == len(visits)
    assert ended == visits
    journal = Journal(folder / "journal.jsonl")
    assert journal.completed() == {(visit.id, visit.block) for visit in visits}
    assert {(entry.cell, entry.block): entry.attempt for entry in journal.entries if entry.outcome == "completed"} == {
        (visit.id, visit.block): 2 if (CELLS.index(Visit(visit.cell)), visit.block) in failing_once else 1
        for visit in visits
    }


def in_doubt(*attempts: int, state: State = State.UNSETTLED) -> FakeTestbed:
    return FakeTestbed(states={(CELLS[0].id, attempt): state for attempt in attempts})


@pytest.mark.parametrize(
    "attempts, state, expected",
    [
        ([1], State.UNSETTLED, [2]),
        ([1], State.DISTURBED, [2]),
        ([1], State.BEHIND, [2]),
        ([1, 2], State.UNSETTLED, [2, 3]),
        ([1, 2, 3], State.UNSETTLED, [2, 3]),
        ([1], State.SATURATED, []),
        ([1], State.STARVED, []),
    ],
)
def test_a_cell_in_doubt_is_measured_again_when_those_beside_it_have_run_up_to_twice(
    tmp_path: Path, attempts: list[int], state: State, expected: list[int]
) -> None:
    testbed = in_doubt(*attempts, state=state)
    tally = sweep(testbed, tmp_path, again=True).run(CELLS)
    assert testbed.ran == [(each.id, 1) for each in CELLS] + [(CELLS[0].id, attempt) for attempt in expected]
    assert (tally.completed, tally.failed) == (3, 0)


def test_where_more_than_half_are_in_doubt_none_is_measured_again_and_the_user_sees_what_to_do(tmp_path: Path) -> None:
    reporter = NotingReporter()
    testbed = FakeTestbed(states={(each.id, 1): State.UNSETTLED for each in CELLS[:2]})
    sweep(testbed, tmp_path, again=True, reporter=reporter).run(CELLS)
    assert testbed.ran == [(each.id, 1) for each in CELLS]
    [note] = reporter.notes
    assert note.startswith("in doubt: 2 of 3 cells, too many to repeat: ") and "a longer --measure" in note
    assert CELLS[0].id in note and CELLS[1].id in note and CELLS[2].id not in note


def test_the_next_cells_begin_after_a_cell_was_measured_again(tmp_path: Path) -> None:
    testbed = in_doubt(1)
    sweep(testbed, tmp_path, again=True).run([Visit(each.cell, block) for block in (1, 2) for each in CELLS])
    assert [cell for cell, _ in testbed.ran] == [CELLS[place].id for place in (0, 1, 2, 0, 0, 1, 2, 0)]


def test_a_sweep_that_ended_before_a_cell_was_measured_again_does_it_when_resumed(tmp_path: Path) -> None:
    sweep(in_doubt(1), tmp_path).run(CELLS)
    resumed = FakeTestbed()
    sweep(resumed, tmp_path, again=True).run(CELLS)
    assert resumed.ran == [(CELLS[0].id, 2)]


def test_where_measuring_again_fails_the_first_measurement_stays(tmp_path: Path) -> None:
    testbed = in_doubt(1)
    testbed.trouble = failing((CELLS[0].id, 2), (CELLS[0].id, 3))
    tally = sweep(testbed, tmp_path, again=True).run(CELLS)
    assert (tally.completed, tally.failed) == (3, 0)
    assert len(Journal(tmp_path / "journal.jsonl").completed()) == 3


def test_a_cell_that_its_executor_measured_again_is_counted_once(tmp_path: Path) -> None:
    class AtOnce(InProcess[Visit]):
        def run(self, attempts: Sequence[Due[Visit]], on_end: Callable[[Attempted], None]) -> None:
            super().run([due for due in attempts for due in (due, due._replace(attempt=due.attempt + 1))], on_end)

    notes = NotingReporter()
    testbed = in_doubt(1)
    journal = Journal(tmp_path / "journal.jsonl")
    tally = Sweep(AtOnce(testbed, Reporter()), journal, notes, tmp_path, together=lambda visit: visit.block).run(CELLS)
    assert (tally.completed, tally.failed) == (3, 0)
    assert [(entry.cell, entry.attempt) for entry in journal.entries] == testbed.ran
    assert notes.notes[0] == f"{CELLS[0].id} measured again: 10 sent/s, 9 processed/s"


def test_where_many_cells_are_in_doubt_none_is_measured_again(tmp_path: Path) -> None:
    testbed = FakeTestbed(states={(each.id, 1): State.DISTURBED for each in CELLS})
    sweep(testbed, tmp_path, again=True).run(CELLS)
    assert testbed.ran == [(each.id, 1) for each in CELLS]


def test_every_attempt_has_its_own_run_number_for_its_payloads(tmp_path: Path) -> None:
    sweep(FakeTestbed(failing((CELLS[0].id, 1))), tmp_path).run(CELLS[:2])
    sweep(FakeTestbed(), tmp_path).run(CELLS)
    assert [entry.run for entry in Journal(tmp_path / "journal.jsonl").entries] == [1, 2, 3, 4]


def test_a_full_disk_ends_the_sweep_with_the_journal_intact(tmp_path: Path) -> None:
    full = failing((CELLS[1].id, 1), error=OSError(errno.ENOSPC, "No space left on device"))
    with pytest.raises(OSError, match="No space left"):
        sweep(FakeTestbed(full), tmp_path).run(CELLS)
    assert Journal(tmp_path / "journal.jsonl").completed() == {(CELLS[0].id, 1)}


def test_a_cell_that_fails_while_the_disk_is_full_ends_the_sweep(tmp_path: Path) -> None:
    with pytest.raises(OSError, match="No space left"):
        sweep(FakeTestbed(failing((CELLS[0].id, 1))), tmp_path, free=1000).run(CELLS)


def test_a_lab_that_never_comes_up_ends_the_sweep_with_its_reason(tmp_path: Path) -> None:
    broken = failing((CELLS[0].id, 1), (CELLS[0].id, 2), error=NotReady("target ended with exit code 1"))
    with pytest.raises(SweepStopped, match="the lab is not available: target ended with exit code 1"):
        sweep(FakeTestbed(broken), tmp_path).run(CELLS)
    assert len(Journal(tmp_path / "journal.jsonl").entries) == 2


def test_a_script_that_the_server_refuses_ends_the_sweep_at_once(tmp_path: Path) -> None:
    wrong = failing((CELLS[0].id, 1), error=NotReady("order.sql, line 7: Incorrect syntax", is_final=True))
    with pytest.raises(StatementRefused, match=r"^order\.sql, line 7: Incorrect syntax$"):
        sweep(FakeTestbed(wrong), tmp_path).run(CELLS)
    assert len(Journal(tmp_path / "journal.jsonl").entries) == 1


def test_a_cell_that_does_not_count_is_shown_with_the_reason(tmp_path: Path) -> None:
    class Disturbed(FakeTestbed):
        def run(self, cell: Visit, attempt: int, run: int, phases: Phases) -> Measured:
            return replace(
                MEASURED, state=State.DISTURBED, state_reason="the hypervisor took 7 % of the processors' time"
            )

    sweep(Disturbed(), tmp_path).run(CELLS[:1])
    [entry] = Journal(tmp_path / "journal.jsonl").entries
    assert describe(entry) == ("10 sent/s, 9 processed/s, disturbed: the hypervisor took 7 % of the processors' time")
