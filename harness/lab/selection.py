"""Select the lab: the one that the user names, else the servers of a lab file, else containers if Docker answers, else
the embedded one."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from harness import lab_file as lab_files
from harness import settings as settings_module
from harness.failures import nearest
from harness.lab import compose
from harness.lab.instances import Security
from harness.lab.opening import Topology
from harness.settings import TIMES, Settings, SettingsError


@dataclass(frozen=True)
class Selection:
    """The selected lab, the reason for it, and the settings with that lab's defaults."""

    settings: Settings
    topology: Topology
    why: str


def select_lab(
    options: Mapping[str, Any],
    *,
    settings_file: Path | None = None,
    stored: Mapping[str, Any] | None = None,
    times: Mapping[str, Mapping[str, float]] = TIMES,
    engine_answers: Callable[[], bool] = compose.engine_answers,
) -> Selection:
    """Select settings and lab from options, environment and settings file.

    `stored` are the settings of a run that is resumed, `times` the default durations by lab. Raises SettingsError or
    UsageFailure if options contradict each other.
    """
    why = ""

    def defaults(given: Mapping[str, Any]) -> Mapping[str, Any]:
        nonlocal why
        lab, why = _lab(given if stored is None else {**stored, **given}, engine_answers)
        own = {"lab": lab, **times.get(lab, {}), "server_versions": ()}
        return {**own, **(stored or {})}

    settings = settings_module.create(options, file=settings_file, defaults=defaults)
    topology = Topology(
        "embedded" if settings.lab == "embedded" else "servers" if settings.lab_file else "containers",
        lab_files.read(settings.lab_file) if settings.lab_file else None,
        Security(settings.dialog_security, settings.endpoint_encryption),
    )
    versions = settings.server_versions or topology.sweep_versions
    for version in versions:
        if version not in topology.versions:
            raise SettingsError(
                f"the {settings.lab} lab has no server version {version!r}{nearest(version, topology.versions)}"
            )
    return Selection(settings.model_copy(update={"server_versions": versions}), topology, why)


def _lab(given: Mapping[str, Any], engine_answers: Callable[[], bool]) -> tuple[str, str]:
    """Return the lab's name and the reason for it."""
    named, file = given.get("lab"), given.get("lab_file")
    if named == "embedded" and file:
        raise SettingsError(f"--lab embedded cannot use the servers of {file}: leave out one of the two options")
    if named and not file:
        return str(named), "as selected"
    if file:
        return "sqlserver", f"the servers of {file}"
    if engine_answers():
        return "sqlserver", "the default where a Docker engine answers"
    return "embedded", "the default where no Docker engine answers and no lab.toml is given"
