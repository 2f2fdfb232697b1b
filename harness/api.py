"""What is public: open or examine a lab, plan and run cells. `harness` names all of it, with examples.

The functions are named after the commands, their keywords after the options: `measure="2s"` is `--measure 2s`. A
setting that is not given comes from the environment (`HARNESS_MEASURE`), the settings file, or the lab's defaults. A
wrong one raises SettingsError, a UsageFailure, before anything starts; its message spells the setting as the command
line does. `harness.files.settings` has every setting with its meaning; times are texts such as `500ms` or numbers of
seconds.

Whatever opens a lab is called from the main thread, as Jupyter calls it, and says nothing. `progress=True` prints a
line per cell, and `progress` may be any `harness.output.reporting.Reporter`. Ctrl-C ends a run; what was measured is
kept.
"""

# ruff: noqa: PLC0415  a function imports its parts only when it runs

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from harness.definitions.lab_kinds import SIMULATED
from harness.failures import Declined, MachineFailure, UsageFailure  # noqa: F401  public here too
from harness.results.run import Run, Tell, reporter_for, silent

if TYPE_CHECKING:
    from harness.definitions.load_model import Arrivals
    from harness.doctor import Finding
    from harness.experiments.sweep_plan import Plan
    from harness.files.certificate import Certificate
    from harness.lab.instances import Lab
    from harness.lab.opening import Selection
    from harness.output.reporting import Reporter
    from harness.run.under_way import Outcome


@contextlib.contextmanager
def open_lab(
    *,
    initiators: int | str = 1,
    server_version: str | None = None,
    settings_file: Path | str | None = None,
    tell: Tell = silent,
    **settings: Any,
) -> Iterator[Lab]:
    """Open a lab of one target and some initiators, linked and without dialogs; close it after the block.

    `lab.target` and each of `lab.initiators` have `connect()`, which returns a connection of pyodbc with autocommit.
    `server_version` is by default the lab's newest. `settings` are `lab`, `lab_file`, `dialog_security`,
    `endpoint_encryption`, `driver` and `workload`. `tell` gets a line for each long step. Raises UsageFailure or
    MachineFailure.
    """
    with _opened(settings, settings_file, initiators, server_version, tell, for_sweep=False) as (_, lab):
        yield lab


def examine_lab(
    *,
    initiators: int | str = 1,
    server_version: str | None = None,
    settings_file: Path | str | None = None,
    progress: bool | Reporter = False,
    **settings: Any,
) -> list[Finding]:
    """Open a lab, examine services and links as every sweep does before its first cell, and return all findings.

    The worst is first. A finding has `severity` (`error`, `warning`, `information`), `instance`, `check`, `text` and
    `remedy`. Settings and errors are those of `open_lab`; `server_version` is by default the newest of a sweep.
    """
    from harness import doctor
    from harness.experiments import selected_cells

    reporter = reporter_for(progress)
    opened = _opened(settings, settings_file, initiators, server_version, reporter.note, confirm=reporter.confirm)
    with opened as (selection, lab):
        visits = selected_cells.chosen_visits(selection.settings, initiators_max=len(lab.initiators))
        cells = [visit.cell for visit in visits]
        return doctor.examine(lab, cells=cells, settings=selection.settings, reporter=reporter)


def plan_matrix(
    *, noise_from: Path | str | None = None, settings_file: Path | str | None = None, **settings: Any
) -> Plan:
    """Say what `run_matrix` would do with these settings: cells, seconds, which gain so many repeats can show.

    It starts nothing. `noise_from` is a former run of this lab with repeats: the plan takes its noise in place of an
    assumption, and how long its cells settled. Raises UsageFailure.
    """
    from harness.experiments import sweep_plan

    return sweep_plan.plan(_plain(settings), settings_file=_path(settings_file), noise_from=_path(noise_from))


def write_lab_scripts(
    folder: Path | str, *, initiators: int | str = 1, settings_file: Path | str | None = None, **settings: Any
) -> list[Path]:
    """Write what `open_lab` would execute on your own servers, and what removes it, as files for change control.

    No server is asked. `settings` are those of `open_lab`, with `lab_file`. Raises UsageFailure or MachineFailure.
    """
    from harness.experiments import selected_cells
    from harness.lab import drivers, opening, script_files, user_servers

    chosen, directory = opening.select_lab(_plain(settings), settings_file=_path(settings_file)), Path(folder)
    topology = chosen.topology
    if topology.lab_file is None:
        raise UsageFailure("--script is for your own servers: name them with --lab-file lab.toml")
    number = selected_cells.axes({"initiators": initiators}, topology).initiators
    driver = drivers.choose(chosen.settings.driver)
    lab = user_servers.lab_of(topology.lab_file, initiators=number, directory=directory, driver=driver, signs_in=False)
    lab.security, lab.workload = topology.security, topology.workload
    return script_files.write(lab, directory)


