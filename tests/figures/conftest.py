import shutil

import pytest

from harness.figures import draw
from harness.matrix import all_cells, quick_slice
from tests.results_fixture import write_reduced

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
    return write_reduced(tmp_path_factory.mktemp("quick") / "20261121-0900-quick", quick_slice(), shape="paper")


@pytest.fixture(scope="session")
def drawn_run(quick_run, tmp_path_factory):
    """A copy of `quick_run` that was drawn, which takes ten seconds, and the files that were reported."""
    run = shutil.copytree(quick_run, tmp_path_factory.mktemp("drawn") / "20261121-0900-quick")
    return run, draw(run)


@pytest.fixture(scope="session")
def server_run(tmp_path_factory):
    """One version of SQL Server and one initiator, as of somebody's own servers."""
    cells = [cell for cell in all_cells(("2022",)) if cell.initiators == 1]
    folder = tmp_path_factory.mktemp("server") / "20261121-0900-sqlserver"
    return write_reduced(folder, cells, shape="paper", lab="sqlserver")
