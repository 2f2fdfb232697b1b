"""Differences between clocks."""

from __future__ import annotations

import pytest

from harness.doctor import clocks
from harness.doctor.clocks import Difference
from harness.lab.instances import connections
from tests.doctor.conftest import ills

pytestmark = pytest.mark.process


def test_an_instance_on_this_machine_has_this_machines_clock(lab):
    with connections([lab.target]) as (connection,):
        measured = clocks.measure("target", connection)
    assert abs(measured.difference_ns) <= measured.uncertainty_ns + 2_000_000
    assert measured.uncertainty_ns > 0


@pytest.mark.parametrize("difference_ms, expected", [(-40, "warning"), (3, None), (20, None), (60_000, "warning")])
def test_a_difference_beyond_its_uncertainty_is_a_warning(difference_ms, expected):
    measured = Difference("initiator-1", difference_ms * 1_000_000, 17_000_000)
    findings = list(clocks.check_clock(measured))
    assert ills(findings) == ([(expected, "initiator-1", "clock")] if expected else [])
    assert f"{difference_ms:+.2f} ms" in findings[0].text
    assert "17.00 ms" in findings[0].text
