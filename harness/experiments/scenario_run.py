"""Run a scenario: from the options to the folder with manifest, journal, raw records, table and figure."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from harness.experiments import recorded_attempts, techniques_table
from harness.experiments.matrix_run import Outcome
from harness.experiments.run_options import first_lines, in_virtual_time, is_of_virtual_time, on_servers, open_results
from harness.experiments.technique_scenario import Scenario, ScenarioError, Technique, Turn, read, turns
from harness.experiments.virtual_testbed import VirtualTestbed
from harness.failures import UsageFailure
from harness.journal import Journal
from harness.lab.instances import Lab
from harness.lab_kinds import SIMULATED
from harness.reporting import Reporter
from harness.run import run_folder
from harness.run.engine import Sweep, Tally, Testbed
from harness.run.equipment import Preflight
from harness.run.run_folder import ResumeRefused
from harness.run.testbed import LabTestbed
from harness.run.under_way import run_and_evaluate
from harness.settings import SettingsError
from harness.simulation import parameters
from harness.units import counted
from harness.workload_file import Dialogs, Target

VERB = "techniques"

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
    resume: Path | None = None,
) -> Outcome:
    """Run every technique of the scenario in each block, then write the table and draw the figure.

    If the run is interrupted or fails, table and figure show what was completed. `resume` is the folder of such a run,
    which has its own scenario and settings. The lab `simulated` takes the options of a run in virtual time, any other
    lab those of a run on servers. `add_to` is the folder of a run on the same lab into which the table is copied.
    """
    prepare = _in_virtual_time if is_of_virtual_time(options, resume) else _on_servers
    scenario = read(scenario_file or _stored_file(resume))
    require_alike = _alike(add_to)
    prepared = prepare(options, scenario, reporter, resume, require_alike)
    results, to_run = prepared.results, prepared.turns
    runs = f"{counted(len(to_run), 'run')} of {counted(len(scenario.techniques), 'technique')}"
    reporter.note(f"{runs}; results in {results}")

    def run_all(run_journal: Journal) -> Tally:
        return Sweep(prepared.testbed(), run_journal, reporter, results, unit="run").run(to_run)

    def evaluate() -> None:
        row = partial(techniques_table.row, scenario)
        recorded_attempts.evaluate(results, to_run, row, techniques_table.write, reporter)

    tally = run_and_evaluate(results, run_all, evaluate)
    if add_to and tally.completed:
        for path in techniques_table.copy(results, add_to):
            reporter.note(f"table: {path}")
    return Outcome(results, len(to_run), tally.completed, tally.failed, tally.last_reason)


def _alike(add_to: Path | None) -> RequireAlike:
    host = run_folder.read_manifest(add_to) if add_to else None

    def require(manifest: Mapping[str, Any]) -> None:
        if host is None:
            return
        if host["lab"] != manifest["lab"]:
            raise OtherLab(f"{add_to} is a run on the {host['lab']} lab, but this run is on the {manifest['lab']} lab")
        far, own_ = (_values(run.get("model", {})) for run in (host, manifest))
        if different := [name for name in {**far, **own_} if far.get(name) != own_.get(name)]:
            first = different[0]
            raise OtherLab(
                f"{add_to} is a run on another model: {first} is {far.get(first)} there and {own_.get(first)} here"
                f"{f', and {more} more differ' if (more := len(different) - 1) else ''} (--hardware)"
            )

    return require


def _values(model: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    """Return the values of a model's parameters, without bounds and sources, which change no number."""
    return {name: parameter["value"] for name, parameter in model.items()}


def _stored_file(resume: Path | None) -> Path | None:
    stored = run_folder.read_manifest(resume).get("scenario", {}) if resume else {}
    return Path(stored["file"]) if stored.get("file") else None


def _as_manifest(scenario: Scenario, resume: Path | None) -> dict[str, Any]:
    """Return the scenario as the manifest has it; raises ResumeRefused where that of the run to resume differs."""
    current = {**scenario.model_dump(mode="json"), "file": str(scenario.file)}
    if resume and run_folder.read_manifest(resume)["scenario"] != current:
        raise ResumeRefused(f"{resume} cannot be resumed: the scenario {scenario.file} is not as it was in the run")
    return current


def _on_servers(
    options: Mapping[str, Any],
    scenario: Scenario,
    reporter: Reporter,
    resume: Path | None,
    require_alike: RequireAlike,
) -> Prepared:
    if options.get("workload") is not None:
        raise SettingsError("--workload has no effect on techniques: a --scenario names the workload of its steps")
    for name in ("seed", "hardware"):
        if options.get(name) is not None:
            raise SettingsError(f"--{name} has no effect on servers: leave it out, or choose --lab {SIMULATED.name}")
    times = {lab: durations.model_dump() for lab, durations in scenario.times.items()}
    with_workload = {**options, "workload": scenario.workload.given_as}
    selection = on_servers(with_workload, resume=resume, verb=VERB, times=times)
    reporter.note(selection.first_line)
    require_alike({"lab": selection.settings.lab})
    needed, initiators_max = scenario.load.initiators, selection.topology.initiators_max
    if needed > initiators_max:
        raise ScenarioError(
            f"the scenario needs {needed} initiators, but the lab has {initiators_max}: lower [load] initiators"
        )
    to_run = turns(scenario, version=selection.settings.server_versions[-1], repeats=selection.settings.repeats)
    results = open_results(selection.settings, to_run, resume, scenario=_as_manifest(scenario, resume))

    def testbed() -> Testbed[Turn]:
        preflight = _Preflight(selection.settings, [turn.cell for turn in to_run], results, reporter)
        preflight.require_alike = require_alike
        return LabTestbed(selection.topology, preflight)

    return Prepared(to_run, results, testbed)


def _in_virtual_time(
    options: Mapping[str, Any],
    scenario: Scenario,
    reporter: Reporter,
    resume: Path | None,
    require_alike: RequireAlike,
) -> Prepared:
    for technique in scenario.techniques:
        _require_modelled(technique)
    times = scenario.times.get(SIMULATED.name)
    if times is None:
        raise ScenarioError(
            f"the scenario has no times for the lab {SIMULATED.name}: add a section [times.{SIMULATED.name}]"
        )
    settings = in_virtual_time(options, resume=resume, verb=VERB, defaults=lambda given: times.model_dump())
    hardware = parameters.read(settings.hardware)
    model = hardware.as_manifest()
    require_alike({"lab": settings.lab, "model": model})
    for line in first_lines(settings):
        reporter.note(line)
    to_run = turns(scenario, version=settings.server_versions[-1], repeats=settings.repeats)
    more = {"model": model, "scenario": _as_manifest(scenario, resume)}
    results = run_folder.open_run(settings, cells=len(to_run), driver=None, resume=resume, **more)
    return Prepared(to_run, results, lambda: VirtualTestbed(settings, hardware, results, workload=scenario.workload))


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


class _Preflight(Preflight):
    """Examines the lab when it opens. Only then is it known which lab it is."""

    require_alike: RequireAlike

    def examine(self, lab: Lab) -> None:
        super().examine(lab)
        self.require_alike(run_folder.read_manifest(self.results))
