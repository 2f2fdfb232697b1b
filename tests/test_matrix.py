import pytest

from harness import matrix
from harness.matrix import Cell, UnknownCell


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


def test_a_sweep_keeps_groups_together_and_runs_the_two_ratios_of_a_block_as_neighbours():
    cells = matrix.all_cells()
    ordered = [visit.cell for visit in matrix.sweep_order(cells, seed=7)]
    assert sorted(ordered) == sorted(cells)
    groups = [cell.group for index, cell in enumerate(ordered) if index == 0 or ordered[index - 1].group != cell.group]
    assert len(groups) == len(set(groups)) == 12
    for first, second in zip(groups[::2], groups[1::2], strict=True):
        assert first[:2] == second[:2]


def test_the_same_seed_gives_the_same_order_and_another_seed_another():
    cells = matrix.all_cells()
    assert matrix.sweep_order(cells, 1) == matrix.sweep_order(cells, 1) != matrix.sweep_order(cells, 2)


def test_the_quick_slice_spans_every_axis_with_24_cells_and_whole_pairs():
    cells = matrix.quick_slice()
    assert len(set(cells)) == 24
    assert {cell.initiators for cell in cells} == set(matrix.INITIATORS)
    assert {cell.payload_bytes for cell in cells} == set(matrix.PAYLOADS_BYTES)
    assert {cell.server_version for cell in cells} == set(matrix.PAPER_VERSIONS)
    singles = {(c.server_version, c.initiators, c.threads, c.payload_bytes) for c in cells}
    assert len(singles) == 12
