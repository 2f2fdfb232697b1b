"""The doctor's findings: how severe, where, what is wrong and what to do about it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

from harness.failures import MachineFailure

Severity = Literal["error", "warning", "information"]
SEVERITIES: Sequence[Severity] = ("error", "warning", "information")


@dataclass(frozen=True, slots=True)
class Finding:
    """An error stops messages or invalidates a run, a warning distorts its numbers, an information is worth knowing.

    `check` names what was examined. The remedy of an information may be empty.
    """

    severity: Severity
    instance: str  # target | initiator-1 ...; lab: all of them
    check: str
    text: str
    remedy: str = ""

    def __str__(self) -> str:
        line = f"{self.severity}: {self.instance}, {self.check}: {self.text}"
        return " ".join((f"{line}; remedy: {self.remedy}" if self.remedy else line).split())


def error(instance: str, check: str, text: str, remedy: str) -> Finding:
    return Finding("error", instance, check, text, remedy)


def warning(instance: str, check: str, text: str, remedy: str) -> Finding:
    return Finding("warning", instance, check, text, remedy)


def information(instance: str, check: str, text: str, remedy: str = "") -> Finding:
    return Finding("information", instance, check, text, remedy)


class UnfitLab(MachineFailure):
    """The lab has errors, so no run is possible. Names the first, its remedy and how many more there are."""


def worst_first(findings: Iterable[Finding]) -> list[Finding]:
    """Sort by severity: errors, warnings, information; otherwise keep the order."""
    return sorted(findings, key=lambda finding: SEVERITIES.index(finding.severity))


def raise_errors(findings: Sequence[Finding]) -> None:
    """Raise UnfitLab if there is an error among the findings."""
    errors = [finding for finding in findings if finding.severity == "error"]
    if not errors:
        return
    first = errors[0]
    more = f" ({len(errors) - 1} more: harness doctor)" if len(errors) > 1 else ""
    raise UnfitLab(f"{first.instance}, {first.check}: {first.text}; remedy: {first.remedy}{more}")
