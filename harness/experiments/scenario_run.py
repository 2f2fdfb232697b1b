"""Run a scenario: from the options to the folder with manifest, journal, raw records, table and figure."""

from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

from harness.definitions.lab_kinds import SIMULATED
from harness.definitions.units import counted
from harness.experiments import lab_choice, recorded_attempts, techniques_table
from harness.experiments.run_lab import RunLab
from harness.experiments.technique_scenario import Scenario, ScenarioError, Technique, Turn, read, turns
from harness.failures import UsageFailure
from harness.files.journal import Journal
from harness.files.settings import SettingsError
from harness.files.workload_file import Dialogs
from harness.output.reporting import Reporter
from harness.run import run_folder, under_way
from harness.run.in_process import InProcess
from harness.run.run_folder import ResumeRefused
from harness.run.under_way import Outcome


class OtherLab(UsageFailure):
    """The run to which the table is to be added is of another lab or another model."""


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
    scenario = read(scenario_file or _stored_file(resume))
    lab = _lab(options, reporter, scenario, resume)
    settings = lab.settings
    if add_to:
        _require_alike(add_to, {"lab": settings.lab, "model": lab.model})
    needed, initiators_max = scenario.load.initiators, lab.topology.initiators_max
    if needed > initiators_max:
        raise ScenarioError(
            f"the scenario needs {needed} initiators, but the lab has {initiators_max}: lower [load] initiators"
        )
    version = settings.server_versions[-1]
    to_run = turns(scenario, version=version, repeats=settings.repeats, seed=settings.seed)
    results = lab.open_results(to_run, resume, scenario=_as_manifest(scenario, resume))
    runs = f"{counted(len(to_run), 'run')} of {counted(len(scenario.techniques), 'technique')}"
    reporter.note(f"{runs}; results in {results}")

    def examined() -> None:
        """Only when a lab has opened is it known which one it is."""
        if add_to:
            _require_alike(add_to, run_folder.read_manifest(results))

    def executor(run_journal: Journal) -> InProcess[Turn]:
        testbed = lab.testbed([turn.cell for turn in to_run], results, reporter, examined=examined)
        return InProcess(testbed, reporter)

    def evaluate() -> None:
        row = partial(techniques_table.row, scenario)
        steps = sorted(to_run, key=lambda turn: (turn.block, scenario.techniques.index(turn.technique)))
        recorded_attempts.evaluate(results, steps, row, techniques_table.write, reporter)

    outcome = under_way.run(results, to_run, reporter, executor, evaluate=evaluate)
    if add_to and outcome.completed:
        for path in techniques_table.copy(results, add_to):
            reporter.note(f"table: {path}")
    return outcome


def _lab(options: Mapping[str, Any], reporter: Reporter, scenario: Scenario, resume: Path | None) -> RunLab:
    """Return the lab, with the scenario's times; raises ScenarioError where it cannot run the scenario."""
    if options.get("workload") is not None:
        raise SettingsError("--workload has no effect on techniques: a --scenario names the workload of its steps")
    times = {lab: durations.model_dump() for lab, durations in scenario.times.items()}
    lab = lab_choice.choose(
        options, reporter, verb="techniques", resume=resume, times=times, workload=scenario.workload
    )
    if not lab.settings.kind.can.virtual_time:
        return lab
    for technique in scenario.techniques:
        _require_modelled(technique)
    if lab.settings.lab not in times:
        raise ScenarioError(
            f"the scenario has no times for the lab {SIMULATED.name}: add a section [times.{SIMULATED.name}]"
        )
    return lab


def _require_alike(add_to: Path, manifest: Mapping[str, Any]) -> None:
    """Raise OtherLab if the table of a run with this manifest does not belong in the run of the other folder."""
    host = run_folder.read_manifest(add_to)
    if host["lab"] != manifest["lab"]:
        raise OtherLab(f"{add_to} is a run on the {host['lab']} lab, but this run is on the {manifest['lab']} lab")
    far, own_ = (_values(run.get("model", {})) for run in (host, manifest))
    if different := [name for name in {**far, **own_} if far.get(name) != own_.get(name)]:
        first = different[0]
        raise OtherLab(
            f"{add_to} is a run on another model: {first} is {far.get(first)} there and {own_.get(first)} here"
            f"{f', and {more} more differ' if (more := len(different) - 1) else ''} (--hardware)"
        )


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


def _require_modelled(technique: Technique) -> None:
    """Raise ScenarioError if the clients or the broker of the model cannot do what a step asks for."""
    workload = technique.arrangement.workload
    client, dialogs, target = workload.client, workload.dialogs, workload.target
    if client.think_time or client.messages_per_transaction > 1:
        text = "clients neither pause nor share transactions"
    elif client.direct_rpc:
        text = "calls cost the same however the driver makes them"
    elif dialogs != Dialogs() or workload.queue.retention:
        text = "conversations have no priority and no common groups, and queues retain nothing"
    elif technique.arrangement.batch or target.tables == "heap" or not target.store_in_order:
        text = "targets neither process in batch nor store in heaps or without ORDER BY"
    elif technique.arrangement.outside_readers:
        text = "all readers are procedures"
    elif workload.bodies is not None:
        text = "messages have neither text nor sizes of their own"
    elif not any(script.endswith("/send_message_on_new_dialog.sql") for script in workload.initiator_scripts):
        text = "readers are launched before the load, by dbo.SendMessageOnNewDialog, which the workload lacks"
    else:
        return
    raise ScenarioError(f"{technique.key}: on the lab {SIMULATED.name} {text}: choose another --lab")
