import io

import pandas as pd
import pytest
from rich.console import Console

from harness.figures import compare
from harness.figures.comparison import differences, pair, ratios
from harness.figures.reduced_run import read
from harness.matrix import all_cells, quick_slice
from harness.records import ResultsError
from tests.results_fixture import manifest, write_reduced

pytestmark = pytest.mark.drawing

SECURE = {"dialog_security": True, "endpoint_encryption": False}
CELLS = quick_slice()


@pytest.fixture
def console():
    return Console(file=io.StringIO(), width=100)


def printed(console):
    return console.file.getvalue()


def of_version(version, names, values, **columns):
    return table(
        server_version=version,
        cell_id=[f"{name}-v{version}" for name in names],
        threads=range(len(names)),
        processed_per_s=values,
        **columns,
    )


def test_cells_without_a_common_version_are_compared_as_means_over_the_versions():
    a = pd.concat([of_version("2005", "xy", [100.0, 40.0]), of_version("2008", "xy", [300.0, 40.0])])
    b = of_version("2022", "xyz", [50.0, 80.0, 1.0])
    both = ratios(*pair(a, b))
    assert list(both.processed_per_s_ratio) == [0.25, 2.0]
    assert list(both.cell_id) == ["i1-t0-r1-p100", "i1-t1-r1-p100"]
    assert set(both.server_version_a) == {"2005 and 2008"} and set(both.server_version_b) == {"2022"}


def test_a_mean_over_versions_is_valid_only_if_all_are():
    a = pd.concat([of_version("2005", "x", [1.0]), of_version("2008", "x", [1.0], valid=False)])
    assert not ratios(*pair(a, of_version("2022", "x", [1.0]))).valid.any()


def table(**columns):
    rows = {
        "server_version": "2008",
        "initiators": 1,
        "threads": 1,
        "dialog_ratio": 1,
        "payload_bytes": 100,
        "total_threads": 1,
        "sent_per_s": 1.0,
        "until_drained_per_s": 1.0,
        "valid": True,
        "latency_us_p50": 1.0,
        "latency_us_p95": 1.0,
    }
    return pd.DataFrame(rows | columns)


def test_a_ratio_is_b_divided_by_a_of_cells_that_both_have():
    a = table(cell_id=["one", "two", "zero"], processed_per_s=[100.0, 50.0, 0.0])
    b = table(cell_id=["two", "zero", "three"], processed_per_s=[75.0, 9.0, 1.0])
    both = ratios(*pair(a, b)).set_index("cell_id")
    assert list(both.index) == ["two", "zero"]
    assert both.processed_per_s_ratio["two"] == 1.5
    assert pd.isna(both.processed_per_s_ratio["zero"])


def test_two_runs_give_figures_side_by_side_and_a_table_of_ratios(tmp_path, console):
    a = write_reduced(tmp_path / "a", CELLS)
    b = write_reduced(tmp_path / "b", CELLS, factor=1.25)
    paths = compare(a, b, console=console)
    folder = tmp_path / "compare-a-b"
    assert {path.parent for path in paths} == {folder}
    names = {"throughput-1-initiator", "throughput-2-initiators", "throughput-3-initiators", "gain", "ratio-map"}
    expected = {f"{name}.{ending}" for name in names for ending in ("png", "svg")} | {"ratios.csv"}
    assert {path.name for path in folder.iterdir()} == {path.name for path in paths} == expected
    written = pd.read_csv(folder / "ratios.csv")
    assert len(written) == len(CELLS)
    assert written.processed_per_s_ratio.between(1.2499, 1.2501).all()
    origin = written[["lab_a", "run_id_a", "lab_b", "run_id_b"]].drop_duplicates()
    assert origin.to_numpy().tolist() == [["embedded", "a", "embedded", "b"]]
    assert "1.250" in printed(console)
    assert "!" not in printed(console)


def test_cells_of_only_one_run_are_left_out_with_a_note(tmp_path, console):
    a = write_reduced(tmp_path / "a", CELLS)
    b = write_reduced(tmp_path / "b", CELLS[:10])
    compare(a, b, tmp_path / "out", console=console, progress=lambda _: None)
    assert len(pd.read_csv(tmp_path / "out" / "ratios.csv")) == 10
    assert "! 14 cells that only a completed are left out" in printed(console)


