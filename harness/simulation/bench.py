"""Measure cells at given costs, each on a fork of a warmed world: for calibration and sensitivity."""

from __future__ import annotations

import contextlib
import tempfile
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq

from harness import records
from harness.failures import MachineFailure
from harness.matrix import PAPER_VERSIONS, Cell
from harness.simulation import forks, simulated_cell
from harness.simulation.parameters import Parameters
from harness.simulation.simulated_cell import Times, WarmedWorld
from harness.sweep.attempt import CellFailed
from harness.whitepaper import BASE_DIALOG_RATIO, TRICK_DIALOG_RATIO

TIMES = Times(settle=0.5, measure=1.0)
VERSION = PAPER_VERSIONS[-1]


class BenchFailed(MachineFailure):
    """A cell gave no numbers; the message names it and says why."""


@dataclass(frozen=True)
class CellFigures:
    """The results of a cell."""

    processed_per_s: float
    initiator_percent: float  # of all its processors, the mean of the initiators
    target_percent: float


FiguresByCell = Mapping[Cell, CellFigures]


class Bench:
    """CellRunner worlds of both dialog ratios."""

    def __init__(self, parameters: Parameters, *, seed: int) -> None:
        """Build the worlds, which takes some seconds of real time."""
        self._worlds = {
            ratio: WarmedWorld(parameters, VERSION, ratio, seed=seed)
            for ratio in (TRICK_DIALOG_RATIO, BASE_DIALOG_RATIO)
        }
        self._folder = tempfile.TemporaryDirectory(ignore_cleanup_errors=True)

    def __enter__(self) -> Bench:
        return self

    def __exit__(self, *_: object) -> None:
        self._folder.cleanup()

    @property
    def folder(self) -> Path:
        """A folder for records that exists as long as the bench."""
        return Path(self._folder.name)

    def measure(self, parameters: Parameters, cells: Iterable[Cell], *, results: Path | None = None) -> FiguresByCell:
        """Measure cells of the worlds' dialog ratios and version at the costs of `parameters`, or raise BenchFailed.

        Raw records are kept if there is a folder for `results`.
        """
        actions = [
            (cell, partial(_measure, self._worlds[cell.dialog_ratio], parameters, cell, results, self.folder))
            for cell in cells
        ]
        found = {}
        with contextlib.closing(forks.in_forks(actions)) as ended:
            for cell, fork in ended:
                try:
                    found[cell] = fork.result()
                except (MachineFailure, CellFailed) as failure:
                    raise BenchFailed(f"{cell.id}: {' '.join(str(failure).split())}") from None
        return found


def _measure(world: WarmedWorld, parameters: Parameters, cell: Cell, kept: Path | None, folder: Path) -> CellFigures:
    world.lab.world.change_costs(parameters)
    with contextlib.nullcontext(kept) if kept else tempfile.TemporaryDirectory(dir=folder) as own:
        results = Path(own)
        measured = simulated_cell.run(world.lab, cell, 1, TIMES, results, pages=world.pages)
        rows = pq.read_table(records.raw_path(results, "processors", cell, 1)).to_pylist()
    if not measured.processed_per_s:
        raise CellFailed("no message was processed in its window")
    percent = {
        row["instance"]: 100 * row["processor_time_ms"] * 1e6 / (row["window_ns"] * row["processors"]) for row in rows
    }
    return CellFigures(
        measured.processed_per_s,
        float(np.mean([value for name, value in percent.items() if name != "target"])),
        percent["target"],
    )
