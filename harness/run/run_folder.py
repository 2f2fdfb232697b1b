"""A run's folder: created with its manifest, or reopened where nothing that matters has changed.

`manifest.json` has the circumstances of a run, without secrets: to interpret its numbers and to resume it.
"""

import hashlib
import importlib.metadata
import itertools
import json
import os
import platform
import re
import shlex
import subprocess
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

import psutil
from pydantic import ValidationError

from harness.definitions import load_model
from harness.failures import UsageFailure, nearest
from harness.files import certificate, json_file, manifest_file, records
from harness.files.records import NotWritable
from harness.files.settings import RESUME_MAY_DIFFER, RunSettings
from harness.lab.drivers import Driver
from harness.lab.placement import scaling_governor
from harness.machine import processors
from harness.machine.places import CHECKOUT, PACKAGE, SQL_ROOT
from harness.output.safe_text import visible_lines

_PACKAGES = ("locust", "pyodbc", "mssql-python-odbc", "pyspark", "pyarrow", "sqlglot", "matplotlib")
# These must be equal when a run resumes: other code or another machine is another experiment.
_DECISIVE = ("lab", "seed", "model", "rates", "harness_version", "code", "versions", "machine")


class ResumeRefused(UsageFailure):
    """The run cannot continue: circumstances or settings differ."""


class NoRun(UsageFailure):
    """A folder that is not a run's; the message names the nearest run."""


def open_run(
    settings: RunSettings, /, *, cells: int, driver: Driver | None, resume: Path | None = None, **more: Any
) -> Path:
    """Create the folder of a new run with its manifest, which includes `more`, or reopen that of a run to resume.

    Raise ResumeRefused where the circumstances differ now.
    """
    if resume:
        old = read_manifest(resume)
        if different := differences(old, new_manifest(old["run_id"], settings, cells=cells, driver=driver) | more):
            raise ResumeRefused(f"{resume} cannot be resumed: {'; '.join(different)}")
        _require_writable(resume)
        return resume
    run_id = f"{datetime.now(UTC):%Y%m%d-%H%M%S}-{settings.lab}"
    for number in itertools.count(1):
        folder = settings.results / (run_id if number == 1 else f"{run_id}-{number}")
        try:
            folder.mkdir(parents=True)
            break
        except OSError as error:
            if folder.exists():
                continue  # that of a run which began in this second too
            raise NotWritable(
                f"the results folder {settings.results} cannot be written ({error.strerror}): choose another with "
                "--results"
            ) from None
    _require_writable(folder)
    write_manifest(folder, new_manifest(folder.name, settings, cells=cells, driver=driver) | more)
    return folder


def finish(folder: Path) -> None:
    """Write into the manifest that every cell has had its turn, and how much runs differ here, where that is known."""
    final = read_manifest(folder)
    final["finished_at"] = now()
    if twins := certificate.find(final):
        final[certificate.KEY] = twins.model_dump(mode="json")
    write_manifest(folder, final)


def verb(manifest: Mapping[str, Any]) -> str:
    """The command that resumes a run."""
    if "scenario" in manifest:
        return "techniques"
    return "rates" if "rates" in manifest else "matrix"


def stored_settings(folder: Path, kind: type[RunSettings], command: str) -> dict[str, Any]:
    """The settings of the run in `folder`, which are the defaults where the command continues it."""
    manifest = read_manifest(folder)
    if (right := verb(manifest)) != command:
        raise ResumeRefused(
            f"{folder} is no run of harness {command}: go on with harness {right} --resume {shlex.quote(str(folder))}"
        )
    stored: dict[str, Any] = manifest["settings"]
    unknown = [key for key in stored if key not in kind.model_fields]
    if unknown:
        raise ResumeRefused(
            f"{folder} cannot be resumed: another version of the harness made it, with the setting {unknown[0]!r}"
        )
    settings = {**stored, "results": folder.absolute().parent}  # the manifest does not have it, because it may be moved
    try:
        kind(**settings)
    except ValidationError as invalid:
        path = folder / manifest_file.NAME
        why = json_file.in_words(path, path.read_bytes(), invalid, at=("settings",))
        raise ResumeRefused(f"{folder} cannot be resumed: {why}") from None
    return settings


