"""Measure how far the paper's claims move when all parameters of the model move by up to a fifth, down or up, at once.

The samples are a Latin hypercube: each parameter takes each part of its range once, in an order of its own. So the
numbers of the samples are an interval for what is unknown of all parameters together, which moving one at a time gives
no more than in parts. For each sample the cells of most claims are run. Then all are reduced together, and each sample
is judged like any run. Claims about versions and the techniques are not measured. The claim about the number of cells
is left out: it would tell how many were chosen here.
"""

import math
import shutil
import tempfile
from collections.abc import Callable, Mapping, Sequence
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

SPREAD = 0.2  # of a parameter, below and above
SAMPLES = 24
_SHARE_SHOWN = 0.9  # of the samples, the middle ones
COLUMNS = ("lab", "sample", "claim", "number", "unit", "verdict")  # and a factor of each parameter
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
class Sample:
    """The judgements of all claims with each parameter at a multiple of its value."""

    factors: Mapping[str, float]  # within a parameter's bounds, and of a count such that it is whole
    judgements: Sequence[Judgement]


def sensitivity(
    judge: Judge, parameters: Parameters, names: Sequence[str], *, seed: int
) -> tuple[Sequence[Judgement], list[Sample]]:
    """Judge at the parameters as they are, and at SAMPLES others."""
    from scipy.stats import qmc  # noqa: PLC0415  it takes half a second, and only this needs it

    values = [
        {
            name: parameters.nearest(name, parameters.value(name) * (1 + SPREAD) ** (2 * place - 1))
            for name, place in zip(names, places, strict=True)
        }
        for places in qmc.LatinHypercube(len(names), seed=seed).random(SAMPLES)
    ]
    base, *moved = judge([parameters, *map(parameters.with_values, values)])
    return base, [
        Sample({name: value / parameters.value(name) for name, value in sample.items()}, judgements)
        for sample, judgements in zip(values, moved, strict=True)
    ]


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


def ranges(base: Sequence[Judgement], samples: Sequence[Sample]) -> list[list[str]]:
    """One row for each claim whose number moves: its number now, its range over the middle samples, the parameter that
    it follows most with the rank correlation (Spearman), and how often its verdict differs."""
    rows = []
    for place, as_is in enumerate(base):
        judgements = [sample.judgements[place] for sample in samples]
        numbers = pd.Series([judgement.measured.value if judgement.measured else np.nan for judgement in judgements])
        if as_is.measured is None or numbers.nunique() <= 1:
            continue
        low, high = numbers.quantile([(1 - _SHARE_SHOWN) / 2, (1 + _SHARE_SHOWN) / 2])
        unit = as_is.claim.unit
        factor = f" (×÷{math.sqrt(high / low):.2f})" if unit == "messages/s" else ""
        follows = pd.DataFrame([sample.factors for sample in samples]).corrwith(numbers, method="spearman").dropna()
        most = follows.abs().idxmax()
        differs = sum(judgement.verdict != as_is.verdict for judgement in judgements)
        rows.append(
            [
                as_is.claim.statement,
                f"{amount(as_is.measured.value, unit)}, {as_is.verdict}",
                f"{amount(low, unit)} to {amount(high, unit)}{factor}",
                f"{most} ({follows[most]:+.2f})",
                f"{differs} of {len(samples)}" if differs else "",
            ]
        )
    return rows


def rows(base: Sequence[Judgement], samples: Sequence[Sample]) -> list[list[str]]:
    """One row for each claim and sample, with the columns `COLUMNS` and a factor of each parameter; sample 0 has the
    parameters as they are."""
    names = list(samples[0].factors)
    numbered = enumerate([Sample(dict.fromkeys(names, 1.0), base), *samples])
    return [
        [
            SIMULATED.name,  # for a table that left its folder
            str(number),
            judgement.claim.key,
            f"{judgement.measured.value:.6g}" if judgement.measured else "",
            judgement.claim.unit,
            judgement.verdict,
            *(f"{sample.factors[name]:.4g}" for name in names),
        ]
        for number, sample in numbered
        for judgement in sample.judgements
    ]
