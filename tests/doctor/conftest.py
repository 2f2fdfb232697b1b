"""A linked lab with two initiators, healthy before and after each test, and the facts about its instances."""

import copy
from collections.abc import Iterator
from typing import Any

import pytest

from harness import doctor
from harness.doctor.facts import Facts, read
from harness.lab.instances import Lab, connections
from harness.lab.link import local_name
from harness.lab.opening import Topology
from harness.lab.opening import open as open_lab


@pytest.fixture(scope="session")
def opened_lab() -> Iterator[Lab]:
    with open_lab(Topology(), version="2008", initiators=2) as lab:
        yield lab


@pytest.fixture
def lab(opened_lab: Lab) -> Lab:
    return opened_lab


@pytest.fixture(scope="session")
def healthy(opened_lab: Lab) -> list[Facts]:
    return asked(opened_lab)


@pytest.fixture
def sides(healthy: list[Facts]) -> list[Facts]:
    """The facts about target, initiator-1 and initiator-2, which a test may change."""
    return [Facts(side.instance, side.local_name, copy.deepcopy(side.answers)) for side in healthy]


def asked(lab: Lab) -> list[Facts]:
    with connections(lab.instances) as opened:
        rows = zip(lab.instances, opened, strict=True)
        return [read(instance, local_name(instance), connection) for instance, connection in rows]


def found(lab: Lab, sides: list[Facts]) -> list[tuple[str, str, str]]:
    """Errors and warnings of the configuration: severity, instance, check."""
    return ills(doctor.configuration(lab, sides))


def ills(findings: Any) -> list[tuple[str, str, str]]:
    return [(one.severity, one.instance, one.check) for one in findings if one.severity != "information"]
