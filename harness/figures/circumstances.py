"""In what two runs differ beside their numbers: what forbids to compare them, and what a reader should know."""

from collections.abc import Mapping, Sequence
from pathlib import PurePath
from typing import Any

from pydantic import BaseModel

from harness.figures.reduced_run import Run
from harness.files.workload_file import Workload

# Settings that choose what is run, how often and where its files go. All others change how it is measured. A workload's
# procedures are what a comparison may be about.
CHOICES = frozenset(
    {
        "workload",
        *("lab", "lab_file", "server_versions", "matrix", "initiators", "threads", "ratios", "payloads", "cells"),
        *("repeats", "precision", "seed", "results", "master"),
    }
)
HARDWARE = ("processor", "processors", "memory_mib", "limits")
# Sizes that say a little less or more after the machine has started again: a hundredth is no other machine.
SIZES = frozenset({"memory_mib", "physical_memory_kb"})
SIZE_TOLERANCE = 0.01
# The entries of the manifest's `versions` that can change a number.
DECISIVE_VERSIONS = ("python", "odbc_driver", "pyodbc", "locust", "sqlglot")
# The entries of a target's fingerprint that the harness' own machine does not have.
SERVER_HARDWARE = {"system": ("cpu_count", "physical_memory_kb")}
SERVER_SOFTWARE = {"server": ("edition", "product_version")}


def is_pair(a: Run, b: Run) -> bool:
    """Whether two runs were made in turns, to be compared."""
    return a.manifest.get("pair") is not None and a.manifest.get("pair") == b.manifest.get("pair")


def forbidding(a: Run, b: Run) -> list[str]:
    """List the differences of lab, hardware and settings, a line each: a ratio would measure them too."""
    notes = []
    if a.lab != b.lab:
        notes.append(f"The labs differ: a is {a.lab}, b is {b.lab}. Their numbers do not measure one another")
    # The processors that compute a simulated run do not change its numbers.
    if not (a.is_model and b.is_model):
        notes += _differ("The machines", *(_entries(run, "machine", HARDWARE) for run in (a, b)))
    notes += _differ("The placements", *_placements(a, b))
    notes += _differ("The workloads", {"name": a.workload}, {"name": b.workload})
    settings = [_entries(run, "settings") for run in (a, b)]
    decisive = [name for name in settings[0] if name in settings[1] and name not in CHOICES]
    notes += _differ("The settings", *({name: setting[name] for name in decisive} for setting in settings))
    if a.is_model and b.is_model:
        models = [
            {name: parameter["value"] for name, parameter in (run.manifest.get("model") or {}).items()}
            for run in (a, b)
        ]
        notes += _differ("The models", *models)
    return [*notes, *_targets_differ(a, b, SERVER_HARDWARE)]


def remarkable(a: Run, b: Run) -> list[str]:
    """List the differences that may be what the comparison is about, such as versions, a line each."""
    workloads = [_entries_of_workload(run) for run in (a, b)]
    is_same = a.workload == b.workload
    runs = f"The runs of the workload {a.workload}" if is_same else f"The workloads {a.workload} and {b.workload}"
    notes = _differ(runs, *workloads) if all(workloads) else []
    if not (a.is_model and b.is_model):
        notes += _differ(
            "The systems", *(_entries(run, "machine", ("system", "distribution", "scaling_governor")) for run in (a, b))
        )
    versions = [_entries(run, "versions", DECISIVE_VERSIONS) for run in (a, b)]
    notes += _differ(
        "The harness",
        *({name: run.manifest.get(name, "unknown") for name in ("harness_version", "git_commit")} for run in (a, b)),
    )
    # A run in virtual time has no driver.
    common = [name for name in versions[0] if name in versions[1]]
    notes += _differ("The software", *({name: version[name] for name in common} for version in versions))
    if a.is_model and b.is_model:
        notes += _differ("The models' chances", *({"seed": run.manifest.get("seed")} for run in (a, b)))
    return [*notes, *_targets_differ(a, b, SERVER_SOFTWARE), *_logs_differ(a, b)]


def _entries(run: Run, group: str, names: Sequence[str] | None = None) -> dict[str, Any]:
    entries = run.manifest.get(group) or {}
    return {name: entries[name] for name in names or entries if name in entries}


