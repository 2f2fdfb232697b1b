"""Choose the lab of a run and its settings, also where the run is resumed; servers as the lab of a run."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from harness.definitions import lab_kinds
from harness.definitions.matrix import Cell, Visit
from harness.experiments.run_lab import ExecutorOf, RunLab, Times
from harness.failures import nearest
from harness.files import settings as settings_module
from harness.files import workload_file
from harness.files.settings import Settings, SettingsError
from harness.files.workload_file import Workload
from harness.lab import drivers, opening
from harness.lab.opening import select_lab
from harness.load.locust_clients import Elsewhere
from harness.output.reporting import Reporter
from harness.run import run_folder
from harness.run.equipment import Preflight
from harness.run.in_process import InProcess
from harness.run.run_folder import ResumeRefused
from harness.run.testbed import LabTestbed, LoadOf


@dataclass(frozen=True)
class OnServers(RunLab):
    """SQL Server or embedded instances, which take real time."""

    settings: Settings

    def open_results(self, items: Sequence[Any], resume: Path | None = None, **more: Any) -> Path:
        drivers.check_manager()
        driver = drivers.choose(self.settings.driver)
        Elsewhere.of(self.settings)
        opening.require_startable(self.topology.kind)
        return run_folder.open_run(self.settings, cells=len(items), driver=driver, resume=resume, **more)

    def testbed(
        self,
        cells: Sequence[Cell],
        results: Path,
        reporter: Reporter,
        *,
        load_of: LoadOf | None = None,
        examined: Callable[[], None] = lambda: None,
    ) -> LabTestbed:
        return LabTestbed(self.topology, Preflight(self.settings, cells, results, reporter, examined), load_of)

    def executor_of(self, visits: Sequence[Visit], reporter: Reporter) -> ExecutorOf:
        cells = [visit.cell for visit in visits]
        return lambda results, run_journal: InProcess(self.testbed(cells, results, reporter), reporter)


def choose(
    options: Mapping[str, Any],
    reporter: Reporter,
    *,
    verb: str,
    resume: Path | None = None,
    settings_file: Path | None = None,
    times: Times | None = None,
    workload: Workload | None = None,
) -> RunLab:
    """Return the lab that options name, with the settings of a run of `harness VERB`, and say which lab it is.

    `resume` is a run that goes on: its settings are the defaults. `times` are the default durations by the lab's name,
    those of the verb unless given. `workload` is that of items with arrangements, as far as they have it in common.
    Raises SettingsError, UsageFailure, and ResumeRefused where settings differ from those of the run to resume.
    """
    times = lab_kinds.times(verb) if times is None else times
    if _is_of_virtual_time(options, settings_file, resume):
        # Servers need nothing of the model, which takes a second to import.
        from harness.experiments import virtual_lab  # noqa: PLC0415

        return virtual_lab.choose(
            options, reporter, verb=verb, resume=resume, settings_file=settings_file, times=times, workload=workload
        )
    if workload is not None:
        options = {**options, "workload": workload.given_as}
    stored = run_folder.stored_settings(resume, Settings, verb) if resume else None
    # Its files may have changed, and the manifest too: only what is in its folder now is run.
    in_folder = stored and {**stored, "workload": workload_file.read(Settings(**stored).workload.given_as)}
    selection = select_lab(options, settings_file=settings_file, stored=in_folder, times=times)
    if resume and stored:
        run_folder.require_same(resume, stored, selection.settings)
    reporter.note(selection.first_line)
    return OnServers(selection.settings, selection.topology)


def _is_of_virtual_time(options: Mapping[str, Any], settings_file: Path | None, resume: Path | None) -> bool:
    """Return whether options, a settings file, or the run to resume, name a lab of virtual time.

    Raises SettingsError for an unknown lab, and ResumeRefused for one of the other kind than the run's.
    """
    stored: str | None = run_folder.read_manifest(resume)["lab"] if resume else None
    in_file = settings_module.lab_in(settings_file) if settings_file else None
    if (lab := options.get("lab") or in_file or stored) is None:
        return False
    if lab not in lab_kinds.NAMES:
        raise SettingsError(f"--lab: unknown lab {lab!r}{nearest(lab, lab_kinds.NAMES)}")
    is_virtual = lab_kinds.named(lab).can.virtual_time
    if stored and is_virtual != lab_kinds.named(stored).can.virtual_time:
        raise ResumeRefused(f"{resume} cannot be resumed with other settings: lab is {stored} in the run and {lab} now")
    return is_virtual
