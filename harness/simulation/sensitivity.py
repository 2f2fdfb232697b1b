"""Measure how far the paper's claims move when each parameter of the model moves by a fifth, down and up.

At each step the cells of most claims are run. Then all are reduced together, and each step is judged like any run.
Claims about versions and the techniques are not measured. The claim about the number of cells is left out: it would
tell how many were chosen here.
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields
from pathlib import Path

import numpy as np
import pandas as pd

from harness import claims, reductions
from harness.claims import Judgement
from harness.claims.judgement import GAIN, Tables, amount, is_valid
from harness.definitions.lab_kinds import SIMULATED
from harness.definitions.matrix import INITIATORS, PAYLOADS_BYTES, THREADS, Cell, Visit, all_cells
from harness.definitions.whitepaper import BASE_DIALOG_RATIO, TRICK_DIALOG_RATIO
from harness.figures import reduced_run
from harness.files.records import State
from harness.files.settings import create_simulation
from harness.run import run_folder
from harness.simulation.calibration import VERSION, Bench
from harness.simulation.parameters import Parameters

STEPS = (0.8, 1.2)
COLUMNS = ("lab", "parameter", "factor", "value", "claim", "number", "unit", "verdict")
_OF_THE_CHOICE = "matrix_complete"  # the claim that only counts the cells
_THREADS = (1, 5, 10, 15, 50)
_PAYLOADS_BYTES = (PAYLOADS_BYTES[0], PAYLOADS_BYTES[-1])

Judge = Callable[[Sequence[Parameters]], Sequence[Sequence[Judgement]]]  # such as `judged`


def _is_asked(cell: Cell) -> bool:
    if cell.server_version != VERSION or cell.payload_bytes not in _PAYLOADS_BYTES or cell.threads not in _THREADS:
        return False
    of_all_initiators = cell.initiators == INITIATORS[-1]
    of_the_peaks = cell.dialog_ratio == TRICK_DIALOG_RATIO and cell.payload_bytes == _PAYLOADS_BYTES[0]
    return of_all_initiators or (of_the_peaks and (cell.threads == THREADS[-1] or cell.initiators == 1))


CELLS = tuple(cell for cell in all_cells() if _is_asked(cell))


@dataclass(frozen=True)
class Moved:
    """The judgements of all claims with one parameter at another value."""

    parameter: str
    factor: float
    value: float  # limited by the bounds, and whole if it is a count
    judgements: Sequence[Judgement]


def sensitivity(judge: Judge, parameters: Parameters, names: Sequence[str]) -> tuple[Sequence[Judgement], list[Moved]]:
    """Judge at the parameters as they are, and with each lower and higher."""
    steps = [
        (name, factor, parameters.nearest(name, parameters.value(name) * factor)) for name in names for factor in STEPS
    ]
    base, *moved = judge([parameters, *(parameters.with_values({name: value}) for name, _, value in steps)])
    return base, [Moved(*step, judgements) for step, judgements in zip(steps, moved, strict=True)]


def labels(names: Sequence[str]) -> list[str]:
    """Return what each model of `sensitivity` is, in their order: `as they are`, `send_us × 0.8` ..."""
    return ["as they are", *(f"{name} × {factor:g}" for name in names for factor in STEPS)]


def judged(
    bench: Bench,
    models: Sequence[Parameters],
    cells: Sequence[Cell] = CELLS,
    *,
    on_measured: Callable[[int], None] = lambda finished: None,
) -> list[Sequence[Judgement]]:
    """Run cells at the costs of each model and judge the claims; `on_measured` gets the number of models measured.

    Each model is a block of one run, because a single reduction costs a fraction of one for each model.
    """
    # In the bench's folder, which is removed even if this is interrupted.
    results = Path(tempfile.mkdtemp(dir=bench.folder))
    turns = [(model, Visit(cell, block)) for block, model in enumerate(models, 1) for cell in cells]
    for finished, _ in enumerate(bench.visits(turns, results=results), 1):
        if finished % len(cells) == 0:
            on_measured(finished // len(cells))
    circumstances = run_folder.new_manifest("sensitivity", create_simulation({}), cells=len(turns), driver=None)
    run_folder.write_manifest(results, circumstances | {"model": models[0].as_manifest()})
    reductions.reduce(results)
    run = reduced_run.read(results)
    shutil.rmtree(results)
    steps = (
        claims.evaluate(of_step(run, block), lab=SIMULATED.name, hardware=model.name, by_number=True)
        for block, model in enumerate(models, 1)
    )
    return [[judgement for judgement in step if judgement.claim.key != _OF_THE_CHOICE] for step in steps]


def of_step(run: Tables, block: int) -> Tables:
    """Return the rows of a step's block as those of a run of its own, in which unsettled cells count.

    Whether a cell is called steady after a second is partly chance. Without it a claim would be judged by another cell,
    and its number would tell that and not what the parameter does.
    """
    tables = {part.name: getattr(run, part.name) for part in fields(Tables)}
    mine = {
        name: table[table.block == block].assign(block=1) if "block" in table else table
        for name, table in tables.items()
    }
    cells, gain = mine["cells"], mine["gain"]
    cells["state"] = cells.state.replace(State.UNSETTLED, State.VALID)
    counting = pd.MultiIndex.from_frame(cells.loc[is_valid(cells), GAIN])
    pairs = (gain[GAIN], gain[GAIN].assign(dialog_ratio=BASE_DIALOG_RATIO))
    gain["valid"] = np.logical_and.reduce([pd.MultiIndex.from_frame(pair).isin(counting) for pair in pairs])
    return Tables(**mine)


def ranges(base: Sequence[Judgement], moved: Sequence[Moved]) -> list[list[str]]:
    """One row for each claim whose number moves: its number now, least and most with the parameter that caused it, and
    the steps at which its verdict differs."""
    rows = []
    for place, as_is in enumerate(base):
        steps = [(step, measured) for step in moved if (measured := step.judgements[place].measured) is not None]
        if as_is.measured is None or {measured.value for _, measured in steps} <= {as_is.measured.value}:
            continue
        ends = [
            f"{amount(measured.value, as_is.claim.unit)} ({_named(step)})"
            for step, measured in (end(steps, key=lambda step_: step_[1].value) for end in (min, max))
        ]
        turns = [_named(step) for step in moved if step.judgements[place].verdict != as_is.verdict]
        number = f"{amount(as_is.measured.value, as_is.claim.unit)}, {as_is.verdict}"
        rows.append([as_is.claim.statement, number, *ends, ", ".join(turns)])
    return rows


def rows(base: Sequence[Judgement], moved: Sequence[Moved]) -> list[list[str]]:
    """One row for each claim and step, with the columns `COLUMNS`; the first step is the unchanged parameters."""
    steps = [(("", "", ""), base)]
    steps += [((step.parameter, f"{step.factor:g}", f"{step.value:g}"), step.judgements) for step in moved]
    lab = SIMULATED.name  # for a table that left its folder
    return [
        [
            lab,
            *step,
            judgement.claim.key,
            f"{judgement.measured.value:.6g}" if judgement.measured else "",
            judgement.claim.unit,
            judgement.verdict,
        ]
        for step, judgements in steps
        for judgement in judgements
    ]


def _named(step: Moved) -> str:
    return f"{step.parameter} × {step.factor:g}"
