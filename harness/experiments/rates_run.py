"""Run the steps: from the options to the folder with manifest, journal, raw records, table and figure."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from harness.definitions import load_model
from harness.definitions.load_model import Arrivals
from harness.experiments import lab_choice, rates_table, recorded_attempts
from harness.experiments.rate_steps import PERCENTS, Step, load_of, steps
from harness.experiments.recorded_attempts import RecordedAttempt
from harness.experiments.selected_cells import cell_of
from harness.failures import UsageFailure
from harness.files import journal
from harness.files.journal import Journal
from harness.files.settings import RunSettings, SettingsError
from harness.output.reporting import Reporter
from harness.run import run_folder, under_way
from harness.run.in_process import InProcess
from harness.run.under_way import Outcome


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
    lab = lab_choice.choose(options, reporter, verb="rates", resume=resume)
    stored = run_folder.read_manifest(resume).get("rates", {}) if resume else {}
    arrivals = arrivals or stored.get("arrivals", "constant")
    how = load_model.ARRIVAL_WORDS[arrivals]
    loads = f"{load_model.CLOSED_LOOP}, and open loops at {PERCENTS[0]} to {PERCENTS[-1]} % of its rate, {how}"
    cell = cell_of(_cell_id(cell_id, lab.settings, resume), {}, lab.topology)
    if lab.settings.rate is not None:
        raise SettingsError(
            f"the rates follow from the closed loop's: leave out the setting rate ({lab.settings.rate:g}/s)"
        )
    lab = lab.changed(cells=(cell.id,), ratios=(cell.dialog_ratio,))
    seed = lab.settings.seed
    to_run = steps(cell, lab.settings.repeats, seed)
    more = {"load_model": loads, "rates": {"percents": list(PERCENTS), "arrivals": arrivals}}
    results = lab.open_results(to_run, resume, **more)
    reporter.note(f"cell: {cell.id}; {loads}; results in {results}")

    def executor(run_journal: Journal) -> InProcess[Step]:
        testbed = lab.testbed(
            [cell], results, reporter, load_of=lambda step: load_of(step, run_journal.entries, arrivals, seed)
        )
        return InProcess(testbed, reporter)

    def row(step: Step, recorded: RecordedAttempt) -> dict[str, Any]:
        load = load_of(step, journal.read(results / journal.NAME), arrivals, seed)
        return rates_table.row(step, recorded, load_model.describe(load))

    def evaluate() -> None:
        upwards = sorted(to_run, key=lambda step: (step.block, step.percent or 0))
        recorded_attempts.evaluate(results, upwards, row, rates_table.write, reporter)

    return under_way.run(results, to_run, reporter, executor, evaluate=evaluate)


def _cell_id(cell_id: str | None, settings: RunSettings, resume: Path | None) -> str:
    """Return the cell that is named, or that of the run to resume."""
    if cell_id is not None:
        return cell_id
    if resume is None:
        raise UsageFailure("name a cell, such as i1-t10-r150-p100-v2008, or resume a run with --resume DIR")
    if len(settings.cells) != 1:
        raise UsageFailure(f"{resume} cannot be resumed: its manifest names {len(settings.cells)} cells, not one")
    return settings.cells[0]
