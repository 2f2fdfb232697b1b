"""A matrix as a TOML file, and the presets of the package."""

import itertools
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.definitions import matrix
from harness.definitions.matrix import Cell
from harness.experiments import matrix_run, selected_cells
from harness.failures import UsageFailure
from harness.files import matrix_file, settings
from harness.files.matrix_file import Axes, Matrix, MatrixError
from harness.files.toml_file import TomlError
from harness.lab.opening import select_lab
from harness.load.payload import HEADER_BYTES

VERSIONS = ("2005", "2008")


def numbers(low: int, high: int) -> st.SearchStrategy[list[int]]:
    return st.lists(st.integers(low, high), min_size=1, max_size=3)


AXES = {
    "initiators": numbers(1, matrix.INITIATORS_MAX),
    "threads": numbers(1, matrix.THREADS_MAX),
    "ratios": numbers(1, matrix.RATIO_MAX),
    "payloads": numbers(matrix.PAYLOAD_BYTES_MIN, matrix.PAYLOAD_BYTES_MAX),
}
MATRICES = st.builds(
    lambda axes, points, versions: Matrix(name="any", axes=axes | versions, points=points),
    st.fixed_dictionaries({}, optional=AXES),
    st.lists(st.fixed_dictionaries({}, optional=AXES), max_size=3),
    st.sampled_from([{}, {"versions": "in turn"}, {"versions": "newest"}]),
)


def read(folder: Path, text: str) -> Matrix:
    path = folder / "mine.toml"
    path.write_text(text)
    return matrix_file.read(str(path))


def cells(of: Matrix, initiators_max: int = 3, **axes: object) -> list[Cell]:
    return of.cells(VERSIONS, initiators_max=initiators_max, given=Axes.model_validate(axes))


@given(MATRICES, st.integers(1, 16), st.integers(0, 9), st.integers(1, 3))
def test_ids_of_any_matrix_parse_back_and_each_pair_is_together(
    of: Matrix, initiators_max: int, seed: int, repeats: int
) -> None:
    found = cells(of, initiators_max)
    assert len(set(found)) == len(found)
    assert [Cell.parse(cell.id) for cell in found] == found
    assert max(cell.initiators for cell in found) <= initiators_max
    for _, block in itertools.groupby(matrix.sweep_order(found, seed, repeats), lambda visit: visit.block):
        pairs = [pair for pair, _ in itertools.groupby(visit.cell.pair for visit in block)]
        assert len(pairs) == len(set(pairs))


@given(MATRICES)
def test_a_manifest_keeps_a_matrix_as_it_was(of: Matrix) -> None:
    assert Matrix.model_validate_json(of.model_dump_json()) == of


def test_paper_is_the_papers_matrix_in_the_order_of_its_axes() -> None:
    assert cells(matrix_file.read("paper")) == matrix.all_cells()
    assert cells(matrix_file.read("paper"), 1) == matrix.all_cells(initiators_max=1)


@pytest.mark.parametrize("versions", [VERSIONS, ("2022",)])
def test_quick_spans_every_axis_with_24_cells_of_the_paper_and_can_test_the_trick(versions: tuple[str, ...]) -> None:
    found = matrix_file.read("quick").cells(versions, initiators_max=3)
    assert len(set(found)) == 24 and set(found) <= set(matrix.all_cells(versions))
    assert {cell.initiators for cell in found} == set(matrix.INITIATORS)
    assert {cell.payload_bytes for cell in found} == set(matrix.PAYLOADS_BYTES)
    assert {cell.server_version for cell in found} == set(versions)
    pairs = {cell.pair for cell in found}
    assert len(pairs) == 12
    of_100_bytes = {initiators * threads for _, initiators, threads, payload in pairs if payload == 100}
    assert {15, 30, 50, 100, 150} <= of_100_bytes


