"""Run a scenario: from the options to the folder with manifest, journal, raw records, table and figure."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from harness import journal
from harness import settings as settings_module
from harness.experiments import techniques_table
from harness.experiments.matrix_run import Outcome, open_results
from harness.experiments.simulated_run import first_lines, is_of_virtual_time
from harness.experiments.technique_scenario import Scenario, ScenarioError, Technique, Turn, read, turns
from harness.experiments.technique_testbeds import ServerTestbed, SimulatedTestbed
from harness.failures import UsageFailure
from harness.figures import build
from harness.journal import Journal
from harness.lab.instances import Lab
from harness.lab.opening import select_lab
from harness.lab_kinds import SIMULATED
from harness.reporting import Reporter
from harness.run import run_folder
from harness.run.engine import Sweep, Tally, Testbed
from harness.run.equipment import Preflight
from harness.run.under_way import run_and_evaluate
from harness.settings import SettingsError
from harness.simulation import parameters
from harness.units import counted
from harness.workload_file import Dialogs, Target

# Gets a manifest, or what is known of it; raises OtherLab if the run's table does not belong in the other folder.
RequireAlike = Callable[[Mapping[str, Any]], None]


class OtherLab(UsageFailure):
    """The run to which the table is to be added is of another lab or another model."""


@dataclass(frozen=True)
class Prepared:
    """A run that can begin: its turns, its folder, and how to make its testbed."""

    turns: Sequence[Turn]
    results: Path
    testbed: Callable[[], Testbed[Turn]]


def run(
    options: Mapping[str, Any],
    reporter: Reporter,
    *,
    scenario_file: Path | None,
    add_to: Path | None = None,
) -> Outcome:
    """Run every technique of the scenario in each block, then write the table and draw the figure.

    If the run is interrupted or fails, table and figure show what was completed. The lab `simulated` takes the options
    of a run in virtual time, any other lab those of a run on servers. `add_to` is the folder of a run on the same lab
    into which the table is copied.
    """
    scenario = read(scenario_file)
    require_alike = _alike(add_to)
    prepare = _in_virtual_time if is_of_virtual_time(options) else _on_servers
    prepared = prepare(options, scenario, reporter, require_alike)
    results, to_run = prepared.results, prepared.turns
    runs = f"{counted(len(to_run), 'run')} of {counted(len(scenario.techniques), 'technique')}"
    reporter.note(f"{runs}; results in {results}")

    def run_all(kept: Journal) -> Tally:
        return Sweep(prepared.testbed(), kept, reporter, results, unit="run").run(to_run)

    tally = run_and_evaluate(results, run_all, lambda: evaluate(results, scenario, to_run, reporter))
    if add_to and tally.completed:
        for path in techniques_table.copy(results, add_to):
            reporter.note(f"table: {path}")
    return Outcome(results, len(to_run), tally.completed, tally.failed, tally.last_reason)


def _alike(add_to: Path | None) -> RequireAlike:
    host = run_folder.read_manifest(add_to) if add_to else None

    def require(own: Mapping[str, Any]) -> None:
        if host is None:
            return
        if host["lab"] != own["lab"]:
            raise OtherLab(f"{add_to} is a run on the {host['lab']} lab, but this run is on the {own['lab']} lab")
        there, here = (_values(run.get("model", {})) for run in (host, own))
        if different := [name for name in {**there, **here} if there.get(name) != here.get(name)]:
            first = different[0]
            raise OtherLab(
                f"{add_to} is a run on another model: {first} is {there.get(first)} there and {here.get(first)} here"
                f"{f', and {more} more differ' if (more := len(different) - 1) else ''} (--hardware)"
            )

    return require


def _values(model: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    """Return the values of a model's parameters, without bounds and sources, which change no number."""
    return {name: parameter["value"] for name, parameter in model.items()}


