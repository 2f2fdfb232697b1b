"""The examination of a healthy lab."""

import io
import re
import time

import pytest

from harness import doctor
from harness.definitions.lab_kinds import CONTAINERS
from harness.definitions.matrix import all_cells
from harness.doctor import probe
from harness.files import settings
from harness.files.script_text import ScriptError
from harness.lab import scripts
from harness.lab.instances import Lab, Security, connections
from harness.lab.opening import Topology
from harness.lab.opening import open as open_lab
from harness.output.reporting import Lines, SafeConsole
from tests.doctor.conftest import asked, ills

pytestmark = pytest.mark.process

SETTINGS = settings.Settings()
LEFT = """
SELECT
    (SELECT COUNT(*) FROM sys.conversation_endpoints) AS conversations,
    (SELECT COUNT(*) FROM sys.transmission_queue) AS messages,
    (SELECT COUNT(*) FROM sys.services WHERE name LIKE N'%Probe%') AS services,
    (SELECT COUNT(*) FROM sys.objects WHERE name LIKE N'%Probe%') AS queues_and_procedures,
    (SELECT COUNT(*) FROM sys.routes WHERE name LIKE N'Probe%') AS routes,
    (SELECT COUNT(*) FROM sys.remote_service_bindings WHERE name LIKE N'Probe%') AS bindings,
    (SELECT COUNT(*) FROM sys.tables WHERE name LIKE N'doctor%') AS tables;
"""


def left_over(lab: Lab) -> list[tuple[int, ...]]:
    with connections(lab.instances) as opened:
        return [tuple(connection.execute(LEFT).fetchone()) for connection in opened]


def test_a_healthy_lab_has_no_errors_or_warnings_and_the_probe_leaves_nothing(lab):
    output = io.StringIO()
    findings = doctor.examine(lab, cells=all_cells(), settings=SETTINGS, reporter=Lines(SafeConsole(file=output)))
    assert ills(findings) == []
    checks = {finding.check for finding in findings}
    assert {"edition", "clock", "space", "probe", "activation", "handles", "commits"} <= checks
    assert "licence" not in checks
    steps = [re.sub(r", [\d min]+ s left", "", line) for line in output.getvalue().splitlines()]
    assert (steps[0], steps[3], steps[-1]) == (
        "check 1 of 5: facts of 3 instances completed",
        "check 4 of 5: commits of initiator-2 completed",
        "check 5 of 5: a message to the target and back completed",
    )
    doctor.raise_errors(findings)
    assert left_over(lab) == [(0,) * 7] * 3


def test_the_targets_activated_procedure_does_not_receive_the_probe(lab):
    before = [
        scripts.scalar(connection, "SELECT COUNT(*) FROM dbo.receiveCount;") for connection in [lab.target.connect()]
    ]
    assert not ills(probe.there_and_back(lab, asked(lab)))
    after = [
        scripts.scalar(connection, "SELECT COUNT(*) FROM dbo.receiveCount;") for connection in [lab.target.connect()]
    ]
    assert before == after


def test_leftovers_of_a_killed_probe_do_not_disturb_the_next(lab):
    variables = {"Database": lab.target.database}
    with connections([lab.target]) as (connection,):
        scripts.run(connection, "doctor/probe_service.sql", variables)
    assert not ills(probe.there_and_back(lab, asked(lab)))
    assert left_over(lab) == [(0,) * 7] * 3


def test_a_probe_that_cannot_be_created_is_a_warning(lab, monkeypatch):
    def refused(*_: object) -> None:
        raise ScriptError("CREATE QUEUE permission denied (error 262)")

    monkeypatch.setattr(probe, "_install", refused)
    findings = doctor.examine(lab, cells=all_cells(), settings=SETTINGS)
    assert ills(findings) == [("warning", "lab", "probe")]
    assert "error 262" in findings[0].text
    assert left_over(lab) == [(0,) * 7] * 3


def test_no_probe_is_sent_between_sides_with_errors(lab, monkeypatch):
    monkeypatch.setattr(lab.target, "broker_port", lab.target.broker_port + 1)
    findings = doctor.examine(lab, cells=all_cells(), settings=SETTINGS)
    assert {finding.text for finding in findings if finding.check == "probe"} == {
        "no probe message was sent: remedy the errors first"
    }
    with pytest.raises(doctor.UnfitLab, match="LISTENER_PORT"):
        doctor.raise_errors(findings)


def test_the_licence_is_mentioned_once_if_sql_server_is_measured(lab, sides, monkeypatch):
    monkeypatch.setattr(lab, "kind", CONTAINERS)
    printed = [finding for finding in doctor.configuration(lab, sides) if finding.check == "licence"]
    assert len(printed) == 1
    assert "prior written approval" in printed[0].text


def test_a_lab_without_dialog_security_and_with_encrypted_endpoints_is_healthy_too():
    topology = Topology(security=Security(dialog=False, endpoint_encryption=True))
    with open_lab(topology, version="2008", initiators=1) as lab:
        findings = doctor.examine(lab, cells=all_cells(), settings=SETTINGS)
        assert ills(findings) == []
        assert not [finding for finding in findings if "flushed" in finding.text]  # of SQL Server on Linux alone
        assert left_over(lab) == [(0,) * 7] * 2


def test_three_initiators_are_examined_at_once():
    """In half a second where nothing else runs; of this process's time it takes little anywhere, if a burst of another
    thread of the process does not fall into it."""

    def spent_s() -> float:
        began = time.process_time()
        assert ills(doctor.examine(lab, cells=all_cells(), settings=SETTINGS)) == []
        return time.process_time() - began

    with open_lab(Topology(), version="2008", initiators=3) as lab:
        assert any(spent_s() < 2 for _ in range(3))
