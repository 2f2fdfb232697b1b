"""The topology as measured: which boxes a figure has, and that texts of servers stay in them."""

from pathlib import Path
from typing import Any

import pytest
from matplotlib import style
from matplotlib.text import Text

from harness.definitions.matrix import all_cells
from harness.figures import build, topology
from harness.figures.reduced_run import Missing, read
from tests.results_fixture import write_reduced


def instance(name: str, version: str, server: str) -> dict[str, Any]:
    return {
        "name": name,
        "lab_version": version,
        "server_name": server,
        "product_version": "16.0.4135.4",
        "cpu_count": "16",
        "physical_memory_kb": str(64 * 1024**2),
        "fingerprint": {"system": {"scheduler_count": 8}},
    }


@pytest.mark.parametrize(("initiators", "boxes"), [(2, 2), (6, 4)])
def test_instances_are_boxes_with_what_they_run_on(tmp_path: Path, initiators: int, boxes: int) -> None:
    names = ["target", *(f"initiator-{number}" for number in range(1, initiators + 1))]
    instances = [
        instance(name, "2022", "SQLPROD-CLUSTER-01\\INSTANCE_OF_MEASUREMENTS_0001") for name in reversed(names)
    ]
    older = [instance(name, "2019", "old") for name in names]
    cells = [cell for cell in all_cells(("2019", "2022")) if cell.threads == 1]
    run = read(write_reduced(tmp_path / "run", cells, lab="sqlserver", instances=older + instances))
    with style.context(build.STYLE):
        sheet = topology.draw(run)
        build.frame(sheet, "", ["foot"])
        texts = [text.get_text() for text in sheet.axes[0].findobj(Text)]
        for text in sheet.axes[0].texts:
            box = sheet.axes[0].transData.inverted().transform(text.get_window_extent())
            assert box[1][0] <= 1.01, text.get_text()
    assert [text for text in texts if text.startswith("initiator-")] == [
        f"initiator-{number}" for number in range(boxes, 0, -1)
    ]
    assert sum("16 processors, 8 schedulers\n64 GB of memory" in text for text in texts) == boxes + 1
    assert not any("old" in text for text in texts)
    assert ("2 more initiators are like these." in sheet.subtitle) == (initiators == 6)
    assert "figure-1-topology" in build.drawings(run)


def test_instances_of_another_version_alone_are_no_topology(tmp_path: Path) -> None:
    run = read(write_reduced(tmp_path / "run", all_cells(("2022",))[:8], instances=[instance("target", "2019", "old")]))
    with pytest.raises(Missing, match="does not say on what version 2022 ran"):
        topology.draw(run)


def test_a_run_without_instances_has_no_such_figure(tmp_path: Path) -> None:
    run = read(write_reduced(tmp_path / "run", all_cells()[:8]))
    assert "figure-1-topology" not in build.drawings(run)