def require_same(folder: Path, stored: Mapping[str, Any], now: RunSettings) -> None:
    """Raise ResumeRefused where settings differ from the stored ones."""
    before = type(now)(**stored)
    different = [
        _difference(key, _text(getattr(before, key)), _text(getattr(now, key)))
        for key in sorted(type(now).model_fields.keys() - RESUME_MAY_DIFFER)
        if not _are_same(getattr(before, key), getattr(now, key))
    ]
    if different:
        raise ResumeRefused(f"{folder} cannot be resumed with other settings: {'; '.join(different)}")


def _difference(key: str, before: str, now: str) -> str:
    if before == now:
        return f"the {key} {now} is not as it was in the run"
    return f"{key} is {before} in the run and {now} now"


def _are_same(before: object, now: object) -> bool:
    """Whether two values of a setting are equal, or name the same file or folder."""
    if isinstance(before, Path) and isinstance(now, Path):
        return before.resolve() == now.resolve()
    return before == now


def _text(value: object) -> str:
    return " ".join(map(str, value)) if isinstance(value, tuple) else str(value)


def _require_writable(folder: Path) -> None:
    if not os.access(folder, os.W_OK | os.X_OK):
        raise NotWritable(
            f"the results folder {folder} cannot be written: choose another with --results, or change its permissions"
        )


def named(folder: Path | str) -> Path:
    """The folder that a path or a `file:` URI names; raises NoRun for another URI."""
    if isinstance(folder, Path) or not (uri := re.match(r"([a-z][a-z0-9+.-]*):/", folder)):
        return Path(folder)
    if uri[1] != "file":
        raise NoRun(
            f"{folder} is no folder: copy the run here, or mount its folder; `harness reduce` alone reads stores"
        )
    return Path(unquote(urlsplit(folder).path))


def require_run(folder: Path) -> Path:
    """The folder, if it is a run's; else raises NoRun. A run has no links: one of somebody else's would let files of
    this machine be read, packed or overwritten."""
    if (folder / manifest_file.NAME).is_file():
        if link := _link_in(folder):
            raise NoRun(f"{link} is a link, and a run has none: put a copy of what it names in its place, or remove it")
        return folder
    other_runs = sorted(path.parent.name for path in folder.parent.glob(f"*/{manifest_file.NAME}"))
    hint = nearest(folder.name, other_runs[-5:]) if other_runs else ""
    complaint = f"has no {manifest_file.NAME}" if folder.is_dir() else "does not exist"
    raise NoRun(f"{folder} is not a result folder: it {complaint}{hint}")


def _link_in(folder: Path) -> str | None:
    paths = (os.path.join(parent, name) for parent, *names in os.walk(folder) for name in itertools.chain(*names))
    return next(filter(os.path.islink, paths), None)


def read_manifest(folder: Path) -> dict[str, Any]:
    """The manifest of a run; raises NoRun where it is missing, and DamagedFile."""
    return manifest_file.read(require_run(folder))


def write_manifest(folder: Path, manifest: dict[str, Any]) -> None:
    """Write the manifest whole or not at all."""
    with records.written_whole(folder / manifest_file.NAME) as file:
        text = visible_lines(json.dumps(manifest, indent=2, ensure_ascii=False))
        file.write_text(f"{text}\n", encoding="utf-8")


def now() -> str:
    return datetime.now(UTC).isoformat(timespec="milliseconds")


def settings_of(settings: RunSettings) -> dict[str, Any]:
    """The settings as the manifest has them: without the folder, which may be moved."""
    return settings.model_dump(mode="json", exclude={"results"})


