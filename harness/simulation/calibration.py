"""Fit unknown costs to four of the paper's numbers and one of ours, or to the numbers of a measured run.

The free parameters of a hardware file (`free = true`) are moved within their bounds until the model's cells give the
`PAPER.fitted` numbers: least squares of the logarithms of (model / paper), by SciPy's trust-region method. There are as
many parameters as numbers, so none is left to bend the rest. The paper's numbers for one and two initiators, 3×5
threads, payloads, waits and techniques take no part; `PAPER.held_out` are those that are numbers of a cell. Some claims
that take no part hold by construction and are not predictions either: see `harness.claims`.

For other hardware, `numbers_of` takes them from a measured run. Fitted: messages per second of one initiator with every
150th dialog and the smallest payload at 1, 5, 10 and 50 threads, and the processor time of target and initiator at 50,
in percent of one processor, because the model may have another number of them. Predicted: all other thread counts, and
the cells in which every dialog is used.

A `Bench` measures cells at given costs, each on a fork of a warmed world; `sensitivity` uses it too. Same seed, same
hardware, same result.
"""

from __future__ import annotations

import contextlib
import math
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq

from harness.definitions.matrix import INITIATORS, PAPER_VERSIONS, PAYLOADS_BYTES, THREADS, Cell, Visit
from harness.definitions.units import counted
from harness.definitions.whitepaper import (
    BASE_DIALOG_RATIO,
    GAIN_MAX_PERCENT,
    INITIATOR_PROCESSOR_PERCENT,
    PEAK_THROUGHPUT,
    PEAK_THROUGHPUT_AS_CONCLUDED,
    TARGET_PROCESSOR_PERCENT,
    TRICK_DIALOG_RATIO,
)
from harness.failures import MachineFailure, UsageFailure
from harness.figures import reduced_run
from harness.files import records
from harness.run.attempt import Times
from harness.run.cell_failures import CellFailed
from harness.simulation import forks, simulated_cell
from harness.simulation.parameters import HardwareError, Parameters
from harness.simulation.simulated_cell import WarmedWorld, WorldSize

TIMES = Times(settle=1.0, measure=1.0)
VERSION = PAPER_VERSIONS[-1]
TRIALS_MAX = 12  # of a fit
SLOPE_STEP = 0.08  # step for slopes: well above the noise of a cell
NOTICEABLE_GAIN_PERCENT = 15.0
FITTED_THREADS = (1, 5, 10, 50)  # of a measured run


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
    """A warmed world for both dialog ratios."""

    def __init__(self, parameters: Parameters, *, seed: int) -> None:
        """Build the world, which takes some seconds of real time."""
        size = WorldSize.of([cell_of(INITIATORS[-1], THREADS[-1], TRICK_DIALOG_RATIO)])
        self._world = WarmedWorld(parameters, VERSION, size, seed=seed)
        self._folder = tempfile.TemporaryDirectory(ignore_cleanup_errors=True)
        self.folder = Path(self._folder.name)  # for records; it exists as long as the bench

    def __enter__(self) -> Bench:
        return self

    def __exit__(self, *_: object) -> None:
        self._folder.cleanup()

    def measure(self, parameters: Parameters, cells: Iterable[Cell]) -> FiguresByCell:
        """Measure cells of the world's version at the costs of `parameters`, or raise BenchFailed."""
        turns = [(parameters, Visit(cell)) for cell in cells]
        return {visit.cell: figures for visit, figures in self.visits(turns)}

    def visits(
        self, turns: Iterable[tuple[Parameters, Visit]], *, results: Path | None = None
    ) -> Iterator[tuple[Visit, CellFigures]]:
        """Measure each cell at its costs and yield its figures as soon as it ends, or raise BenchFailed.

        The block only names the records, which are kept if there is a folder for `results`.
        """
        actions = (
            (visit, partial(_measure, self._world, parameters, visit, results, self.folder))
            for parameters, visit in turns
        )
        with contextlib.closing(forks.in_forks(actions)) as ended:
            for visit, fork in ended:
                try:
                    figures = fork.result()
                except (MachineFailure, CellFailed) as failure:
                    raise BenchFailed(f"{visit.id}: {' '.join(str(failure).split())}") from None
                yield visit, figures


def _measure(
    world: WarmedWorld, parameters: Parameters, visit: Visit, folder_kept: Path | None, folder: Path
) -> CellFigures:
    world.lab.world.change_costs(parameters)
    with contextlib.nullcontext(folder_kept) if folder_kept else tempfile.TemporaryDirectory(dir=folder) as folder_:
        results = Path(folder_)
        measured = simulated_cell.run(world.lab, visit, 1, TIMES, results, pages=world.pages)
        # Not `read_table`, which would import PyArrow's data sets in every fork.
        rows = pq.ParquetFile(records.raw_path(results, "processors", visit, 1)).read().to_pylist()
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


Measure = Callable[[Parameters, Iterable[Cell]], FiguresByCell]  # such as `Bench.measure`