def _on_servers(
    options: Mapping[str, Any],
    scenario: Scenario,
    reporter: Reporter,
    require_alike: RequireAlike,
) -> Prepared:
    if options.get("workload") is not None:
        raise SettingsError("--workload has no effect on techniques: a --scenario names the workload of its steps")
    for name in ("seed", "hardware"):
        if options.get(name) is not None:
            raise SettingsError(f"--{name} has no effect on servers: leave it out, or choose --lab {SIMULATED.name}")
    times = {lab: own.model_dump() for lab, own in scenario.times.items()}
    selection = select_lab({**options, "workload": scenario.workload.given_as}, times=times)
    reporter.note(selection.first_line)
    require_alike({"lab": selection.settings.lab})
    wanted, there = scenario.load.initiators, selection.topology.initiators_max
    if wanted > there:
        raise ScenarioError(f"the scenario needs {wanted} initiators, but the lab has {there}: lower [load] initiators")
    to_run = turns(scenario, version=selection.settings.server_versions[-1], repeats=selection.settings.repeats)
    results = open_results(selection.settings, to_run, scenario=scenario.model_dump(mode="json"))

    def testbed() -> Testbed[Turn]:
        preflight = _Preflight(selection.settings, [turn.cell for turn in to_run], results, reporter)
        preflight.require_alike = require_alike
        return ServerTestbed(selection.topology, preflight)

    return Prepared(to_run, results, testbed)


def _in_virtual_time(
    options: Mapping[str, Any],
    scenario: Scenario,
    reporter: Reporter,
    require_alike: RequireAlike,
) -> Prepared:
    for technique in scenario.techniques:
        _require_modelled(technique)
    times = scenario.times.get(SIMULATED.name)
    if times is None:
        raise ScenarioError(
            f"the scenario has no times for the lab {SIMULATED.name}: add a section [times.{SIMULATED.name}]"
        )
    defaults = {"settle": times.settle, "measure": times.measure}
    others = {name: value for name, value in options.items() if name != "drain"}
    settings = settings_module.create_simulation(others, defaults=lambda given: defaults)
    # Other runs in virtual time have no such setting, as their cells leave little to drain. Some steps leave much.
    drain = {"drain": options.get("drain")}
    drain_s = settings_module.create(drain, environment={}, defaults=lambda given: {"drain": times.drain}).drain
    hardware = parameters.read(settings.hardware)
    model = hardware.as_manifest()
    require_alike({"lab": settings.lab, "model": model})
    for line in first_lines(settings):
        reporter.note(line)
    to_run = turns(scenario, version=settings.server_versions[-1], repeats=settings.repeats)

    more: dict[str, Any] = {
        "settings": run_folder.settings_of(settings) | {"drain": drain_s},
        "model": model,
        "scenario": scenario.model_dump(mode="json"),
    }
    results = run_folder.open_run(settings, cells=len(to_run), driver=None, **more)
    return Prepared(to_run, results, lambda: SimulatedTestbed(settings, hardware, scenario.workload, drain_s, results))


def _require_modelled(technique: Technique) -> None:
    """Raise ScenarioError if the clients or the broker of the model cannot do what a step asks for."""
    workload = technique.arrangement.workload
    client, dialogs = workload.client, workload.dialogs
    if client.think_time or client.messages_per_transaction > 1:
        text = "clients neither pause nor share transactions"
    elif client.direct_rpc:
        text = "calls cost the same however the driver makes them"
    elif dialogs != Dialogs() or workload.queue.retention:
        text = "conversations have no priority and no common groups, and queues retain nothing"
    elif technique.arrangement.batch or workload.target.tables != Target.model_fields["tables"].default:
        text = "targets neither process in batch nor store in heaps"
    elif technique.arrangement.outside_readers:
        text = "all readers are procedures"
    elif workload.bodies is not None:
        text = "messages have neither text nor sizes of their own"
    else:
        return
    raise ScenarioError(f"{technique.key}: on the lab {SIMULATED.name} {text}: choose another --lab")


def evaluate(results: Path, scenario: Scenario, to_run: Sequence[Turn], reporter: Reporter) -> None:
    """Write the table of the completed turns, draw the figure, and report their paths; do nothing without any."""
    made = run_folder.read_manifest(results)
    attempts = {
        (entry.cell, entry.block): entry.attempt
        for entry in journal.read(results / journal.NAME)
        if entry.outcome == "completed"
    }
    rows = [
        techniques_table.row(
            results, scenario, turn, attempts[turn.id, turn.block], run_id=made["run_id"], lab=made["lab"]
        )
        for turn in to_run
        if (turn.id, turn.block) in attempts
    ]
    if not rows:
        return
    reporter.note(f"table: {techniques_table.write(results, rows)}")
    for figure in build.draw(results, progress=reporter):
        if figure.suffix == ".png":
            reporter.note(f"figure: {figure}")


class _Preflight(Preflight):
    """Examines the lab when it opens. Only then is it known which lab it is."""

    require_alike: RequireAlike

    def examine(self, lab: Lab) -> None:
        super().examine(lab)
        self.require_alike(run_folder.read_manifest(self.results))
