import shutil
from pathlib import Path
from typing import NamedTuple

import pandas as pd
import pytest
from matplotlib import style

from harness.definitions.matrix import all_cells
from harness.figures import build, sharing
from harness.figures.build import draw
from harness.figures.parts import Sheet
from tests.results_fixture import quick_cells, write_reduced

FIGURES = [
    "figure-2-throughput-1-initiator",
    "figure-3-throughput-2-initiators",
    "figure-4-throughput-3-initiators",
    "figure-5-gain",
    "gain-map",
    "waits",
    "page-latches",
    "page-spread",
    "log-writes",
    "latency",
    "end-to-end",
    "queues",
]


@pytest.fixture(scope="session")
def flat_run(tmp_path_factory):
    """A whole matrix in which the 150 trick is worth nothing."""
    return write_reduced(tmp_path_factory.mktemp("flat") / "20261121-0900-flat", all_cells())


@pytest.fixture(scope="session")
def paper_run(tmp_path_factory):
    """A whole matrix with the paper's throughput and gain."""
    return write_reduced(tmp_path_factory.mktemp("paper") / "20261121-0900-paper", all_cells(), shape="paper")


@pytest.fixture(scope="session")
def quick_run(tmp_path_factory):
    """The 24 cells of `make quick`: one point a line, one version a point."""
    return write_reduced(tmp_path_factory.mktemp("quick") / "20261121-0900-quick", quick_cells(), shape="paper")


@pytest.fixture(scope="session")
def plain_run(tmp_path_factory):
    """One version that waits for its logs only, alike with both ratios and at both roles; page latches of one table;
    latencies of 6 to 18 ms."""
    cells = [cell for cell in all_cells() if cell.server_version == "2008"]
    run = write_reduced(tmp_path_factory.mktemp("plain") / "20261121-0900-plain", cells, shape="paper")
    tables = {name: pd.read_parquet(run / "reduced" / f"{name}.parquet") for name in ("cells", "waits", "latch_share")}
    measured = tables["cells"]
    for column in ("latency_us_p50", "latency_us_p95"):
        measured[column] = 6000 + 12_000 * measured.threads / measured.threads.max()
    waits = tables["waits"][tables["waits"].wait_type == "WRITELOG"]
    tables["waits"] = waits.assign(wait_time_ms=1000)
    latches = tables["latch_share"]
    tables["latch_share"] = latches[latches.object_name == "sys.sysdesend"]
    for name, table in tables.items():
        table.to_parquet(run / "reduced" / f"{name}.parquet", index=False)
    return run


class Drawn(NamedTuple):
    folder: Path
    files: list[Path]  # that were reported
    sheets: dict[str, Sheet]  # by name


@pytest.fixture(scope="session")
def drawn_run(quick_run, tmp_path_factory):
    """A copy of `quick_run` that was drawn, which takes ten seconds."""
    run = shutil.copytree(quick_run, tmp_path_factory.mktemp("drawn") / "20261121-0900-quick")
    sheets, save = {}, Sheet.savefig

    def keep(sheet, path, **options):
        sheets[path.stem] = sheet
        save(sheet, path, **options)

    with pytest.MonkeyPatch.context() as patch, style.context(build.STYLE):
        patch.setattr(Sheet, "savefig", keep)
        patch.setattr(sharing, "is_worth_it", lambda: False)
        files = draw(run)
        for sheet in sheets.values():
            sheet.draw_without_rendering()  # texts have the sizes of the screen again, not those of the SVG
    return Drawn(run, files, sheets)


@pytest.fixture(autouse=True)
def one_process(monkeypatch):
    """Figures are drawn in the process of the test alone: a second one takes two seconds to start."""
    monkeypatch.setattr(sharing, "is_worth_it", lambda: False)


@pytest.fixture
def unrendered(monkeypatch):
    """Figures are drawn, but neither laid out nor rendered: their files are empty. For a test that looks into none."""
    monkeypatch.setattr(build, "frame", lambda *_: None)
    monkeypatch.setattr(Sheet, "savefig", lambda self, path, **_: path.touch())


@pytest.fixture(scope="session")
def server_run(tmp_path_factory):
    """One version of SQL Server and one initiator, as of somebody's own servers."""
    cells = [cell for cell in all_cells(("2022",)) if cell.initiators == 1]
    folder = tmp_path_factory.mktemp("server") / "20261121-0900-sqlserver"
    return write_reduced(folder, cells, shape="paper", lab="sqlserver")
