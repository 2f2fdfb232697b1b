"""The kept run of the model is what the code computes: the model is exact, so any difference is a change of it."""

from pathlib import Path

import pytest

from harness.experiments import matrix_run
from harness.files import journal
from harness.output.reporting import Reporter
from tests.thorough import one_of_each

KEPT = Path(__file__).parents[2] / "results" / "reference" / "simulated"
CELLS = [
    f"i{n}-t{t}-r{ratio}-p{size}-v2008"
    for n in (1, 3)
    for t in (1, 5, 15)
    for ratio in (1, 150)
    for size in (100, 8192)
]

FEW = [cell for cell in CELLS if cell.startswith(("i1-t1-", "i1-t5-"))]  # a world of 750 dialogs, not of 6,750


def _rates(folder: Path) -> dict[str, list[tuple[float, float, str]]]:
    """Return what each attempt at a cell of the first block gave."""
    rates: dict[str, list[tuple[float, float, str]]] = {}
    for entry in journal.read(folder / journal.NAME):
        if entry.cell in CELLS and entry.block == 1:
            rates.setdefault(entry.cell, []).append((entry.sent_per_s, entry.processed_per_s, entry.state))
    return rates


@pytest.mark.spark
@pytest.mark.usefixtures("warm_spark")
@pytest.mark.parametrize("cells", one_of_each([FEW, CELLS]), ids=["few", "all"])
def test_the_kept_run_of_the_model_is_what_the_code_computes(cells: list[str], tmp_path: Path) -> None:
    options = {"lab": "simulated", "cells": cells, "seed": 1, "results": tmp_path}
    outcome = matrix_run.sweep(options, Reporter())
    assert outcome is not None and outcome.completed == len(cells)
    kept = _rates(KEPT)
    assert _rates(outcome.results) == {cell: kept[cell] for cell in cells}, (
        "the model computes other rates than it kept: if that is meant, say why in the commit and renew results/reference "
        "with the commands of results/README.md"
    )