def run_matrix(
    *,
    resume: Path | str | None = None,
    settings_file: Path | str | None = None,
    reduce: bool = True,
    progress: bool | Reporter = False,
    **settings: Any,
) -> Run:
    """Run the cells of a matrix on a lab, then reduce them to tables: `run_matrix(matrix="quick", lab="embedded")`.

    `resume` is the folder of a run that goes on with its own settings. Cells that fail are counted in the run's
    `outcome` and raise nothing. Raises UsageFailure, MachineFailure (without Java too, unless `reduce` is False), or
    Declined if a reporter that was given declines a sweep of more than an hour.
    """
    from harness.experiments import matrix_run

    reporter = reporter_for(progress)
    with contextlib.ExitStack() as exits:
        if reduce:
            from harness.reductions.spark_session import one_jvm

            _require_java()
            exits.enter_context(one_jvm())  # for cells of a model and the reduction
        outcome = matrix_run.sweep(_plain(settings), reporter, settings_file=_path(settings_file), resume=_path(resume))
        return _reduced(outcome, reduce, reporter)


def run_soak(
    cell: str,
    *,
    duration: float | str,
    restart_target: bool = False,
    settings_file: Path | str | None = None,
    progress: bool | Reporter = False,
    **settings: Any,
) -> Run:
    """Run one cell again and again on the same instances and dialogs, for about so long (`"8h"`); then reduce.

    Each time all messages are accounted for. With `restart_target` the reporter asks for a restart of the target in the
    middle. `run_matrix(resume=run.folder)` goes on with one that was interrupted. Errors are those of `run_matrix`.
    """
    from harness.experiments import matrix_run

    _require_java()
    reporter = reporter_for(progress)
    outcome = matrix_run.soak(
        cell, duration, _plain(settings), reporter, restart_target=restart_target, settings_file=_path(settings_file)
    )
    return _reduced(outcome, True, reporter)


def run_pair(
    *names: str,
    resume: Path | str | None = None,
    settings_file: Path | str | None = None,
    progress: bool | Reporter = False,
    **settings: Any,
) -> list[Run]:
    """Run two workloads, or two files of settings, block by block in turns, and reduce both: `run[0].compare(run[1])`.

    Settings are those of both sides, three `repeats` or more. `resume` is the folder of a pair that goes on. Errors are
    those of `run_matrix`.
    """
    from harness.experiments import paired_runs

    _require_java()
    reporter, file = reporter_for(progress), _path(settings_file)
    outcomes = paired_runs.run(_plain(settings), reporter, names=names, settings_file=file, resume=_path(resume))
    return [_reduced(outcome, True, reporter) for outcome in outcomes]


def run_twins(
    *,
    runs: int = 6,
    resume: Path | str | None = None,
    settings_file: Path | str | None = None,
    progress: bool | Reporter = False,
    **settings: Any,
) -> Certificate:
    """Make twin runs of a matrix, and return how much they differ.

    `resume` is the folder of twins that go on. The certificate is also kept, for `compare` and `plan_matrix`. Errors
    are those of `run_matrix`, and UsageFailure where too few cells count.
    """
    from harness.experiments import twin_runs

    return twin_runs.run(
        _plain(settings), reporter_for(progress), runs=runs, settings_file=_path(settings_file), resume=_path(resume)
    )


def run_cell(
    cell: str | None = None,
    *,
    initiators: int | str | None = None,
    threads: int | str | None = None,
    dialog_ratio: int | str | None = None,
    payload_bytes: int | str | None = None,
    server_version: str | None = None,
    settings_file: Path | str | None = None,
    reduce: bool = True,
    progress: bool | Reporter = False,
    **settings: Any,
) -> Run:
    """Run one cell once, named by its id, `i1-t10-r150-p100-v2008`, or by its axes; then reduce it.

    Without a name it has one initiator, 10 threads, dialog ratio 150 and 100 bytes. Outcome and errors are those of
    `run_matrix`.
    """
    from harness.experiments import matrix_run

    reporter = reporter_for(progress)
    if reduce:
        _require_java()
    axes = {
        "initiators": initiators,
        "threads": threads,
        "dialog_ratio": dialog_ratio,
        "payload_bytes": payload_bytes,
        "server_version": server_version,
    }
    outcome = matrix_run.single(cell, axes, _plain(settings), reporter, settings_file=_path(settings_file))
    return _reduced(outcome, reduce, reporter)


