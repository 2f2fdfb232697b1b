"""What the lab in virtual time costs: all cells of the matrix, and a thousand seeds of faults.

    python -m tests.benchmarks.simulation [--cells PATTERN]

The budgets on two cores: 5 minutes and 2 GiB for the 528 cells, 3 minutes for the seeds. The exit code is 1 if one is
exceeded, or a cell or a seed fails.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from harness.experiments import matrix_run
from harness.files import journal
from harness.output.reporting import Lines
from harness.run import run_folder
from tests.benchmarks.reduction import GIB, measure

BUDGET_CELLS_S, BUDGET_CELLS_BYTES = 300, 2 * GIB
BUDGET_SEEDS_S = 180


@dataclass(frozen=True)
class Size:
    settings: Mapping[str, Any]  # of the run of cells
    seeds: int


FULL = Size({}, seeds=1000)
# The axes decide on the world: with both ratios it has 7,500 dialogs for the one cell too.
SMALLEST = Size({"ratios": 1, "cells": ("i1-t1-r1-p100-v2008",)}, seeds=2)


def main(size: Size = FULL) -> bool:
    """Whether every cell and seed completed and the budgets were kept."""
    cells = _measure_cells(size.settings)
    seeds = _measure_seeds(size.seeds)
    return cells and seeds


def _measure_cells(settings: Mapping[str, Any]) -> bool:
    outcomes = []
    with tempfile.TemporaryDirectory(prefix="harness-benchmark-") as folder:
        elapsed_s, peak_bytes = measure(
            "cells in virtual time",
            lambda: outcomes.append(matrix_run.sweep({**settings, "lab": "simulated", "results": folder}, Lines())),
        )
        [outcome] = outcomes
        assert outcome is not None  # None: not confirmed
        entries = list(journal.read(outcome.results / journal.NAME))
        times = run_folder.read_manifest(outcome.results)["settings"]
    messages = (times["settle"] + times["measure"]) * sum(entry.sent_per_s for entry in entries)
    cells_s = sum(entry.phases_s["total"] for entry in entries)
    print(f"  {outcome.completed} of {outcome.total} cells completed, {messages:,.0f} messages", end="")
    print(f": {cells_s / messages * 1e6:,.0f} us each, all in" if messages else "")
    within = elapsed_s <= BUDGET_CELLS_S and peak_bytes <= BUDGET_CELLS_BYTES
    print(f"  {_word(within)} the budget of {BUDGET_CELLS_S} s and {BUDGET_CELLS_BYTES / GIB:.0f} GiB")
    return within and outcome.completed == outcome.total


def _measure_seeds(count: int) -> bool:
    codes = []
    command = [sys.executable, "-m", "harness", "simulate", "--faults", "--seeds", str(count)]
    elapsed_s, _ = measure(
        f"{count:,} seeds of faults", lambda: codes.append(subprocess.run(command, check=False).returncode)
    )
    within = elapsed_s <= BUDGET_SEEDS_S
    print(f"  {_word(within)} the budget of {BUDGET_SEEDS_S} s" + ("; FAILED" if codes != [0] else ""))
    return within and codes == [0]


def _word(within: bool) -> str:
    return "within" if within else "OVER"


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cells", action="append", default=[], help="shell pattern on cell ids")
    sys.exit(not main(Size({"cells": tuple(parser.parse_args().cells)}, FULL.seeds)))
