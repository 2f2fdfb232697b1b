"""The numbers of a measured run to which a model of its machine is fitted, and those that the model then predicts.

Fitted: messages per second of one initiator with every 150th dialog and the smallest payload at 1, 5, 10 and 50
threads, and the processor time of target and initiator at 50. Predicted: all other thread counts, and the cells in
which every dialog is used. Cells are means over the run's server versions, which are repetitions on a lab that imitates
them.

Processor time is in percent of one processor, because the model may have another number of processors.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

from harness.failures import UsageFailure
from harness.figures import reduced_run
from harness.matrix import PAYLOADS_BYTES, Cell
from harness.simulation.bench import CellFigures
from harness.simulation.calibration import ReferenceNumber, ReferenceNumbers, cell_of, rate
from harness.simulation.parameters import Parameters
from harness.whitepaper import BASE_DIALOG_RATIO, TRICK_DIALOG_RATIO

FITTED_THREADS = (1, 5, 10, 50)
_PAYLOAD_BYTES = PAYLOADS_BYTES[0]
_UNIT = "% of a processor"


def numbers_of(folder: Path, model: Parameters) -> ReferenceNumbers:
    """Read the numbers of the run in `folder`; raise UsageFailure if it is a model's or lacks a fitted cell."""
    run = reduced_run.read(folder)
    if run.is_model:
        raise UsageFailure(f"{folder} is a run of the model: choose a measured run, such as one of the embedded lab")
    mine = run.cells[(run.cells.initiators == 1) & (run.cells.payload_bytes == _PAYLOAD_BYTES)]
    measured = mine.groupby(["dialog_ratio", "threads"]).mean(numeric_only=True)
    if missing := [threads for threads in FITTED_THREADS if (TRICK_DIALOG_RATIO, threads) not in measured.index]:
        absent = cell_of(1, missing[0], TRICK_DIALOG_RATIO, _PAYLOAD_BYTES)
        raise UsageFailure(
            f"{folder} has no cell like {absent.id}: choose a run with all cells `i1-*-p{_PAYLOAD_BYTES}-*`"
        )
    rates = {
        (int(ratio), int(threads)): rate(
            f"{threads} threads, ratio {ratio}", float(row.processed_per_s), cell_of(1, threads, ratio, _PAYLOAD_BYTES)
        )
        for (ratio, threads), row in measured.iterrows()
        if ratio in (TRICK_DIALOG_RATIO, BASE_DIALOG_RATIO)
    }
    most = FITTED_THREADS[-1]
    busy = measured.loc[(TRICK_DIALOG_RATIO, most)]
    processors = [
        _processor_time(
            f"{role}'s processors at {most}",
            float(busy[f"{role}_processor_percent"]) * _processors(folder, run.manifest, instance),
            cell_of(1, most, TRICK_DIALOG_RATIO, _PAYLOAD_BYTES),
            role,
            model.processors.count,
        )
        for role, instance in (("target", "target"), ("initiator", "initiator-1"))
    ]
    fitted = [rates.pop((TRICK_DIALOG_RATIO, threads)) for threads in FITTED_THREADS]
    # Ratio 150 first, like the fitted ones.
    others = [number for _, number in sorted(rates.items(), key=lambda one: (-one[0][0], one[0][1]))]
    return ReferenceNumbers(run.run_id, (*fitted, *processors), tuple(others))


def _processor_time(name: str, known: float, cell: Cell, role: str, processors: int) -> ReferenceNumber:
    return ReferenceNumber(name, known, _UNIT, (cell,), partial(_percent_of_one, role, processors))


def _percent_of_one(role: str, processors: int, figures: CellFigures) -> float:
    return processors * (figures.target_percent if role == "target" else figures.initiator_percent)


def _processors(folder: Path, manifest: Mapping[str, Any], instance: str) -> int:
    for one in manifest.get("instances") or []:
        if one.get("name") == instance and str(one.get("cpu_count", "")).isdigit():
            return int(one["cpu_count"])
    raise UsageFailure(f"{folder / 'manifest.json'} does not say how many processors {instance} has (cpu_count)")
