"""How findings read, and when they end a run."""

import pytest

from harness.doctor.facts import Finding, UnfitLab, raise_errors, worst_first
from harness.failures import MachineFailure


def test_a_finding_is_one_line_with_its_remedy():
    finding = Finding("error", "target", "queue", "dbo.q is\n disabled", "ALTER QUEUE dbo.q WITH STATUS = ON;")
    assert str(finding) == "error: target, queue: dbo.q is disabled; remedy: ALTER QUEUE dbo.q WITH STATUS = ON;"
    assert str(Finding("information", "lab", "edition", "Developer")) == "information: lab, edition: Developer"


def test_the_worst_comes_first():
    findings = [
        Finding("information", "a", "x", ""),
        Finding("error", "b", "x", "", ""),
        Finding("warning", "c", "x", "", ""),
        Finding("error", "d", "x", "", ""),
    ]
    assert [finding.instance for finding in worst_first(findings)] == ["b", "d", "c", "a"]


def test_errors_end_the_run_naming_the_first_and_the_number_of_others():
    findings = [
        Finding("warning", "a", "x", "w", "c"),
        Finding("error", "target", "route", "gone", "make it"),
        Finding("error", "b", "y", "t", "c"),
    ]
    with pytest.raises(UnfitLab) as raised:
        raise_errors(findings)
    assert str(raised.value) == "target, route: gone; remedy: make it (1 more: harness doctor)"
    assert isinstance(raised.value, MachineFailure)


def test_warnings_do_not_end_a_run():
    raise_errors([Finding("warning", "a", "x", "w", "c"), Finding("information", "a", "x", "i")])
