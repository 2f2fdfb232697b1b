"""Run the steps: from the options to the folder with manifest, journal, raw records, table and figure."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from harness import journal, lab_kinds, load_model
from harness.experiments import rates_table, recorded_attempts
from harness.experiments.matrix_run import Outcome
from harness.experiments.rate_steps import PERCENTS, Step, load_of, steps
from harness.experiments.recorded_attempts import RecordedAttempt
from harness.experiments.run_options import first_lines, in_virtual_time, is_of_virtual_time, on_servers, open_results
from harness.experiments.selected_cells import cell_of, named_cell
from harness.experiments.virtual_testbed import VirtualTestbed
from harness.failures import UsageFailure
from harness.journal import Journal
from harness.lab_kinds import SIMULATED
from harness.load_model import Arrivals
from harness.matrix import Cell
from harness.reporting import Reporter
from harness.run import run_folder
from harness.run.engine import Sweep, Tally, Testbed
from harness.run.equipment import Preflight
from harness.run.testbed import LabTestbed, LoadOf
from harness.run.under_way import run_and_evaluate
from harness.settings import AnySettings, RunSettings, SettingsError
from harness.simulation import parameters

VERB = "rates"


@dataclass(frozen=True)
class Prepared:
    """A run that can begin."""

    cell: Cell
    settings: RunSettings
    results: Path
    testbed: Callable[[LoadOf], Testbed[Step]]


def run(
    options: Mapping[str, Any],
    reporter: Reporter,
    *,
    cell_id: str | None,
    arrivals: Arrivals | None = None,
    resume: Path | None = None,
) -> Outcome:
    """Run the cell in the closed loop and at shares of its rate, then write the table and draw the figure.

    If the run is interrupted or fails, table and figure show what was completed. `resume` is the folder of such a run,
    which has its own cell, arrivals and settings; those of a new run are constant. The lab `simulated` takes the
    options of a run in virtual time, any other lab those of a run on servers.
    """
    prepare = _in_virtual_time if is_of_virtual_time(options, resume) else _on_servers
    stored = run_folder.read_manifest(resume).get("rates", {}) if resume else {}
    arrivals = arrivals or stored.get("arrivals", "constant")
    how = load_model.ARRIVAL_WORDS[arrivals]
    loads = f"{load_model.CLOSED_LOOP}, and open loops at {PERCENTS[0]} to {PERCENTS[-1]} % of its rate, {how}"
    more = {"load_model": loads, "rates": {"percents": list(PERCENTS), "arrivals": arrivals}}
    prepared = prepare(options, cell_id, reporter, resume, more)
    results, seed, to_run = prepared.results, prepared.settings.seed, steps(prepared.cell, prepared.settings.repeats)
    reporter.note(f"cell: {prepared.cell.id}; {loads}; results in {results}")

    def run_all(run_journal: Journal) -> Tally:
        testbed = prepared.testbed(lambda step: load_of(step, run_journal.entries, arrivals, seed))
        return Sweep(testbed, run_journal, reporter, results, unit="step").run(to_run)

    def row(step: Step, recorded: RecordedAttempt) -> dict[str, Any]:
        load = load_of(step, journal.read(results / journal.NAME), arrivals, seed)
        return rates_table.row(step, recorded, load_model.describe(load))

    def evaluate() -> None:
        recorded_attempts.evaluate(results, to_run, row, rates_table.write, reporter)

    tally = run_and_evaluate(results, run_all, evaluate)
    return Outcome(results, len(to_run), tally.completed, tally.failed, tally.last_reason)


def _on_servers(
    options: Mapping[str, Any], cell_id: str | None, reporter: Reporter, resume: Path | None, more: Mapping[str, Any]
) -> Prepared:
    if options.get("hardware") is not None:
        raise SettingsError(f"--hardware has no effect on servers: leave it out, or choose --lab {SIMULATED.name}")
    server_options = {name: value for name, value in options.items() if name != "hardware"}
    selection = on_servers(server_options, resume=resume, verb=VERB, times=lab_kinds.times(VERB))
    reporter.note(selection.first_line)
    topology = selection.topology
    cell = cell_of(_cell_id(cell_id, selection.settings, resume), {}, topology)
    settings = _of_cell(selection.settings, cell)
    results = open_results(settings, steps(cell, settings.repeats), resume, **more)

    def testbed(loads: LoadOf) -> LabTestbed:
        return LabTestbed(topology, Preflight(settings, [cell], results, reporter), loads)

    return Prepared(cell, settings, results, testbed)


def _in_virtual_time(
    options: Mapping[str, Any], cell_id: str | None, reporter: Reporter, resume: Path | None, more: Mapping[str, Any]
) -> Prepared:
    settings = in_virtual_time(options, resume=resume, verb=VERB, defaults=lambda given: SIMULATED.times[VERB])
    hardware = parameters.read(settings.hardware)
    cell = named_cell(_cell_id(cell_id, settings, resume), settings.server_versions)
    settings = _of_cell(settings, cell)
    for line in first_lines(settings):
        reporter.note(line)
    count, model = len(steps(cell, settings.repeats)), hardware.as_manifest()
    results = run_folder.open_run(settings, cells=count, driver=None, resume=resume, model=model, **more)
    return Prepared(cell, settings, results, lambda loads: VirtualTestbed(settings, hardware, results, load_of=loads))


def _cell_id(cell_id: str | None, settings: RunSettings, resume: Path | None) -> str:
    """Return the cell that is named, or that of the run to resume."""
    if cell_id is not None:
        return cell_id
    if resume is None:
        raise UsageFailure("name a cell, such as i1-t10-r150-p100-v2008, or resume a run with --resume DIR")
    if len(settings.cells) != 1:
        raise UsageFailure(f"{resume} cannot be resumed: its manifest names {len(settings.cells)} cells, not one")
    return settings.cells[0]


def _of_cell(settings: AnySettings, cell: Cell) -> AnySettings:
    if settings.rate is not None:
        raise SettingsError(
            f"the rates follow from the closed loop's: leave out the setting rate ({settings.rate:g}/s)"
        )
    return settings.model_copy(update={"cells": (cell.id,), "ratios": (cell.dialog_ratio,)})