def simulate(
    *, resume: Path | str | None = None, reduce: bool = True, progress: bool | Reporter = False, **settings: Any
) -> Run:
    """Run the cells of a matrix in virtual time on a model of the paper's hardware, then reduce them.

    The numbers are a model's. `settings` are those of `harness.files.settings.SimulationSettings`: `hardware`, `seed`,
    `matrix`, `cells`, `measure` in virtual seconds, and others. Outcome and errors are those of `run_matrix`.
    """
    if "lab" in settings:
        raise UsageFailure("simulate runs on no other lab: leave lab out, or call run_matrix")
    return run_matrix(lab=SIMULATED.name, resume=resume, reduce=reduce, progress=progress, **settings)


def run_rates(
    cell: str | None = None,
    *,
    arrivals: Arrivals | None = None,
    resume: Path | str | None = None,
    progress: bool | Reporter = False,
    **settings: Any,
) -> Run:
    """Run a cell in the closed loop, then in open loops at 10 %, 20 %, ... 110 % of its rate, and draw its latencies.

    `lab` may also be `simulated`. `arrivals` are "constant" unless given. `resume` is the folder of a run that goes on
    with its own cell and settings. The table is `rates`: a row per step and block. Errors are those of `run_matrix`.
    """
    from harness.experiments import rates_run

    outcome = rates_run.run(
        _plain(settings), reporter_for(progress), cell_id=cell, arrivals=arrivals, resume=_path(resume)
    )
    return Run(outcome.results, outcome)


def run_techniques(
    *,
    scenario_file: Path | str | None = None,
    add_to: Path | str | None = None,
    resume: Path | str | None = None,
    progress: bool | Reporter = False,
    **settings: Any,
) -> Run:
    """Run the paper's recommendations one after another under the same load, and draw what each is worth.

    `lab` may also be `simulated`. `scenario_file` has load and steps of your own; "variants" compares other set-ups
    with the paper's. `add_to` is the folder of a run of cells that gets a copy of the table, `techniques`: a row per
    technique and run. `resume` is the folder of a run that goes on with its own scenario and settings. Errors are those
    of `run_matrix`.
    """
    from harness.experiments import scenario_run

    outcome = scenario_run.run(
        _plain(settings),
        reporter_for(progress),
        scenario_file=_path(scenario_file),
        add_to=_path(add_to),
        resume=_path(resume),
    )
    return Run(outcome.results, outcome)


@contextlib.contextmanager
def _opened(
    settings: Mapping[str, Any],
    settings_file: Path | str | None,
    initiators: int | str,
    server_version: str | None,
    tell: Tell,
    *,
    confirm: Callable[[str], bool] = lambda question: True,
    for_sweep: bool = True,
) -> Iterator[tuple[Selection, Lab]]:
    from harness.experiments import selected_cells
    from harness.lab import interruption, opening

    chosen = opening.select_lab(_plain(settings), settings_file=_path(settings_file))
    if server_version is None and not for_sweep:
        server_version = chosen.topology.versions[-1]
    axes = selected_cells.axes({"initiators": initiators, "server_version": server_version}, chosen.topology)
    tell(chosen.first_line)
    with (
        interruption.noted(),
        opening.open(
            chosen.topology,
            version=axes.server_version,
            initiators=axes.initiators,
            driver=chosen.settings.driver,
            watch=interruption.check,
            tell=tell,
            confirm=confirm,
            is_patient=not for_sweep,
        ) as lab,
    ):
        yield chosen, lab


def _require_java() -> None:
    """Raise SparkUnavailable before a sweep, not half an hour later."""
    from harness.reductions.spark_session import require_java

    require_java()


def _reduced(outcome: Outcome, reduce: bool, reporter: Reporter) -> Run:
    run = Run(outcome.results, outcome)
    if reduce and outcome.completed:
        run.reduce(progress=reporter)
    return run


def _plain(settings: Mapping[str, Any]) -> dict[str, Any]:
    """The settings as the command line gives them: a file is a text."""
    return {name: str(value) if isinstance(value, Path) else value for name, value in settings.items()}


def _path(path: Path | str | None) -> Path | None:
    return None if path is None else Path(path)
