"""The settings of a run: from its options, and where it is resumed from its manifest."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from harness import lab_kinds, workload_file
from harness import settings as settings_module
from harness.failures import nearest
from harness.lab import drivers, opening
from harness.lab.opening import Selection, select_lab
from harness.load.locust_clients import Elsewhere
from harness.run import run_folder
from harness.run.run_folder import ResumeRefused
from harness.settings import Defaults, Settings, SettingsError, SimulationSettings

Times = Mapping[str, Mapping[str, Any]]  # default durations by the lab's name


def is_of_virtual_time(options: Mapping[str, Any], resume: Path | None = None) -> bool:
    """Return whether options, or the run to resume, name a lab of virtual time.

    Raises SettingsError for an unknown lab, and ResumeRefused for one of the other kind than the run's.
    """
    stored: str | None = run_folder.read_manifest(resume)["lab"] if resume else None
    if (lab := options.get("lab") or stored) is None:
        return False
    if lab not in lab_kinds.NAMES:
        raise SettingsError(f"--lab: unknown lab {lab!r}{nearest(lab, lab_kinds.NAMES)}")
    is_virtual = lab_kinds.named(lab).can.virtual_time
    if stored and is_virtual != lab_kinds.named(stored).can.virtual_time:
        raise ResumeRefused(f"{resume} cannot be resumed with other settings: lab is {stored} in the run and {lab} now")
    return is_virtual


def on_servers(
    options: Mapping[str, Any],
    *,
    resume: Path | None,
    verb: str,
    settings_file: Path | None = None,
    times: Times | None = None,
) -> Selection:
    """Return the lab and the settings; raises ResumeRefused where they differ from those of the run to resume."""
    if resume is None:
        return select_lab(options, settings_file=settings_file, times=times)
    stored = run_folder.stored_settings(resume, Settings, verb)
    # Its files may have changed, and the manifest too: only what is in its folder now is run.
    workload = workload_file.read(Settings(**stored).workload.given_as)
    selection = select_lab(options, settings_file=settings_file, stored={**stored, "workload": workload}, times=times)
    run_folder.require_same(resume, stored, selection.settings)
    return selection


def in_virtual_time(
    options: Mapping[str, Any],
    *,
    resume: Path | None,
    verb: str,
    defaults: Defaults,
) -> SimulationSettings:
    """Return the settings; raises ResumeRefused where they differ from those of the run to resume."""
    if resume is None:
        return settings_module.create_simulation(options, defaults=defaults)
    stored = run_folder.stored_settings(resume, SimulationSettings, verb)
    settings = settings_module.create_simulation(options, defaults=lambda given: stored)
    run_folder.require_same(resume, stored, settings)
    return settings


def first_lines(settings: SimulationSettings) -> list[str]:
    """Lines to print first: that the numbers are a model's, and what decides them."""
    return [
        f"lab: {settings.lab} - a model of the hardware {settings.hardware!r} in virtual time; "
        "its numbers are not SQL Server's and measure nothing",
        f"seed {settings.seed}, settling {settings.settle:g} s and measuring {settings.measure:g} s of virtual time",
    ]


def open_results(settings: Settings, cells: Sequence[Any], resume: Path | None = None, **more: Any) -> Path:
    """Make or open the run's folder with its manifest, which includes `more`. First check whatever needs no lab."""
    drivers.check_manager()
    driver = drivers.choose(settings.driver)
    Elsewhere.of(settings)
    opening.require_startable(settings.kind)
    return run_folder.open_run(settings, cells=len(cells), driver=driver, resume=resume, **more)