def new_manifest(run_id: str, settings: RunSettings, *, cells: int, driver: Driver | None) -> dict[str, Any]:
    """The manifest of a new run; a run in virtual time has no driver."""
    return {
        "run_id": run_id,
        "lab": settings.lab,
        "started_at": now(),
        "finished_at": None,
        "harness_version": importlib.metadata.version("service-broker-harness"),
        "git_commit": git_commit(),
        "code": code_fingerprint(),
        "seed": settings.seed,
        "cells": cells,
        "load_model": load_model.describe(settings.open_loop),
        "settings": settings_of(settings),
        "machine": machine(),
        "versions": versions(driver),
        "instances": [],
        "placement": {},  # which processors instances and clients have and what instances share, by server version
        "findings": {},  # the doctor's, by server version
    }


def differences(old: dict[str, Any], new: dict[str, Any]) -> list[str]:
    """The differences that forbid resuming the old run, one line each."""
    lines = [
        f"{key}: {_short(old['settings'].get(key))} in the run, {_short(value)} now"
        for key, value in new["settings"].items()
        if key not in RESUME_MAY_DIFFER and old["settings"].get(key) != value
    ]
    for key in _DECISIVE:
        before, now_ = old.get(key), new.get(key)
        if before == now_ or key in new["settings"]:
            continue
        if isinstance(before, dict) and isinstance(now_, dict):
            lines += [
                f"{key}.{name}: {_short(before.get(name))} in the run, {_short(now_.get(name))} now"
                for name in sorted({*before, *now_})
                if before.get(name) != now_.get(name)
            ]
        else:
            lines.append(f"{key}: {_short(before)} in the run, {_short(now_)} now")
    return lines


def _short(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False) if value is not None else "absent"


def git_commit() -> str:
    """The commit of this checkout, with `-dirty` if harness/ or sql/ differ from it; empty outside a checkout."""
    if CHECKOUT is None or not (CHECKOUT / ".git").exists():
        return ""

    def git(*words: str) -> str:
        answer = subprocess.run(
            ["git", "-C", str(CHECKOUT), *words], capture_output=True, text=True, check=False, timeout=10
        )
        return answer.stdout.strip() if answer.returncode == 0 else ""

    try:
        commit = git("rev-parse", "HEAD")
        changed = commit and git("status", "--porcelain", "--", "harness", "sql")
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return f"{commit}-dirty" if changed else commit


def code_fingerprint() -> str:
    """A digest of harness/ and sql/, which no other change affects."""
    digest = hashlib.sha256()
    for folder, pattern in ((PACKAGE, "**/*.py"), (SQL_ROOT, "**/*.sql")):
        for path in sorted(folder.glob(pattern)):
            digest.update(f"{folder.name}/{path.relative_to(folder)}".encode() + b"\0" + path.read_bytes())
    return digest.hexdigest()[:16]


def versions(driver: Driver | None) -> dict[str, str]:
    by_name = {"python": platform.python_version()}
    if driver is not None:
        by_name["odbc_driver"] = f"{driver.kind}: {Path(driver.name).name}"
    for package in _PACKAGES:
        try:
            by_name[package] = importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:
            by_name[package] = "absent"
    return by_name


def machine() -> dict[str, Any]:
    """Facts that identify the machine and help to judge its numbers."""
    return {
        "system": f"{platform.system()} {platform.release()}",
        "distribution": _distribution(),
        "processor": _processor(),
        "processors": processors.count(),
        "memory_mib": psutil.virtual_memory().total // 2**20,
        "limits": _control_group(),
        "scaling_governor": scaling_governor(),
    }


def _distribution() -> str:
    try:
        return platform.freedesktop_os_release().get("PRETTY_NAME", "")
    except OSError:
        return ""


def _processor() -> str:
    try:
        for line in Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    except OSError:
        pass
    return platform.machine()


def _control_group() -> dict[str, str]:
    """Limits of the container, if any."""
    limits = {}
    for name in ("cpu.max", "memory.max"):
        try:
            value = (Path("/sys/fs/cgroup") / name).read_text(encoding="ascii").strip()
        except OSError:
            continue
        if not value.startswith("max"):
            limits[name] = value
    return limits
