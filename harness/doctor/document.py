"""The doctor's findings for other programs, which `--json` of `harness doctor` writes."""

from collections.abc import Sequence

from pydantic import Field

from harness.doctor.facts import Finding
from harness.files.document import Document


class DoctorDocument(Document):
    can_run: bool = Field(description="no finding is an error")
    findings: list[Finding] = Field(description="the worst first; the remedy of an information may be empty")


def of_findings(findings: Sequence[Finding]) -> DoctorDocument:
    """Describe what `doctor.examine` returned."""
    can_run = all(finding.severity != "error" for finding in findings)
    return DoctorDocument(can_run=can_run, findings=list(findings))