def test_trick_takes_at_most_24_minutes_on_sql_server_and_has_repeats_for_a_verdict(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("MSSQL_INITIATORS", "3")  # as many as the paper's, whatever this machine would have
    chosen = select_lab({"lab": "sqlserver", "matrix": "trick"}, engine_answers=lambda: False)
    visits = selected_cells.visits_on(chosen.topology, chosen.settings)
    assert chosen.settings.repeats >= 3
    assert matrix_run.estimate_s(chosen.settings, visits) <= 24 * 60
    assert {visit.cell.payload_bytes for visit in visits} == {100, 4096}
    assert {visit.cell.dialog_ratio for visit in visits} == {1, 150}
    totals = [visit.cell.total_threads for visit in visits]
    assert min(totals) <= 15 and max(totals) > 150
    assert {cell.initiators for cell in cells(matrix_file.read("trick"), 2)} == {2}


@pytest.mark.parametrize("name", matrix_file.PRESETS)
def test_a_preset_says_what_it_is_for_and_has_cells_on_any_lab(name: str) -> None:
    preset = matrix_file.read(name)
    assert preset.about.endswith((".", "?"))
    assert cells(preset, 1) and cells(preset, 3)


def test_a_file_has_axes_points_exclusions_repeats_and_times(tmp_path: Path) -> None:
    mine = read(
        tmp_path,
        """
        exclude = ["i1-t64-r150"]
        repeats = 3
        [axes]
        threads = [1, 64]
        payloads = ["4 KB", 100]
        versions = "2008"
        [[points]]
        initiators = 2
        payloads = 8000
        [[points]]
        [times]
        settle = "1s"
        measure = "2s"
        [times.embedded]
        measure = "500ms"
        """,
    )
    chosen = select_lab({"lab": "embedded", "matrix": mine})
    found = [visit.cell.id for visit in selected_cells.visits_on(chosen.topology, chosen.settings)]
    assert sorted(set(found)) == sorted(
        [
            *("i2-t1-r1-p8000-v2008", "i2-t1-r150-p8000-v2008", "i2-t64-r1-p8000-v2008", "i2-t64-r150-p8000-v2008"),
            *("i1-t1-r1-p100-v2008", "i1-t1-r150-p100-v2008", "i1-t64-r1-p100-v2008"),
            *("i1-t1-r1-p4096-v2008", "i1-t1-r150-p4096-v2008", "i1-t64-r1-p4096-v2008"),
        ]
    )
    assert len(found) == 3 * 10
    assert (chosen.settings.repeats, chosen.settings.settle, chosen.settings.measure) == (3, 1.0, 0.5)
    own = select_lab({"lab": "embedded", "matrix": mine, "measure": "3s", "repeats": 2}).settings
    assert (own.repeats, own.settle, own.measure) == (2, 1.0, 3.0)


def test_axes_of_the_command_line_replace_those_of_the_matrix_and_of_its_points() -> None:
    quick = matrix_file.read("quick")
    given = cells(quick, threads="1, 7", payloads="3000 4 KB", initiators="1,2", ratios=150)
    assert {(cell.threads, cell.payload_bytes, cell.initiators, cell.dialog_ratio) for cell in given} == set(
        itertools.product((1, 7), (3000, 4096), (1, 2), (150,))
    )


def test_initiators_that_the_lab_has_not_are_an_error_on_the_command_line() -> None:
    chosen = settings.create({"initiators": "2,4"}, environment={})
    with pytest.raises(UsageFailure, match="--initiators: the lab has 3, not 4"):
        selected_cells.chosen_visits(chosen, initiators_max=3)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[axes]\nthreds = 1\n", "mine.toml, line 2: axes.threds: unknown key; nearest: threads"),
        ("[axes]\nthreads = [1, 0]\n", "mine.toml, line 2: axes.threads-2: 0: input should be greater than or equal"),
        ("[axes]\nthreads = true\n", "mine.toml, line 2: axes.threads-1: True: not a number"),
        ("\n[[points]]\npayloads = '9 GB'\n", "mine.toml, line 3: points-1.payloads-1: invalid size"),
        ("[times]\nmeasure = 'long'\n", "mine.toml, line 2: times.measure: invalid duration 'long'"),
        ("[times.sqlserver]\nsettle = '2h'\n", "mine.toml, line 2: times.sqlserver.settle: '2h': input should be less"),
        ("repeats = 0\n", "mine.toml, line 1: repeats: 0: input should be greater"),
        ("name = 'x'\n", "mine.toml, line 1: name: unknown key"),
        ("axes = 1\n", "mine.toml, line 1: axes: must be a table"),
        ("[axes\n", "mine.toml, line 1: not valid TOML"),
    ],
)
def test_a_mistake_is_one_line_with_file_and_line(text: str, message: str, tmp_path: Path) -> None:
    with pytest.raises(TomlError) as caught:
        read(tmp_path, text)
    assert str(caught.value).startswith(message)


def test_a_matrix_without_cells_or_with_too_many_is_refused(tmp_path: Path) -> None:
    with pytest.raises(MatrixError, match="matrix mine: its exclusions leave no cell"):
        cells(read(tmp_path, "exclude = '*'"))
    every = ", ".join(map(str, range(1, 1001)))
    with pytest.raises(MatrixError, match="matrix mine: more than 10,000 cells"):
        cells(read(tmp_path, f"[axes]\nthreads = [{every}]\nratios = [{every}]\n"))


def test_an_exclusion_that_can_match_no_cell_is_refused_with_the_nearest(tmp_path: Path) -> None:
    axes = "[axes]\ninitiators = [1, 3]\nthreads = [10, 50]\n"
    text = r"^matrix mine: exclude 'i3-t55-\*-p100' matches no cell; nearest: i3-t50-r1"
    with pytest.raises(MatrixError, match=text):
        cells(read(tmp_path, f"exclude = ['i1-t10-r1', 'i3-t55-*-p100']\n{axes}"))


def test_an_exclusion_may_match_no_cell_of_a_small_lab_of_another_version_or_of_replaced_axes(tmp_path: Path) -> None:
    mine = read(
        tmp_path, "exclude = ['i3-*', '*-v2022', 'i1-t50-*']\n[axes]\ninitiators = [1, 3]\nthreads = [10, 50]\n"
    )
    assert {cell.threads for cell in cells(mine, 1)} == {10}
    assert {cell.threads for cell in cells(mine, 1, threads=(7,))} == {7}


def test_a_pattern_of_cells_without_a_match_is_refused_beside_others_that_match() -> None:
    with pytest.raises(matrix.UnknownCell, match=r"no cell matches 'i4-t50'; nearest: i\d-t50"):
        matrix.select(matrix.all_cells(), ["i1-t5", "i4-t50"])
    few = [Cell("2022", 1, ratio, 2, 100) for ratio in (1, 150)]
    with pytest.raises(matrix.UnknownCell, match=r"'i4-t50'; there are i1-t2-r1-p100-v2022, i1-t2-r150-p100-v2022$"):
        matrix.select(few, ["i4-t50"])


def test_the_smallest_payload_is_the_header() -> None:
    assert matrix.PAYLOAD_BYTES_MIN == HEADER_BYTES
