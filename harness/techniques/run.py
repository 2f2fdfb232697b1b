"""The ladder from its scenario to its folder: manifest, journal, raw records, the table and its figure."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.console import Console

from harness import settings as settings_module
from harness.failures import UsageFailure
from harness.figures import ladder
from harness.lab import compose, drivers, interruption
from harness.lab.choice import Choice, choose
from harness.lab.handbill import first_line
from harness.lab.instances import Lab
from harness.settings import Settings
from harness.simulation import parameters
from harness.simulation.run import first_lines, model_of
from harness.sweep import folder, journal, manifest
from harness.sweep.journal import Journal
from harness.sweep.reporting import Bar, PlainLines, Reporter
from harness.sweep.run import Outcome, examine
from harness.sweep.sweep import Stand, Sweep
from harness.techniques import table
from harness.techniques.scenario import Scenario, ScenarioError, Turn, read, turns
from harness.techniques.simulated import SimulatedStand
from harness.techniques.stand import TechniqueStand

SIMULATED = "simulated"


class OtherLab(UsageFailure):
    """Tables of two labs do not belong in one folder."""


@dataclass(frozen=True)
class Climbing:
    """A run that can begin: on which lab, what is to run, its folder once it is wanted, and the stand in it."""

    lab: str
    turns: Sequence[Turn]
    open: Callable[[], Path]
    stand: Callable[[Path, Reporter, Callable[[], None]], Stand[Turn]]


def climb(
    options: Mapping[str, Any],
    *,
    repeats: int,
    scenario_file: Path | None,
    add_to: Path | None = None,
    announce: Callable[[str], None],
    console_is_terminal: bool,
) -> Outcome:
    """Runs every technique of the scenario `repeats` times; the table and the figure follow.

    The lab `simulated` takes the options of a run in virtual time, every other those of a run on servers. `add_to` is
    the folder of a run on the same lab that gets the table too.
    """
    scenario = read(scenario_file)
    host = folder.read_manifest(add_to) if add_to else {}
    prepare = _in_virtual_time if options.get("lab") == SIMULATED else _on_servers
    climbing = prepare(options, scenario, repeats, announce)
    if host and host["lab"] != climbing.lab:
        raise OtherLab(f"{add_to} is a run on the {host['lab']} lab, and this one is on the {climbing.lab} lab")
    results, to_run = climbing.open(), climbing.turns
    announce(f"{len(to_run)} runs of {len(scenario.techniques)} techniques; results in {results}")
    console = Console()
    bar = Bar(console) if console_is_terminal else None
    with bar or nullcontext():
        reporter = bar or PlainLines(console)
        with interruption.noted() as watch:
            stand = climbing.stand(results, reporter, watch)
            tally = Sweep(stand, Journal(results / journal.NAME), reporter, results, watch=watch).run(to_run)
    folder.finish(results)
    outcome = Outcome(results, len(to_run), tally.completed, tally.failed, tally.last_reason)
    if tally.completed:
        outcome.lines = evaluate(results, scenario, to_run)
        if add_to:
            outcome.lines += [f"table: {path}" for path in table.copy(results, add_to)]
    return outcome


def _on_servers(
    options: Mapping[str, Any], scenario: Scenario, repeats: int, announce: Callable[[str], None]
) -> Climbing:
    times = {lab: own.model_dump() for lab, own in scenario.times.items()}
    choice = choose(options, times=times)
    announce(first_line(choice))
    wanted, there = scenario.load.initiators, choice.topology.initiators_max
    if wanted > there:
        raise ScenarioError(f"the scenario wants {wanted} initiators, the lab has {there}")
    to_run = turns(scenario, version=choice.settings.server_versions[-1], repeats=repeats)

    def stand(results: Path, reporter: Reporter, watch: Callable[[], None]) -> Stand[Turn]:
        return TechniqueStand(
            choice.settings,
            choice.topology,
            results,
            on_rate=reporter.rate,
            on_lab=_examiner(choice, results, to_run, reporter),
            on_note=reporter.note,
            watch=watch,
        )

    return Climbing(choice.settings.lab, to_run, lambda: _open_results(choice.settings, scenario, to_run), stand)


def _in_virtual_time(
    options: Mapping[str, Any], scenario: Scenario, repeats: int, announce: Callable[[str], None]
) -> Climbing:
    times = scenario.times.get(SIMULATED)
    if times is None:
        raise ScenarioError(f"the scenario has no times for the lab {SIMULATED}")
    defaults = {"settle": times.settle, "measure": times.measure}
    settings = settings_module.create_simulation(options, defaults=lambda given: defaults)
    hardware = parameters.read(settings.hardware)
    for line in first_lines(settings):
        announce(line)
    to_run = turns(scenario, version=settings.server_versions[-1], repeats=repeats)

    def circumstances(run_id: str) -> dict[str, Any]:
        made = manifest.new(run_id, settings, cells=len(to_run), driver=None)
        return made | {"model": model_of(hardware), "scenario": scenario.model_dump(mode="json")}

    return Climbing(
        SIMULATED,
        to_run,
        lambda: folder.create(settings, circumstances),
        lambda results, *_: SimulatedStand(settings, hardware, times.drain, results),
    )


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


def _examiner(choice: Choice, results: Path, to_run: Sequence[Turn], reporter: Reporter) -> Callable[[Lab], None]:
    """Examines the lab when it is opened first; not again when it was rebuilt."""
    is_examined = False

    def examine_once(lab: Lab) -> None:
        nonlocal is_examined
        if not is_examined:
            is_examined = True
            examine(lab, [turn.cell for turn in to_run], choice.settings, results, reporter.note, first=True)

    return examine_once
