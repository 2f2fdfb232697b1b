"""Run cells of the matrix in virtual time, from settings to a results folder with manifest, journal and raw records."""

from __future__ import annotations

import errno
import itertools
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from harness import lab_kinds, load_model
from harness.experiments import precision
from harness.experiments.matrix_run import Outcome, counted
from harness.experiments.run_options import first_lines, in_virtual_time
from harness.experiments.selected_cells import cells_of, chosen_visits
from harness.inference import BLOCKS_MIN
from harness.journal import Entry, Journal
from harness.matrix import Visit, label
from harness.reductions import spark_session
from harness.reporting import Reporter, TimeLeftByWork
from harness.run import run_folder
from harness.run.attempt import Times
from harness.run.engine import FREE_SPACE_MIN_BYTES, describe
from harness.run.under_way import under_way
from harness.settings import SimulationSettings
from harness.simulation import parameters, spark_job
from harness.simulation.simulated_cell import WorldSize
from harness.simulation.spark_job import Experiment, OpenWorld, Turn, cell_work_s


def simulate(
    options: Mapping[str, Any],
    reporter: Reporter,
    *,
    resume: Path | None,
    open_world: OpenWorld = spark_job.open_warmed_world,
) -> Outcome:
    """Run the cells that the options select, or those that the run in `resume` lacks."""
    settings = in_virtual_time(options, resume=resume, verb="simulate", defaults=_of_matrix)
    hardware = parameters.read(settings.hardware)
    visits = chosen_visits(settings)
    spark_session.reach(settings.master)
    for line in first_lines(settings):
        reporter.note(line)
    model = hardware.as_manifest()
    results = run_folder.open_run(settings, cells=len(visits), driver=None, resume=resume, model=model)
    reporter.note(f"{counted(settings, visits)}, {load_model.describe(settings.open_loop)}; results in {results}")
    experiment = Experiment(
        hardware,
        settings.seed,
        Times.of(settings, settings.open_loop),
        results.absolute(),
        WorldSize.of(cells_of(settings)),
    )
    with under_way(results) as run_journal:
        outcome = _run(experiment, visits, settings, open_world, run_journal, reporter)
        run_folder.finish(results)
    return outcome


def _of_matrix(options: Mapping[str, Any]) -> Mapping[str, Any]:
    """The settings that the chosen matrix brings."""
    matrix = options.get("matrix")
    return matrix.settings(lab_kinds.SIMULATED.name) if matrix else {}


def _passes(turns: Sequence[Turn], settings: SimulationSettings) -> list[list[Turn]]:
    """The turns of each job of Spark: all in one; with a precision the first three blocks, then each block for itself.

    A job builds its worlds anew, so there are as few as the decisions allow.
    """
    if settings.precision is None:
        return [list(turns)]
    by_block = itertools.groupby(turns, lambda turn: max(turn.visit.block, BLOCKS_MIN))
    return [list(of_blocks) for _, of_blocks in by_block]


def _run(  # noqa: PLR0917
    experiment: Experiment,
    visits: Sequence[Visit],
    settings: SimulationSettings,
    open_world: OpenWorld,
    run_journal: Journal,
    reporter: Reporter,
) -> Outcome:
    results = experiment.results
    outcome = Outcome(results, len(visits), 0, 0)
    spark_job.Mailbox(results).take(run_journal.append)  # entries that a killed run did not collect
    completed = run_journal.completed()
    virtual_s = settings.settle + settings.measure
    turns = [
        Turn(visit, run_journal.attempts(visit.id, visit.block) + 1, cell_work_s(visit.cell, virtual_s))
        for visit in visits
        if (visit.id, visit.block) not in completed
    ]
    outcome.completed = len(visits) - len(turns)

    def ended(entry: Entry) -> None:
        run_journal.append(entry)
        if entry.outcome == "completed":
            outcome.completed += 1
        else:
            outcome.failed += 1
            outcome.reason = entry.reason
        name, text = label(entry.cell, entry.block), describe(entry)
        reporter.phase(f"{name}: {text}")
        reporter.cell_done(outcome.completed + outcome.failed, name, entry.outcome, text)
        if entry.outcome == "failed" and shutil.disk_usage(results).free < FREE_SPACE_MIN_BYTES:
            raise OSError(errno.ENOSPC, "No space left on device", str(results))  # all further cells would fail

    stop_rule = precision.Precision(settings.precision, visits, run_journal)
    left = TimeLeftByWork({label(turn.visit.id, turn.visit.block): turn.work_s for turn in turns})
    reporter.begin(len(visits), outcome.completed, left)
    try:
        for pass_ in _passes(turns, settings):
            reporter.phase("building and warming worlds")
            needed = [turn for turn in pass_ if stop_rule.is_needed(turn.visit)]
            outcome.total -= len(pass_) - len(needed)
            if needed:
                spark_job.run(experiment, needed, master=settings.master, open_world=open_world, on_entry=ended)
    finally:
        reporter.end()
    if settings.precision is not None:
        reporter.note(precision.reached(settings.precision, run_journal.entries))
    return outcome
