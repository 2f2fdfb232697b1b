"""A run's folder: created with its manifest, or reopened where nothing that matters has changed."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from harness.failures import MachineFailure, UsageFailure, nearest
from harness.settings import RESUME_MAY_DIFFER, RunSettings
from harness.sweep import manifest


class NotWritable(MachineFailure):
    """The results folder cannot be written."""


class ResumeRefused(UsageFailure):
    """The run cannot continue: circumstances or settings differ."""


class NoRun(UsageFailure):
    """A folder that is not a run's; the message names the nearest run."""


def create(settings: RunSettings, circumstances: Callable[[str], dict[str, Any]]) -> Path:
    """Creates a folder with the manifest that `circumstances` makes of the run's id."""
    run_id = f"{datetime.now(UTC):%Y%m%d-%H%M%S}-{settings.lab}"
    folder = settings.results / run_id
    for suffix in range(2, 100):
        if not folder.exists():
            break
        folder = settings.results / f"{run_id}-{suffix}"
    try:
        folder.mkdir(parents=True)
    except OSError as error:
        raise NotWritable(
            f"the results folder {settings.results} cannot be written ({error.strerror}): choose another with --results"
        ) from None
    _require_writable(folder)
    manifest.write(folder, circumstances(folder.name))
    return folder


def reopen(folder: Path, circumstances: Callable[[str], dict[str, Any]]) -> Path:
    """The folder of a run that continues; raises ResumeRefused where the circumstances differ now."""
    old = read_manifest(folder)
    if different := manifest.differences(old, circumstances(old["run_id"])):
        raise ResumeRefused(f"{folder} cannot be resumed: {'; '.join(different)}")
    _require_writable(folder)
    return folder


def finish(folder: Path) -> None:
    """Writes into the manifest that every cell has had its turn."""
    final = manifest.read(folder)
    final["finished_at"] = manifest.now()
    manifest.write(folder, final)


def stored_settings(folder: Path, kind: type[RunSettings]) -> dict[str, Any]:
    """The settings of the run in `folder`, which are the defaults where it continues."""
    stored: dict[str, Any] = read_manifest(folder)["settings"]
    unknown = [key for key in stored if key not in kind.model_fields]
    if unknown:
        raise ResumeRefused(
            f"{folder} cannot be resumed: another version of the harness made it, with the setting {unknown[0]!r}"
        )
    return stored


def require_same(folder: Path, stored: Mapping[str, Any], now: RunSettings) -> None:
    """Raises ResumeRefused where settings differ from the stored ones."""
    before = type(now)(**stored)
    different = [
        f"{key} is {_text(getattr(before, key))} in the run and {_text(getattr(now, key))} now"
        for key in sorted(type(now).model_fields.keys() - RESUME_MAY_DIFFER)
        if getattr(before, key) != getattr(now, key)
    ]
    if different:
        raise ResumeRefused(f"{folder} cannot be resumed with other settings: {'; '.join(different)}")


def read_manifest(folder: Path) -> dict[str, Any]:
    """The manifest of a run; raises NoRun where it is missing or damaged."""
    try:
        return manifest.read(folder)
    except (FileNotFoundError, NotADirectoryError):
        parent = folder.parent
        others = sorted(path.parent.name for path in parent.glob(f"*/{manifest.NAME}")) if parent.is_dir() else []
        hint = nearest(folder.name, others[-5:]) if others else ""
        raise NoRun(f"{folder} is not a result folder: it has no {manifest.NAME}{hint}") from None
    except json.JSONDecodeError as error:
        raise NoRun(f"{folder / manifest.NAME} is damaged: {error}") from None


def _text(value: object) -> str:
    return " ".join(value) if isinstance(value, tuple) else str(value)


def _require_writable(folder: Path) -> None:
    if not os.access(folder, os.W_OK | os.X_OK):
        raise NotWritable(
            f"the results folder {folder} cannot be written: choose another with --results, or change its permissions"
        )
