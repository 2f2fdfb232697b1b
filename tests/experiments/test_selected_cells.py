"""Cells that one rate fits, and those of a workload with bodies of its own."""

from pathlib import Path

import pytest

from harness.experiments.selected_cells import cell_of, chosen_visits, visits_on
from harness.failures import UsageFailure
from harness.files import settings, workload_file
from harness.files.settings import SettingsError
from harness.lab.opening import Topology, select_lab

TARGET = '[target]\nscripts = ["a.sql"]\nactivation_procedure = "dbo.Receive"\n'


@pytest.fixture
def sized(tmp_path: Path) -> str:
    """The folder of a workload whose bodies have 100 or 500 bytes."""
    folder = tmp_path / "orders"
    folder.mkdir()
    (folder / "workload.toml").write_text(f"{TARGET}[body]\nsize = {{histogram = [[100, 3], [500, 1]]}}\n")
    (folder / "a.sql").write_text("")
    return str(folder)


def test_the_payload_of_every_cell_is_the_mean_of_the_sizes(sized: str) -> None:
    topology = Topology(workload=workload_file.read(sized))
    assert cell_of(None, {"threads": "5"}, topology).payload_bytes == 200
    assert cell_of("i1-t1-r1-p200-v2008", {}, topology).payload_bytes == 200
    chosen = select_lab({"lab": "embedded", "workload": sized, "matrix": "quick"})
    assert {visit.cell.payload_bytes for visit in visits_on(chosen.topology, chosen.settings)} == {200}


@pytest.mark.parametrize("cell, axes", [("i1-t1-r1-p100-v2008", {}), (None, {"payload_bytes": "4 KB"})])
def test_another_payload_is_refused(sized: str, cell: str | None, axes: dict[str, str]) -> None:
    with pytest.raises(UsageFailure, match=r"workload.toml, line 5: the bodies of orders .* mean, 200 bytes, not"):
        cell_of(cell, axes, Topology(workload=workload_file.read(sized)))


def test_one_rate_does_not_go_with_the_whole_paper_but_with_another_matrix() -> None:
    with pytest.raises(SettingsError, match="--rate is the same for all cells: select those that it fits"):
        chosen_visits(settings.create({"rate": "5/s"}, environment={}))
    assert chosen_visits(settings.create({"rate": "5/s", "matrix": "quick"}, environment={}))
