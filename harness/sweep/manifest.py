"""`manifest.json`: the circumstances of a run, without secrets: to interpret its numbers and to resume it."""

from __future__ import annotations

import hashlib
import importlib.metadata
import json
import os
import platform
import subprocess
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from harness.installation import CHECKOUT, PACKAGE, SQL_ROOT
from harness.lab.drivers import Driver
from harness.settings import RESUME_MAY_DIFFER, RunSettings

NAME = "manifest.json"
_PACKAGES = ("locust", "pyodbc", "mssql-python-odbc", "pyspark", "pyarrow", "sqlglot", "matplotlib")
# These must be equal when a run resumes: other code or another machine is another experiment.
_DECISIVE = ("lab", "seed", "model", "harness_version", "code", "versions", "machine")


def now() -> str:
    return datetime.now(UTC).isoformat(timespec="milliseconds")


def new(run_id: str, settings: RunSettings, *, cells: int, driver: Driver | None) -> dict[str, Any]:
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
        "load_model": "closed loop: each thread calls again when its call has returned",
        "settings": settings.model_dump(mode="json", exclude={"results"}),  # the folder may be moved
        "machine": machine(),
        "versions": versions(driver),
        "instances": [],
        "findings": {},  # the doctor's, by server version
    }


def write(results: Path, manifest: dict[str, Any]) -> None:
    """Writes the manifest whole or not at all."""
    temporary = results / f"{NAME}.tmp"
    temporary.write_text(json.dumps(manifest, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
    os.replace(temporary, results / NAME)


def read(results: Path) -> dict[str, Any]:
    manifest: dict[str, Any] = json.loads((results / NAME).read_text(encoding="utf-8"))
    return manifest


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
        done = subprocess.run(
            ["git", "-C", str(CHECKOUT), *words], capture_output=True, text=True, check=False, timeout=10
        )
        return done.stdout.strip() if done.returncode == 0 else ""

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
    found = {"python": platform.python_version()}
    if driver is not None:
        found["odbc_driver"] = f"{driver.kind}: {Path(driver.name).name}"
    for package in _PACKAGES:
        try:
            found[package] = importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:
            found[package] = "absent"
    return found


def machine() -> dict[str, Any]:
    """Facts that identify the machine and help to judge its numbers."""
    return {
        "system": f"{platform.system()} {platform.release()}",
        "distribution": _distribution(),
        "processor": _processor(),
        "processors": len(os.sched_getaffinity(0)),
        "memory_mib": os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // 2**20,
        "limits": _control_group(),
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
    found = {}
    for name in ("cpu.max", "memory.max"):
        try:
            value = (Path("/sys/fs/cgroup") / name).read_text(encoding="ascii").strip()
        except OSError:
            continue
        if not value.startswith("max"):
            found[name] = value
    return found
