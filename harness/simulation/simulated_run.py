"""A run in virtual time from its settings to its folder: manifest, journal, raw records, as every run has them."""

from __future__ import annotations

import errno
import shutil
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

from harness import settings as settings_module
from harness.lab import interruption
from harness.matrix import Cell
from harness.reporting import Reporter, TimeLeftByWork
from harness.settings import SimulationSettings
from harness.simulation import parameters, spark_job
from harness.simulation.parameters import Parameters
from harness.simulation.slices import Turn, cell_work_s
from harness.simulation.spark_job import Experiment, OpenGroup, Warmed
from harness.sweep import journal, manifest, planning, run_folder
from harness.sweep.journal import Entry, Journal
from harness.sweep.loop import FREE_SPACE_MIN_BYTES, describe
from harness.sweep.matrix_run import Outcome


def opened(experiment: Experiment, server_version: str, dialog_ratio: int) -> AbstractContextManager[Warmed]:
    """Implements `spark_job.OpenGroup`. What a world is made of is imported by workers, not before Spark starts."""
    from harness.simulation import warmed_world  # noqa: PLC0415

    return warmed_world.opened(experiment, server_version, dialog_ratio)


def simulate(
    options: Mapping[str, Any],
    reporter: Reporter,
    *,
    resume: Path | None,
    open_group: OpenGroup = opened,
) -> Outcome:
    """The cells that the options select, or those that a run lacks."""
    settings = _settings(options, resume)
    hardware = parameters.read(settings.hardware)
    cells = planning.chosen_cells(settings)
    for line in first_lines(settings):
        reporter.note(line)
    results = _open_results(settings, hardware, resume, cells)
    reporter.note(f"{len(cells)} cells; results in {results}")
    experiment = Experiment(hardware, settings.seed, settings.settle, settings.measure, results.absolute())
    with interruption.noted():
        outcome = _run(experiment, cells, settings.master, open_group, reporter)
    run_folder.finish(results)
    return outcome


def first_lines(settings: SimulationSettings) -> list[str]:
    """What is printed first: whose numbers these are not, and everything that decides them."""
    return [
        f"lab: simulated - a model of the hardware {settings.hardware!r} in virtual time; "
        "its numbers are not SQL Server's and measure nothing",
        f"seed {settings.seed}, settling {settings.settle:g} s and measuring {settings.measure:g} s of virtual time",
    ]


def _settings(options: Mapping[str, Any], resume: Path | None) -> SimulationSettings:
    if resume is None:
        return settings_module.create_simulation(options)
    stored = run_folder.stored_settings(resume, SimulationSettings)
    settings = settings_module.create_simulation(options, defaults=lambda given: stored)
    run_folder.require_same(resume, stored, settings)
    return settings


def _open_results(
    settings: SimulationSettings, hardware: Parameters, resume: Path | None, cells: Sequence[Cell]
) -> Path:
    def circumstances(run_id: str) -> dict[str, Any]:
        return manifest.new(run_id, settings, cells=len(cells), driver=None) | {"model": model_of(hardware)}

    return run_folder.reopen(resume, circumstances) if resume else run_folder.create(settings, circumstances)


def model_of(hardware: Parameters) -> dict[str, dict[str, Any]]:
    """Every parameter of the model, for the manifest."""
    return {
        f"{row['section']}.{row['parameter']}": {
            key: value for key, value in row.items() if key not in ("section", "parameter")
        }
        for row in hardware.as_rows()
    }


def _run(
    experiment: Experiment, cells: Sequence[Cell], master: str, open_group: OpenGroup, reporter: Reporter
) -> Outcome:
    results = experiment.results
    book = Journal(results / journal.NAME)
    outcome = Outcome(results, len(cells), 0, 0)
    # What ended as the run before was killed.
    spark_job.Post(results).take(book.append)
    done = book.completed()
    virtual_s = experiment.settle_s + experiment.measure_s
    turns = [
        Turn(cell, book.attempts(cell.id) + 1, cell_work_s(cell, virtual_s)) for cell in cells if cell.id not in done
    ]
    outcome.completed = len(cells) - len(turns)

    def ended(entry: Entry) -> None:
        book.append(entry)
        if entry.outcome == "completed":
            outcome.completed += 1
        else:
            outcome.failed += 1
            outcome.reason = entry.reason
        text = describe(entry)
        reporter.phase(f"{entry.cell}: {text}")
        reporter.cell_done(outcome.completed + outcome.failed, entry.cell, entry.outcome, text)
        if entry.outcome == "failed" and shutil.disk_usage(results).free < FREE_SPACE_MIN_BYTES:
            raise OSError(errno.ENOSPC, "No space left on device", str(results))  # every further one would fail

    left = TimeLeftByWork({turn.cell.id: turn.work_s for turn in turns})
    reporter.begin(len(cells), outcome.completed, left)
    try:
        reporter.phase("worlds are built and warmed")
        spark_job.run(experiment, turns, master=master, open_group=open_group, on_entry=ended)
    finally:
        reporter.end()
    return outcome
