from dataclasses import dataclass, field

import pandas as pd
import pytest

from harness.figures.results import read
from harness.matrix import all_cells
from tests.results_fixture import write_reduced


@dataclass
class Tables:
    """Reduced tables made by hand; one that a test does not give is absent."""

    cells: pd.DataFrame = field(default_factory=pd.DataFrame)
    seconds: pd.DataFrame = field(default_factory=pd.DataFrame)
    gain: pd.DataFrame = field(default_factory=pd.DataFrame)
    waits: pd.DataFrame = field(default_factory=pd.DataFrame)
    page_spread: pd.DataFrame = field(default_factory=pd.DataFrame)
    latch_share: pd.DataFrame = field(default_factory=pd.DataFrame)
    file_io: pd.DataFrame = field(default_factory=pd.DataFrame)
    techniques: pd.DataFrame = field(default_factory=pd.DataFrame)


@pytest.fixture(scope="session")
def paper_run(tmp_path_factory):
    """A whole matrix with the paper's throughput and gain."""
    return read(write_reduced(tmp_path_factory.mktemp("paper") / "paper", all_cells(), shape="paper"))


@pytest.fixture(scope="session")
def flat_run(tmp_path_factory):
    """A whole matrix in which the 150 trick is worth nothing and nobody waits for a page latch."""
    return read(write_reduced(tmp_path_factory.mktemp("flat") / "flat", all_cells()))
