import pytest

from harness.matrix import all_cells, quick_slice
from tests.results_fixture import write_reduced

FIGURES = [
    "figure-2-throughput-1-initiator",
    "figure-3-throughput-2-initiators",
    "figure-4-throughput-3-initiators",
    "figure-5-gain",
    "gain-map",
    "waits",
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
    return write_reduced(tmp_path_factory.mktemp("quick") / "20261121-0900-quick", quick_slice())