def test_differing_labs_machines_drivers_and_windows_are_listed(tmp_path):
    machine = manifest("x")["machine"]
    a = read(write_reduced(tmp_path / "a", CELLS[:4]))
    other = {"lab": "sqlserver", "machine": machine | {"processors": 64}, "versions": {"python": "3.13.1"}}
    b = read(write_reduced(tmp_path / "b", CELLS[:4], **other))
    b.cells["measured_s"] = 60.0
    assert differences(a, a) == []
    assert differences(a, b) == [
        "The labs differ: a is embedded, b is sqlserver. Their numbers do not measure one another",
        "The machines differ (processors: 2 / 64)",
        "python differs: 3.11.7 / 3.13.1",
        "The measured windows differ: 1 s / 60 s",
    ]


def test_runs_without_a_common_cell_are_refused(tmp_path, console):
    a = write_reduced(tmp_path / "a", all_cells(("2005",))[:4])
    b = write_reduced(tmp_path / "b", all_cells(("2022",))[4:8])
    with pytest.raises(ResultsError, match="have no completed cell in common, whatever the versions"):
        compare(a, b, console=console)
    assert not (tmp_path / "compare-a-b").exists()


def test_runs_without_a_common_version_are_compared_and_the_output_says_how(tmp_path, console):
    a = write_reduced(tmp_path / "a", quick_slice(("2022", "2025")), lab="sqlserver", shape="paper")
    b = write_reduced(tmp_path / "b", quick_slice(("2008",)), shape="paper")
    paths = compare(a, b, tmp_path / "out", console=console, progress=lambda _: None)
    assert len(pd.read_csv(tmp_path / "out" / "ratios.csv")) == len(CELLS)
    assert {"gain.png", "ratio-map.png"} <= {path.name for path in paths}
    said = " ".join(printed(console).split())
    assert "The runs have no version in common: each cell of a is the mean of 2022 and 2025, of b 2008" in said
    assert "left out" not in said


def test_differing_security_is_listed(tmp_path):
    runs = [
        read(write_reduced(tmp_path / name, CELLS[:4], settings={"dialog_security": secure}))
        for name, secure in (("a", True), ("b", False))
    ]
    assert differences(*runs) == ["dialog_security differs: True / False"]


def test_a_model_compared_with_a_measurement_is_called_a_model(tmp_path, console):
    versions = {"python": "3.11.7"}
    a = write_reduced(tmp_path / "a", CELLS, versions=versions | {"odbc_driver": "microsoft: x"}, settings=SECURE)
    b = write_reduced(tmp_path / "b", CELLS, lab="simulated", versions=versions, settings={"hardware": "paper"})
    compare(a, b, tmp_path / "out", console=console, progress=lambda _: None)
    assert "b: b (simulated lab, a model, 24 cells)" in printed(console)
    assert differences(read(a), read(b)) == [
        "The labs differ: a is embedded, b is simulated. Their numbers do not measure one another"
    ]


def test_differing_models_are_listed(tmp_path):
    def run(name, seed, hold_us):
        model = {"latch.hold_us": {"value": hold_us, "low": 2}, "latch.hand_over_us": {"value": 100, "low": 5}}
        return read(write_reduced(tmp_path / name, CELLS[:4], lab="simulated", seed=seed, model=model))

    assert differences(run("a", 1, 15), run("b", 2, 20)) == ["The models differ (latch.hold_us: 15 / 20; seed: 1 / 2)"]


def test_differing_targets_of_the_same_version_are_listed(tmp_path):
    def run(name, cpus):
        fingerprint = {"server": {"edition": "Developer"}, "system": {"cpu_count": cpus}}
        target = {"name": "target", "lab_version": "2022", "fingerprint": fingerprint}
        initiator = {"name": "initiator-1", "lab_version": "2022", "fingerprint": {"system": {"cpu_count": 99 + cpus}}}
        return read(write_reduced(tmp_path / name, CELLS[:4], lab="sqlserver", instances=[target, initiator]))

    assert differences(run("a", 8), run("b", 16)) == ["The targets of version 2022 differ (cpu_count: 8 / 16)"]


def test_the_extremes_of_many_cells_are_printed(tmp_path, console):
    cells = [cell for cell in all_cells() if cell.initiators == 1 and cell.payload_bytes == 100 and cell.threads < 50]
    compare(write_reduced(tmp_path / "a", cells), write_reduced(tmp_path / "b", cells), console=console)
    assert "12 lowest and 12 highest ratios of 40 cells" in printed(console)
