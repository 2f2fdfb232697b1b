"""The examination of a lab before its first cell: the doctor's findings and each instance's fingerprint."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

from harness import doctor
from harness.lab.instances import Lab, connections, in_parallel
from harness.matrix import Cell
from harness.observe.snapshots import fingerprint
from harness.reporting import Reporter
from harness.settings import Settings
from harness.sweep import manifest

EMBEDDED_EDITION = "Embedded Service Broker"  # SERVERPROPERTY('Edition') of the servers in this repository


class Preflight:
    """Examines the lab of each version once. What it finds goes into the manifest; an error ends the run."""

    def __init__(self, settings: Settings, cells: Sequence[Cell], results: Path, reporter: Reporter) -> None:
        self._settings = settings
        self._cells = cells
        self.results = results
        self._reporter = reporter
        self._examined: set[str] = set()

    def examine(self, lab: Lab) -> None:
        """Raises the doctor's failure where a finding is an error."""
        if lab.version in self._examined:
            return
        is_first = not self._examined
        self._examined.add(lab.version)
        cells = [cell for cell in self._cells if cell.server_version == lab.version]
        findings = doctor.examine(lab, cells=cells, settings=self._settings)
        self._write(lab, findings)
        for finding in findings:
            if finding.severity == "warning" or (is_first and finding.check == "licence"):
                self._reporter.note(str(finding))
        doctor.raise_errors(findings)

    def _write(self, lab: Lab, findings: Sequence[doctor.Finding]) -> None:
        with connections(lab.instances) as opened:
            fingerprints = in_parallel(fingerprint, opened)
        current = manifest.read(self.results)
        known = {(row["lab_version"], row["name"]) for row in current["instances"]}
        for instance, identity, taken in zip(lab.instances, lab.identities, fingerprints, strict=True):
            if (lab.version, instance.name) not in known:
                row = {key: str(value) for key, value in identity.items() if key != "service_broker_guid"}
                current["instances"].append(
                    {"name": instance.name, "lab_version": lab.version, **row, "fingerprint": taken}
                )
        if any(EMBEDDED_EDITION in str(identity["edition"]) for identity in lab.identities):
            current["lab"] = "embedded"  # whatever the servers were called, their numbers are not SQL Server's
        current["findings"][lab.version] = [asdict(finding) for finding in findings]
        manifest.write(self.results, current)
