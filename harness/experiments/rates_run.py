"""Run the steps: from the options to the folder with manifest, journal, raw records, table and figure."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from harness import lab_kinds, load_model
from harness import settings as settings_module
from harness.experiments import rates_table
from harness.experiments.matrix_run import Outcome, open_results
from harness.experiments.rate_steps import (
    PERCENTS,
    CellRunner,
    ServerRunner,
    SimulatedRunner,
    Step,
    StepsTestbed,
    steps,
)
from harness.experiments.selected_cells import cell_of, named_cell
from harness.experiments.simulated_run import first_lines, is_of_virtual_time
from harness.figures import build
from harness.journal import Journal
from harness.lab.opening import select_lab
from harness.lab_kinds import SIMULATED
from harness.load_model import Arrivals
from harness.matrix import Cell
from harness.reporting import Reporter
from harness.run import run_folder
from harness.run.engine import Sweep, Tally
from harness.run.testbed import LabTestbed
from harness.run.under_way import run_and_evaluate
from harness.settings import RunSettings, SettingsError
from harness.simulation import parameters


@dataclass(frozen=True)
class Prepared:
    """A run that can begin."""

    cell: Cell
    settings: RunSettings
    results: Path
    runner: Callable[[], CellRunner]


def run(options: Mapping[str, Any], reporter: Reporter, *, cell_id: str, arrivals: Arrivals) -> Outcome:
    """Run the cell in the closed loop and at shares of its rate, then write the table and draw the figure.

    If the run is interrupted or fails, table and figure show what was completed. The lab `simulated` takes the options
    of a run in virtual time, any other lab those of a run on servers.
    """
    prepare = _in_virtual_time if is_of_virtual_time(options) else _on_servers
    how = load_model.ARRIVAL_WORDS[arrivals]
    loads = f"{load_model.CLOSED_LOOP}, and open loops at {PERCENTS[0]} to {PERCENTS[-1]} % of its rate, {how}"
    more = {"load_model": loads, "rates": {"percents": list(PERCENTS), "arrivals": arrivals}}
    prepared = prepare(options, cell_id, reporter, more)
    results, to_run = prepared.results, steps(prepared.cell, prepared.settings.repeats)
    reporter.note(f"cell: {prepared.cell.id}; {loads}; results in {results}")
    testbed = StepsTestbed(prepared.runner(), results, arrivals, prepared.settings.seed)

    def run_all(kept: Journal) -> Tally:
        return Sweep(testbed, kept, reporter, results, unit="step").run(to_run)

    tally = run_and_evaluate(results, run_all, lambda: evaluate(results, testbed, to_run, reporter))
    return Outcome(results, len(to_run), tally.completed, tally.failed, tally.last_reason)


def _on_servers(options: Mapping[str, Any], cell_id: str, reporter: Reporter, more: Mapping[str, Any]) -> Prepared:
    if options.get("hardware") is not None:
        raise SettingsError(f"--hardware has no effect on servers: leave it out, or choose --lab {SIMULATED.name}")
    selection = select_lab(
        {name: value for name, value in options.items() if name != "hardware"}, times=lab_kinds.times("rates")
    )
    reporter.note(selection.first_line)
    topology = selection.topology
    cell = cell_of(cell_id, {}, topology)
    settings = _of_cell(selection.settings, cell)
    results = open_results(settings, steps(cell, settings.repeats), **more)

    def runner() -> CellRunner:
        return ServerRunner(LabTestbed(settings, topology, results, [cell], reporter), settings)

    return Prepared(cell, settings, results, runner)


def _in_virtual_time(options: Mapping[str, Any], cell_id: str, reporter: Reporter, more: Mapping[str, Any]) -> Prepared:
    settings = settings_module.create_simulation(options, defaults=lambda given: SIMULATED.times["rates"])
    hardware = parameters.read(settings.hardware)
    cell = named_cell(cell_id, settings.server_versions)
    settings = _of_cell(settings, cell)
    for line in first_lines(settings):
        reporter.note(line)
    count, model = len(steps(cell, settings.repeats)), hardware.as_manifest()
    results = run_folder.open_run(settings, cells=count, driver=None, model=model, **more)
    return Prepared(cell, settings, results, lambda: SimulatedRunner(settings, hardware))


def _of_cell(settings: settings_module.AnySettings, cell: Cell) -> settings_module.AnySettings:
    if settings.rate is not None:
        raise SettingsError(
            f"the rates follow from the closed loop's: leave out the setting rate ({settings.rate:g}/s)"
        )
    return settings.model_copy(update={"cells": (cell.id,), "ratios": (cell.dialog_ratio,)})


def evaluate(results: Path, testbed: StepsTestbed, to_run: list[Step], reporter: Reporter) -> None:
    """Write the table of the completed steps, draw the figure, and report their paths; do nothing without any."""
    made = run_folder.read_manifest(results)
    rows = [
        rates_table.row(
            step,
            measured,
            load_model=load_model.describe(testbed.open_loop(step)),
            run_id=made["run_id"],
            lab=made["lab"],
        )
        for step in to_run
        if (measured := testbed.measured.get(step))
    ]
    if not rows:
        return
    reporter.note(f"table: {rates_table.write(results, rows)}")
    for figure in build.draw(results, progress=reporter):
        if figure.suffix == ".png":
            reporter.note(f"figure: {figure}")
