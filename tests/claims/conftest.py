import pytest

from harness.definitions.matrix import all_cells
from harness.figures.reduced_run import read
from tests.results_fixture import write_reduced


@pytest.fixture(scope="session")
def paper_run(tmp_path_factory):
    """A whole matrix with the paper's throughput and gain."""
    return read(write_reduced(tmp_path_factory.mktemp("paper") / "paper", all_cells(), shape="paper"))


@pytest.fixture(scope="session")
def flat_run(tmp_path_factory):
    """A whole matrix in which the 150 trick is worth nothing and nobody waits for a page latch."""
    return read(write_reduced(tmp_path_factory.mktemp("flat") / "flat", all_cells()))
