"""What the doctor finds: how bad, where, what, and what to do about it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

from harness.failures import MachineFailure

Severity = Literal["error", "warning", "information"]
SEVERITIES: Sequence[Severity] = ("error", "warning", "information")


@dataclass(frozen=True, slots=True)
class Finding:
    """An error lets no message through or falsifies a run, a warning bends its numbers, an information is to be known.

    `check` is the name of what was looked at, `remedy` may be empty for an information.
    """

    severity: Severity
    instance: str  # target | initiator-1 ...; lab for what concerns all
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
    """The lab as it is cannot give a run; names the first error, its remedy, and how many more there are."""


def worst_first(findings: Iterable[Finding]) -> list[Finding]:
    """Errors, warnings, information; within each as they were found."""
    return sorted(findings, key=lambda finding: SEVERITIES.index(finding.severity))


def raise_errors(findings: Sequence[Finding]) -> None:
    """UnfitLab if there is an error among them."""
    errors = [finding for finding in findings if finding.severity == "error"]
    if not errors:
        return
    first = errors[0]
    more = f" ({len(errors) - 1} more: harness doctor)" if len(errors) > 1 else ""
    raise UnfitLab(f"{first.instance}, {first.check}: {first.text}; remedy: {first.remedy}{more}")
