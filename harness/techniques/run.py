"""The ladder from its scenario to its folder: manifest, journal, raw records, the table and its figure."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import Any

from rich.console import Console

from harness.figures import ladder
from harness.lab import compose, drivers, interruption
from harness.lab.choice import Choice, choose
from harness.lab.handbill import first_line
from harness.lab.instances import Lab
from harness.settings import Settings
from harness.sweep import folder, journal, manifest
from harness.sweep.journal import Journal
from harness.sweep.reporting import Bar, PlainLines, Reporter
from harness.sweep.run import Outcome, examine
from harness.sweep.sweep import Sweep, Tally
from harness.techniques import table
from harness.techniques.scenario import Scenario, ScenarioError, Turn, read, turns
from harness.techniques.stand import TechniqueStand


def climb(
    options: Mapping[str, Any],
    *,
    repeats: int,
    scenario_file: Path | None,
    announce: Callable[[str], None],
    console_is_terminal: bool,
) -> Outcome:
    """Runs every technique of the scenario `repeats` times on a lab of servers; the table and the figure follow."""
    scenario = read(scenario_file)
    times = {lab: own.model_dump() for lab, own in scenario.times.items()}
    choice = choose(options, times=times)
    announce(first_line(choice))
    load = scenario.load
    if load.initiators > choice.topology.initiators_max:
        raise ScenarioError(f"the scenario wants {load.initiators} initiators, and there is only one lab of fewer")
    to_run = turns(scenario, version=choice.settings.server_versions[-1], repeats=repeats)
    results = _open_results(choice.settings, scenario, to_run)
    announce(f"{len(to_run)} runs of {len(scenario.techniques)} techniques; results in {results}")
    console = Console()
    bar = Bar(console) if console_is_terminal else None
    with bar or nullcontext():
        tally = _run(choice, results, to_run, bar or PlainLines(console))
    folder.finish(results)
    outcome = Outcome(results, len(to_run), tally.completed, tally.failed, tally.last_reason)
    if tally.completed:
        outcome.lines = evaluate(results, scenario, to_run)
    return outcome


def evaluate(results: Path, scenario: Scenario, to_run: Sequence[Turn]) -> list[str]:
    """Writes the table of what was completed, draws the figure, and says where they are."""
    run = manifest.read(results)
    attempts = {
        entry.cell: entry.attempt for entry in journal.read(results / journal.NAME) if entry.outcome == "completed"
    }
    rows = [
        table.row(results, scenario, turn, attempts[turn.id], run_id=run["run_id"], lab=run["lab"])
        for turn in to_run
        if turn.id in attempts
    ]
    path = table.write(results, rows)
    drawn = ladder.draw(results)
    return [f"table: {path}", *(f"figure: {figure}" for figure in drawn if figure.suffix == ".png")]


def _open_results(settings: Settings, scenario: Scenario, to_run: Sequence[Turn]) -> Path:
    drivers.check_manager()
    driver = drivers.choose(settings.driver)
    if settings.lab == "sqlserver" and settings.lab_file is None:
        compose.check()

    def circumstances(run_id: str) -> dict[str, Any]:
        made = manifest.new(run_id, settings, cells=len(to_run), driver=driver)
        return made | {"scenario": scenario.model_dump(mode="json")}

    return folder.create(settings, circumstances)


def _run(choice: Choice, results: Path, to_run: Sequence[Turn], reporter: Reporter) -> Tally:
    is_examined = False

    def preflight(lab: Lab) -> None:
        nonlocal is_examined
        if not is_examined:
            is_examined = True
            examine(lab, [turn.cell for turn in to_run], choice.settings, results, reporter.note, first=True)

    with interruption.noted() as watch:
        stand = TechniqueStand(
            choice.settings,
            choice.topology,
            results,
            on_rate=reporter.rate,
            on_lab=preflight,
            on_note=reporter.note,
            watch=watch,
        )
        return Sweep(stand, Journal(results / journal.NAME), reporter, results, watch=watch).run(to_run)
