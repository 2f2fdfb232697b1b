import itertools
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.definitions import matrix
from harness.definitions.matrix import Cell, UnknownCell


def test_the_matrix_has_the_papers_528_cells_each_once():
    ids = [cell.id for cell in matrix.all_cells()]
    assert len(ids) == len(set(ids)) == 528


def test_an_id_names_its_cell():
    cell = Cell("2008", 3, 150, 50, 8192)
    assert cell.id == "i3-t50-r150-p8192-v2008"
    assert Cell.parse(cell.id) == cell
    assert cell.total_threads == 150


@pytest.mark.parametrize("text", ["", "i1", "i1-t5-r1-p100", "i1-t5-r1-p100-v2008-x", "I1-T5-R1-P100-V2008"])
def test_an_invalid_cell_id_is_refused(text):
    with pytest.raises(ValueError, match="invalid cell id"):
        Cell.parse(text)


@pytest.mark.parametrize(("pattern", "count"), [("i1-t5-*", 16), ("i1-t5", 16), ("*-v2008", 264), ("*", 528)])
def test_patterns_select_cells(pattern, count):
    assert len(matrix.select(matrix.all_cells(), [pattern])) == count


def test_several_patterns_select_their_union_in_the_order_of_the_matrix():
    cells = matrix.all_cells()
    chosen = matrix.select(cells, ["i2-*", "i1-t1-*"])
    assert chosen == [cell for cell in cells if cell.initiators == 2 or (cell.initiators, cell.threads) == (1, 1)]


def test_a_pattern_that_matches_nothing_names_the_nearest_cells():
    with pytest.raises(UnknownCell, match=r"'i1-t6-r1-p100-v2008'; nearest: i1-t\d+-r1-p100-v2008"):
        matrix.select(matrix.all_cells(), ["i1-t6-r1-p100-v2008"])


def changes(values):
    """The values without those that repeat the one before."""
    return [value for value, _ in itertools.groupby(values)]


SOME_CELLS = st.lists(st.sampled_from(matrix.all_cells(ratios=(1, 50, 150))), min_size=1, max_size=40, unique=True)


@given(SOME_CELLS, st.integers(0, 2**32 - 1), st.integers(1, 6))
def test_every_block_visits_each_cell_once_with_groups_and_pairs_together(cells, seed, repeats):
    visits = matrix.sweep_order(cells, seed, repeats)
    assert [block for block, _ in itertools.groupby(visits, lambda visit: visit.block)] == list(range(1, repeats + 1))
    for block in range(1, repeats + 1):
        ordered = [visit.cell for visit in visits if visit.block == block]
        assert sorted(ordered) == sorted(cells)
        for name in ("server_version", "group", "pair"):
            seen = changes([getattr(cell, name) for cell in ordered])
            assert len(seen) == len(set(seen)), name
        assert [visit.cell for visit in matrix.block_order(cells, seed, block)] == ordered


@given(SOME_CELLS, st.integers(0, 2**32 - 1))
def test_interleaved_versions_follow_one_another_at_every_point_in_both_orders(cells, seed):
    ordered = [visit.cell for visit in matrix.block_order(cells, seed, 1, interleaved=True)]
    assert sorted(ordered) == sorted(cells)
    for name in ("initiators", "pair"):
        seen = changes([getattr(cell, name) for cell in ordered])
        assert len(seen) == len(set(seen)), name
    points = changes([cell.pair[1:] for cell in ordered])
    assert len(points) == len(set(points))


def test_either_interleaved_version_is_first_at_about_half_of_the_points():
    pairs = changes([visit.cell.pair for visit in matrix.block_order(matrix.all_cells(), 1, 1, interleaved=True)])
    assert 46 < sum(version == "2005" for version, *_ in pairs[::2]) < 86


@given(SOME_CELLS, st.integers(0, 2**32 - 1), st.integers(1, 9))
def test_each_ratio_of_a_pair_is_first_equally_often_give_or_take_one(cells, seed, repeats):
    first = Counter()
    for _, block in itertools.groupby(matrix.sweep_order(cells, seed, repeats), lambda visit: visit.block):
        for pair, members in itertools.groupby(block, lambda visit: visit.cell.pair):
            first[pair, next(members).cell.dialog_ratio] += 1
    for cell in cells:
        ratios = sum(other.pair == cell.pair for other in cells)
        assert repeats // ratios <= first[cell.pair, cell.dialog_ratio] <= -(-repeats // ratios)


def test_in_the_first_block_each_ratio_is_first_in_about_half_of_the_pairs():
    visits = matrix.block_order(matrix.all_cells(), 1, 1)
    assert 100 < sum(visit.cell.dialog_ratio == 1 for visit in visits[::2]) < 164


def test_a_run_has_six_groups_that_share_a_pool_and_blocks_differ_in_their_order():
    cells = matrix.all_cells()
    first, second = (matrix.block_order(cells, 1, block) for block in (1, 2))
    assert len(changes([visit.cell.group for visit in first])) == 6
    assert [visit.cell for visit in first] != [visit.cell for visit in second]


def test_the_same_seed_gives_the_same_order_and_another_seed_another():
    cells = matrix.all_cells()
    assert matrix.sweep_order(cells, 1) == matrix.sweep_order(cells, 1) != matrix.sweep_order(cells, 2)
