"""The certificate of twin runs: how much runs on a lab of this machine differ, for `compare`, `plan` and reports.

It lies in the user's state folder, a file for each lab and machine, and in the manifest of each later run, so that runs
of another machine can be compared here.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from platformdirs import user_state_path
from pydantic import BaseModel, ConfigDict, TypeAdapter, ValidationError

from harness.definitions.variances import Variances
from harness.files import json_file

THRESHOLD = 0.05  # of a verdict, as compare's own
KEY = "twins"  # in a manifest


class Subject(BaseModel):
    """The lab and the machines whose runs a certificate tells of."""

    model_config = ConfigDict(frozen=True)

    lab: str
    processor: str
    processors: int
    memory_gib: str
    target_processors: str = ""  # empty before a lab is open

    @classmethod
    def of(cls, manifest: Mapping[str, Any]) -> Subject:
        """Return the subject of a run. Memory is in GiB, for its last pages differ from boot to boot."""
        machine = manifest.get("machine") or {}
        systems = [
            (row.get("fingerprint") or {}).get("system") or {}
            for row in manifest.get("instances") or []
            if row.get("name") == "target"
        ]
        return cls(
            lab=manifest["lab"],
            processor=machine.get("processor") or "",
            processors=machine.get("processors") or 0,
            memory_gib=f"{(machine.get('memory_mib') or 0) / 1024:.0f}",
            target_processors=", ".join(sorted({str(facts["cpu_count"]) for facts in systems if "cpu_count" in facts})),
        )

    @property
    def path(self) -> Path:
        digest = hashlib.sha256(self.model_dump_json(exclude={"target_processors"}).encode()).hexdigest()[:8]
        return user_state_path("service-broker-harness") / f"twins-{self.lab}-{digest}.json"


class Certificate(BaseModel):
    """What twin runs told."""

    model_config = ConfigDict(frozen=True)

    subject: Subject
    at: str  # ISO 8601, UTC
    harness_version: str
    code: str  # the digest of harness/ and sql/
    blocks: int  # of each run
    cells: int
    variances: Variances
    pair: float | None  # standard deviation of a pair's log ratio from block to block; None without pairs
    comparisons: int  # of two of the runs
    false_verdicts: int  # of these, by the blocks of both alone

    @property
    def words(self) -> str:
        """`a cell differs by 3.1 % from run to run, all of them by 2.4 % (6 twin runs of 2026-11-27, harness 0.2.0)`"""
        a_cell, all_cells = (100 * math.sqrt(self.variances.between(n).variance / 2) for n in (1, self.cells))
        return (
            f"a cell differs by {a_cell:.2g} % from run to run, all of them by {all_cells:.2g} % "
            f"({self.variances.runs} twin runs of {self.at[:10]}, harness {self.harness_version})"
        )

    @property
    def rows(self) -> list[list[str]]:
        """The variances as a table."""
        variances = self.variances
        deviations = {
            "from run to run, all cells": variances.run,
            "from run to run, a cell beyond that": variances.cell,
            "from block to block of a run": variances.block,
            "of one measurement": variances.rest,
        }
        if self.pair is not None:
            deviations["of a pair's gain, from block to block"] = self.pair
        return [
            ["a rate varies", "by"],
            *([name, f"{100 * deviation:.2g} %"] for name, deviation in deviations.items()),
        ]

    @property
    def sentence(self) -> str:
        """How often a comparison of two of the runs was wrong, with an interval (Clopper and Pearson)."""
        from statsmodels.stats.proportion import proportion_confint  # noqa: PLC0415  it takes half a second

        low, high = proportion_confint(self.false_verdicts, self.comparisons, method="beta")
        return (
            f"By their blocks alone, {self.false_verdicts} of {self.comparisons} comparisons of these runs, which "
            f"measure the same, said faster or slower beyond {100 * THRESHOLD:g} % ({100 * low:.0f} to "
            f"{100 * high:.0f} %)."
        )


_ADAPTER = TypeAdapter(Certificate)


def write(certificate: Certificate) -> Path:
    """Write it to the user's state folder, in place of an older one of the same lab and machine."""
    path = certificate.subject.path
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"{certificate.model_dump_json(indent=2)}\n", encoding="utf-8")
    return path


def find(manifest: Mapping[str, Any]) -> Certificate | None:
    """Return the certificate of a run's lab and machines: the user's, or else what the run's manifest has."""
    subject = Subject.of(manifest)
    if subject.path.exists():
        kept = json_file.checked(_ADAPTER, subject.path.read_bytes(), subject.path)
        if subject.target_processors in {"", kept.subject.target_processors}:
            return kept
    try:
        return Certificate.model_validate(manifest[KEY]) if manifest.get(KEY) else None
    except ValidationError:
        return None  # of another version
