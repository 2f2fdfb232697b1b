"""How a Spark job deals cells to workers: in slices, balanced by the work that they are expected to take."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.definitions.matrix import Cell, Visit, all_cells
from harness.simulation.simulated_cell import WorldSize
from harness.simulation.spark_job import PlannedAttempt, cell_work_s, elapsed_s, group_work_s, slices

SIZE = WorldSize.of(all_cells())
ATTEMPTS = [PlannedAttempt(Visit(cell), 1, cell_work_s(cell, 1.5)) for cell in all_cells()]


@given(st.lists(st.sampled_from(ATTEMPTS), unique=True), st.integers(1, 64))
def test_every_attempt_is_in_one_slice_of_its_own_group(attempts: list[PlannedAttempt], workers: int) -> None:
    cut = slices(attempts, workers, SIZE)
    dealt = [attempt for part in cut for attempt in part.attempts]
    assert len(dealt) == len(attempts) and set(dealt) == set(attempts)
    for part in cut:
        assert {attempt.cell.server_version for attempt in part.attempts} == {part.server_version}


def test_two_workers_build_a_world_of_each_version_once_and_end_together() -> None:
    cut = slices(ATTEMPTS, 2, SIZE)
    assert sorted((part.server_version, len(part.attempts)) for part in cut) == [("2005", 264), ("2008", 264)]
    assert elapsed_s(cut, 2) == pytest.approx(sum(part.work_s for part in cut) / 2)


def test_the_longest_slices_and_in_them_the_longest_cells_come_first() -> None:
    cut = slices(ATTEMPTS, 8, SIZE)
    assert [part.work_s for part in cut] == sorted((part.work_s for part in cut), reverse=True)
    for part in cut:
        work_s = [attempt.work_s for attempt in part.attempts]
        assert work_s == sorted(work_s, reverse=True)


def test_more_workers_take_less_time_until_worlds_dominate() -> None:
    times = [elapsed_s(slices(ATTEMPTS, workers, SIZE), workers) for workers in (1, 2, 4, 8, 16)]
    assert times == sorted(times, reverse=True)
    assert times[-1] > group_work_s(SIZE)


def test_more_threads_initiators_and_used_dialogs_on_pages_of_their_own_are_more_work() -> None:
    small, large, shared = (
        cell_work_s(Cell.parse(cell), 1.5)
        for cell in ("i1-t1-r150-p100-v2008", "i3-t50-r150-p100-v2008", "i3-t50-r1-p100-v2008")
    )
    assert small < shared < large