def cell_of(initiators: int, threads: int, dialog_ratio: int, payload_bytes: int = PAYLOADS_BYTES[0]) -> Cell:
    return Cell(VERSION, initiators, dialog_ratio, threads, payload_bytes)


@dataclass(frozen=True)
class ReferenceNumber:
    """A number that is known of a hardware, and how to compute it from cells."""

    name: str
    known: float | None  # None: the paper describes it in words only
    unit: str
    cells: tuple[Cell, ...]
    of: Callable[..., float]  # takes the figures of the cells, in their order
    is_gain: bool = False  # in percent: the factor is 1 + value / 100


@dataclass(frozen=True)
class ReferenceNumbers:
    """The numbers with which a model is compared."""

    source: str
    fitted: tuple[ReferenceNumber, ...]  # as many as parameters are free
    held_out: tuple[ReferenceNumber, ...]  # predicted: they take no part in the fit

    @property
    def all(self) -> tuple[ReferenceNumber, ...]:
        return (*self.fitted, *self.held_out)


def rate(name: str, known: float | None, cell: Cell) -> ReferenceNumber:
    """Messages processed a second."""
    return ReferenceNumber(name, known, "messages/s", (cell,), lambda figure: figure.processed_per_s)


def _gain(name: str, known: float | None, initiators: int, threads: int) -> ReferenceNumber:
    pair = (cell_of(initiators, threads, TRICK_DIALOG_RATIO), cell_of(initiators, threads, BASE_DIALOG_RATIO))
    return ReferenceNumber(
        name,
        known,
        "%",
        pair,
        lambda trick, base: 100 * (trick.processed_per_s / base.processed_per_s - 1),
        is_gain=True,
    )


_BUSIEST = cell_of(3, 50, TRICK_DIALOG_RATIO)
_FITTED = (
    # The mean of "over 18,000" in the text and "almost 19,000" in the conclusion.
    rate("peak of three initiators", (PEAK_THROUGHPUT[3].value + PEAK_THROUGHPUT_AS_CONCLUDED.value) / 2, _BUSIEST),
    _gain("gain at 3×50 threads", GAIN_MAX_PERCENT.value, 3, 50),
    ReferenceNumber(
        "initiators' processors", INITIATOR_PROCESSOR_PERCENT.value, "%", (_BUSIEST,), lambda one: one.initiator_percent
    ),
    # The paper says "noticeable" and gives no number: this one is ours.
    _gain("gain at 3×10 threads", NOTICEABLE_GAIN_PERCENT, 3, 10),
    ReferenceNumber(
        "target's processors", TARGET_PROCESSOR_PERCENT.value, "%", (_BUSIEST,), lambda one: one.target_percent
    ),
)
_HELD_OUT = (
    rate("peak of one initiator", PEAK_THROUGHPUT[1].value, cell_of(1, 50, TRICK_DIALOG_RATIO)),
    rate("peak of two initiators", PEAK_THROUGHPUT[2].value, cell_of(2, 50, TRICK_DIALOG_RATIO)),
    _gain("gain at 3×5 threads", None, 3, 5),
    # These two tell `paper` and `paper-clients` apart.
    rate("100 bytes at 3×10 threads", None, cell_of(3, 10, TRICK_DIALOG_RATIO)),
    _gain("gain at 1×15 threads", None, 1, 15),
    rate("8 KB at 3×15 threads", None, cell_of(3, 15, TRICK_DIALOG_RATIO, 8192)),
    rate("8 KB at 3×50 threads", None, cell_of(3, 50, TRICK_DIALOG_RATIO, 8192)),
)
PAPER = ReferenceNumbers("the paper", _FITTED, _HELD_OUT)


def numbers_of(folder: Path, model: Parameters) -> ReferenceNumbers:
    """Read the numbers of the run in `folder`; raise UsageFailure if it is a model's or lacks a fitted cell.

    Cells are means over the run's server versions, which are repetitions on a lab that imitates them.
    """
    run = reduced_run.read(folder)
    if run.is_model:
        raise UsageFailure(f"{folder} is a run of the model: choose a measured run, such as one of the embedded lab")
    payload_bytes = PAYLOADS_BYTES[0]
    mine = run.cells[(run.cells.initiators == 1) & (run.cells.payload_bytes == payload_bytes)]
    measured = mine.groupby(["dialog_ratio", "threads"]).mean(numeric_only=True)
    if missing := [threads for threads in FITTED_THREADS if (TRICK_DIALOG_RATIO, threads) not in measured.index]:
        absent = cell_of(1, missing[0], TRICK_DIALOG_RATIO)
        raise UsageFailure(
            f"{folder} has no cell like {absent.id}: choose a run with all cells `i1-*-p{payload_bytes}-*`"
        )
    rates = {
        (int(ratio), int(threads)): rate(
            f"{counted(threads, 'thread')}, ratio {ratio}", float(row.processed_per_s), cell_of(1, threads, ratio)
        )
        for (ratio, threads), row in measured.iterrows()
        if ratio in (TRICK_DIALOG_RATIO, BASE_DIALOG_RATIO)
    }
    most, count = FITTED_THREADS[-1], model.processors.count
    busy, cell = measured.loc[(TRICK_DIALOG_RATIO, most)], cell_of(1, most, TRICK_DIALOG_RATIO)
    processors = [
        ReferenceNumber(
            f"{role}'s processors at {most}",
            float(busy[f"{role}_processor_percent"]) * _processors(folder, run.manifest, instance),
            "% of a processor",
            (cell,),
            percent,
        )
        for role, instance, percent in (
            ("target", "target", lambda figure: count * figure.target_percent),
            ("initiator", "initiator-1", lambda one: count * one.initiator_percent),
        )
    ]
    fitted = [rates.pop((TRICK_DIALOG_RATIO, threads)) for threads in FITTED_THREADS]
    # Ratio 150 first, like the fitted ones.
    other_numbers = [number for _, number in sorted(rates.items(), key=lambda one: (-one[0][0], one[0][1]))]
    return ReferenceNumbers(run.run_id, (*fitted, *processors), tuple(other_numbers))