def _placements(*runs: Run) -> list[dict[str, Any]]:
    """How each run dealt out its machine, for the versions that all of them have: what instances share, whether clients
    went through Docker's proxy, and on which processors the parts ran. An older harness did not record it."""
    recorded = [run.manifest.get("placement") or {} for run in runs]
    versions = sorted(set(recorded[0]).intersection(*recorded[1:]))
    return [
        {
            f"{version} {what}": value
            for version in versions
            for what, value in {
                "shared": ", ".join(sorted(placement[version]["shared"])) or "nothing",
                "proxy": "used" if placement[version].get("proxied") else "not used",
                **placement[version]["processors"],
            }.items()
        }
        for placement in recorded
    ]


def _entries_of_workload(run: Run) -> dict[str, Any]:
    """The numbers and procedures of a run's workload, and the digests of its files, by dotted names.

    Files go by their names alone: workloads may share them, or have copies of them, in other folders. Empty for a
    model's run and for an older harness's, which know the paper's workload alone. A key that the manifest does not have
    is younger than it and has its default.
    """
    stored = (run.manifest.get("settings") or {}).get("workload")
    if not stored:
        return {}
    tables = {name: part for name, part in stored.items() if isinstance(part, dict)}
    for name, field in Workload.model_fields.items():
        if isinstance(field.annotation, type) and issubclass(field.annotation, BaseModel):
            defaults = field.annotation.model_construct().model_dump(mode="json")
            tables[name] = {**defaults, **tables.get(name, {})}
            if isinstance(scripts := tables[name].get("scripts"), list):
                tables[name]["scripts"] = [PurePath(str(file)).name for file in scripts]
    digests: dict[str, Any] = {}
    for file, digest in tables.get("digests", {}).items():
        name = PurePath(file).name
        digests[name] = f"{digests[name]}, {digest}" if name in digests else digest
    tables["digests"] = digests
    return {f"{name}.{key}": value for name, part in tables.items() for key, value in part.items()}


def _differ(what: str, one: Mapping[str, Any], other: Mapping[str, Any]) -> list[str]:
    """Say in one line in which entries two mappings differ; nothing if they are the same."""
    changed = [
        f"{key}: {one.get(key, 'absent')} / {other.get(key, 'absent')}"
        for key in sorted({*one, *other})
        if not _is_same(key, one.get(key), other.get(key))
    ]
    return [f"{what} differ ({'; '.join(changed)})"] if changed else []


def _is_same(key: str, one: Any, other: Any) -> bool:
    if key in SIZES and one and other:
        return bool(abs(one - other) <= SIZE_TOLERANCE * max(one, other))
    return bool(one == other)


def _targets_differ(a: Run, b: Run, entries: Mapping[str, Sequence[str]]) -> list[str]:
    """List the facts in which targets of the same version differ."""
    return [
        line
        for version, *targets in _targets(a, b)
        for line in _differ(f"The targets of version {version}", *(_facts(target, entries) for target in targets))
    ]


def _logs_differ(a: Run, b: Run) -> list[str]:
    """List how targets of the same version flush their logs, where that differs and both runs know it.

    A setting that mssql.conf leaves out is 1 (`harness.lab.log_storage`).
    """
    lines = []
    for version, *targets in _targets(a, b):
        one, other = ({**_known(target, "trace_flags"), **_log_storage(target)} for target in targets)
        known = one.keys() & other.keys()
        facts = ({name: facts[name] for name in known} for facts in (one, other))
        lines += _differ(f"The logs of the targets of version {version}", *facts)
    return lines


def _log_storage(fingerprint: Mapping[str, Any]) -> dict[str, Any]:
    return {name: 1 if value is None else value for name, value in (fingerprint.get("log_storage") or {}).items()}


def _known(fingerprint: Mapping[str, Any], name: str) -> dict[str, Any]:
    return {} if fingerprint.get(name) is None else {name: fingerprint[name]}


def _targets(a: Run, b: Run) -> list[tuple[str, Mapping[str, Any], Mapping[str, Any]]]:
    """The fingerprints of both targets for each version that both runs have."""
    first, second = (
        {
            str(instance.get("lab_version")): instance.get("fingerprint") or {}
            for instance in run.manifest.get("instances") or []
            if instance.get("name") == "target"
        }
        for run in (a, b)
    )
    return [(version, first[version], second[version]) for version in sorted(first.keys() & second.keys())]


def _facts(fingerprint: Mapping[str, Any], entries: Mapping[str, Sequence[str]]) -> dict[str, Any]:
    return {name: (fingerprint.get(group) or {}).get(name) for group, names in entries.items() for name in names}
