"""The embedded path, and what a cell costs beside its load: a short sweep on the embedded lab.

Path: messages sent, delivered, activated and stored each second at 1 initiator x 10 threads x 100 bytes, every commit
on disk; goal at least 1,500. Overhead: a cell's time beyond settling, measuring and draining; goal at most 1 s.
"""

import statistics
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from harness.experiments.matrix_run import sweep
from harness.files import journal
from harness.files.journal import Entry
from harness.output.reporting import Reporter

PATH_CELL = "i1-t10-r150-p100-v2008"
LOAD_PHASES = ("settle", "measure", "drain")
GROUP_PHASES = ("lab", "dialogs")  # once a version, once a group: not part of a cell's overhead


@dataclass(frozen=True)
class Size:
    path_measure_s: float
    overhead_cells: tuple[str, ...]
    overhead_measure_s: float
    settle_s: float  # at most


FULL = Size(10, ("i1-t1-*-v2008", "i3-t20-*-v2008", "i3-t50-*-v2008"), 0.5, 2.5)
SMALLEST = Size(1.0, ("i1-t1-r1-p100-v2008",), 0.1, 0.2)  # on a busy machine no call returns within a tenth of a second


def completed(cells: Sequence[str], measure_s: float, settle_s: float, results: Path) -> list[Entry]:
    """Journal lines of the cells that completed."""
    outcome = sweep(
        {"lab": "embedded", "cells": cells, "measure": measure_s, "settle": settle_s, "results": results}, Reporter()
    )
    assert outcome is not None  # None: not confirmed
    return [entry for entry in journal.read(outcome.results / journal.NAME) if entry.outcome == "completed"]


def main(size: Size = FULL) -> None:
    with tempfile.TemporaryDirectory() as directory:
        for entry in completed([PATH_CELL], size.path_measure_s, size.settle_s, Path(directory)):
            print(
                f"path: {entry.sent_per_s:,.0f} sent/s, {entry.processed_per_s:,.0f} stored/s "
                f"at {PATH_CELL} over {size.path_measure_s:g} s (goal 1,500)"
            )
        entries = completed(size.overhead_cells, size.overhead_measure_s, size.settle_s, Path(directory))
    overheads = [
        entry.phases_s["total"] - sum(entry.phases_s.get(name, 0.0) for name in (*LOAD_PHASES, *GROUP_PHASES))
        for entry in entries
    ]
    groups = [entry.phases_s["dialogs"] for entry in entries if "dialogs" in entry.phases_s]
    print(
        f"sweep: overhead per cell median {statistics.median(overheads):.2f} s, largest {max(overheads):.2f} s, "
        f"{len(overheads)} cells (goal 1 s); dialog pools {', '.join(f'{s:.1f} s' for s in groups)}"
    )


if __name__ == "__main__":
    main()