def _processors(folder: Path, manifest: Mapping[str, Any], instance: str) -> int:
    for one in manifest.get("instances") or []:
        if one.get("name") == instance and str(one.get("cpu_count", "")).isdigit():
            return int(one["cpu_count"])
    raise UsageFailure(f"{folder / 'manifest.json'} does not say how many processors {instance} has (cpu_count)")


def numbers_at(measure: Measure, parameters: Parameters, numbers: Sequence[ReferenceNumber]) -> list[float]:
    """Compute numbers at given parameters."""
    figures = measure(parameters, dict.fromkeys(cell for number in numbers for cell in number.cells))
    return [number.of(*(figures[cell] for cell in number.cells)) for number in numbers]


def evaluations_max(parameters: Parameters) -> int:
    """Return how often `fit` evaluates the model at most: one slope for each free parameter after each trial."""
    return TRIALS_MAX * (1 + len(parameters.free))


def fit(
    measure: Measure,
    parameters: Parameters,
    numbers: ReferenceNumbers,
    *,
    on_evaluation: Callable[[int, Parameters], None],
) -> Parameters:
    """Copy hardware with the free parameters that best give the fitted numbers; see `require_charged`.

    `on_evaluation` is called after each evaluation, with its number from 1 and what was tried.
    """
    from scipy.optimize import least_squares  # noqa: PLC0415  it takes half a second, and only a fit needs it

    names = parameters.free
    # 1 + log(value / start): SciPy's steps are relative to an unknown, so it must not be near 0.
    low, high = (
        [1 + math.log(getattr(parameters.declared[name], end) / parameters.value(name)) for name in names]
        for end in ("low", "high")
    )
    evaluations = 0

    def at(unknowns: Sequence[float]) -> Parameters:
        values = {
            name: float(f"{parameters.value(name) * math.exp(unknown - 1):.4g}")
            for name, unknown in zip(names, unknowns, strict=True)
        }
        return parameters.with_values({name: parameters.nearest(name, value) for name, value in values.items()})

    def residuals(unknowns: Sequence[float]) -> list[float]:
        nonlocal evaluations
        evaluations += 1
        charged = at(unknowns)
        numbers_found = numbers_at(measure, charged, numbers.fitted)
        on_evaluation(evaluations, charged)
        return [_log_ratio(number, value) for number, value in zip(numbers.fitted, numbers_found, strict=True)]

    start = [1.0] * len(names)
    solution = least_squares(
        residuals, start, bounds=(low, high), diff_step=SLOPE_STEP, xtol=5e-3, ftol=1e-3, max_nfev=TRIALS_MAX
    )
    return at(solution.x)


def _log_ratio(number: ReferenceNumber, value: float) -> float:
    """Log ratio of model to reference; of a gain, that of its factors, which are always positive."""
    assert number.known is not None
    if number.is_gain:
        return math.log((100 + value) / (100 + number.known))
    if value <= 0:
        raise HardwareError(
            f"{number.name}: the model gives {value:g}, which cannot be fitted: begin from other parameters"
        )
    return math.log(value / number.known)


# Counts are fixed when a world is built; the other costs are charged before a cell begins.
_NOT_MOVED = {
    *("count", "processors", "are_shared", "dispatchers", "flushes_in_flight", "writes_in_flight"),
    *("begin_dialog_us", "create_target_us", "end_conversation_us", "launch_us"),
}


def charged(parameters: Parameters) -> list[str]:
    """Names of the parameters whose costs a cell is charged; 0 stays 0 when it is scaled, so it does not count."""
    return [name for name in parameters.declared if name not in _NOT_MOVED and parameters.value(name)]


def require_charged(parameters: Parameters, names: Iterable[str]) -> None:
    """Raise HardwareError if one of these parameters makes no difference to a cell."""
    paid = charged(parameters)
    for name in names:
        if not parameters.value(name):
            raise HardwareError(f"hardware {parameters.name}: {name} is 0, which cannot be scaled")
        if name not in paid:
            raise HardwareError(
                f"hardware {parameters.name}: {name} makes no difference to a cell: choose from {', '.join(paid)}"
            )
