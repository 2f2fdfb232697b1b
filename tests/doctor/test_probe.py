"""A probe without an answer reports why and what to do about it, in time."""

from types import SimpleNamespace

import pytest

from harness.doctor import probe
from harness.doctor.probe import SILENT, remedy_for
from harness.files.script_text import ScriptError
from harness.lab import scripts, statuses
from harness.lab.instances import Lab, connections
from tests.doctor.conftest import asked, ills
from tests.doctor.test_broken import BREAKAGES, mend, run_on
from tests.doctor.test_examine import left_over
from tests.thorough import one_of_each

TIMEOUT_S = 1.0
RESTART = "ALTER ENDPOINT Endpoint_SRPerf_1 STATE = STOPPED; ALTER ENDPOINT Endpoint_SRPerf_1 STATE = STARTED;"

# What is broken (a name in test_broken), and words of the remedy; initiator-2's link is well but where all is broken.
CASES = [
    ("route to another address", "endpoint", ["initiator-1"]),
    ("no route", "CREATE ROUTE", ["initiator-1"]),
    ("no route back", "way back", ["initiator-2"]),
    ("endpoint stopped", "endpoint", ["initiator-1", "initiator-2"]),
    ("no copy of the endpoint's certificate", "certificate", ["initiator-1"]),
    ("no copy of the dialogs' certificate", "drops messages that it cannot verify", ["initiator-1"]),
    ("no certificate for dialogs", "certificate", ["initiator-1"]),
    ("no master key", "CREATE MASTER KEY", ["initiator-1"]),
    ("no binding", "CREATE REMOTE SERVICE BINDING", ["initiator-1"]),
    ("no right to send", "GRANT SEND", ["initiator-2"]),
    ("broker disabled", "ENABLE_BROKER", ["initiator-1"]),
]


@pytest.mark.parametrize(
    "name, words, ill", one_of_each(CASES, lambda case: str(case[2])), ids=[case[0] for case in CASES]
)
@pytest.mark.process
def test_a_probe_that_fails_has_a_remedy_and_ends_in_time(lab, monkeypatch, name, words, ill):
    monkeypatch.setattr(probe, "TIMEOUT_S", 3600.0)  # the given time counts: with this one the test would not end
    breakage = next(one for one in BREAKAGES if one.name == name)
    run = lambda on, text: run_on(lab, on, text)  # noqa: E731
    run(breakage.on, breakage.spoil)
    if "endpoint" in name:
        run(breakage.on, RESTART if "STOPPED" not in breakage.spoil else "")  # an open connection is not checked again
    try:
        for timeout_s in (
            TIMEOUT_S,
            10 * TIMEOUT_S,
            60 * TIMEOUT_S,
        ):  # a busy machine may not even have connected by then
            findings = probe.there_and_back(lab, asked(lab), timeout_s=timeout_s)
            failed = [finding for finding in findings if finding.severity == "error"]
            if all(words in finding.remedy for finding in failed):
                break
    finally:
        mend(run, breakage)
    assert [finding.instance for finding in failed] == ill
    is_answered = len(ill) < len(lab.initiators)
    assert [finding.severity for finding in findings if finding.check == "activation"] == ["information"] * is_answered
    assert all(words in finding.remedy for finding in failed), [str(finding) for finding in failed]
    assert left_over(lab) == [(0,) * 7] * 3
    assert not ills(probe.there_and_back(lab, asked(lab)))


def alter_the_queue_of_the_target(monkeypatch: pytest.MonkeyPatch, change: str) -> None:
    """Once the probe has installed it."""
    install = probe._install

    def altered(lab: Lab, side: object, *rest: object) -> None:
        install(lab, side, *rest)
        if side.name == "target":
            scripts.execute(rest[-1], f"ALTER QUEUE dbo.MySSBLabProbeQueue WITH {change};")

    monkeypatch.setattr(probe, "_install", altered)


@pytest.mark.process
def test_a_queue_disabled_during_the_probe_ends_it_in_time(lab, monkeypatch):
    alter_the_queue_of_the_target(monkeypatch, "STATUS = OFF")
    findings = probe.there_and_back(lab, asked(lab), timeout_s=1.0)
    assert ills(findings) == [("error", "initiator-1", "probe"), ("error", "initiator-2", "probe")]
    assert left_over(lab) == [(0,) * 7] * 3


@pytest.mark.process
def test_a_target_that_activates_nothing_is_an_error_and_the_links_are_probed_all_the_same(lab, monkeypatch):
    alter_the_queue_of_the_target(monkeypatch, "ACTIVATION (STATUS = OFF)")
    monkeypatch.setattr(probe, "ACTIVATION_S", 0.5)
    findings = probe.there_and_back(lab, asked(lab))
    assert ills(findings) == [("error", "target", "activation")]
    assert len([finding for finding in findings if "to the target and back took" in finding.text]) == 2
    assert left_over(lab) == [(0,) * 7] * 3


@pytest.mark.process
def test_the_probe_is_removed_even_if_it_could_not_be_installed(lab, monkeypatch):
    monkeypatch.setattr(probe, "_ask", failing)
    with pytest.raises(ScriptError):
        probe.there_and_back(lab, asked(lab))
    assert left_over(lab) == [(0,) * 7] * 3


def failing(*_: object) -> None:
    raise ScriptError("the script does not run")


@pytest.mark.process
def test_objects_that_cannot_be_removed_are_reported(lab, monkeypatch):
    clear = probe._clear
    calls: list[str] = []

    def once(side: object, *rest: object) -> None:
        calls.append(side.name)
        if side.name == "target" and calls.count("target") > 1:
            failing()
        clear(side, *rest)

    monkeypatch.setattr(probe, "_clear", once)
    findings = probe.there_and_back(lab, asked(lab))
    assert ills(findings) == [("warning", "target", "probe")]
    assert "probe_drop.sql" in findings[-1].remedy
    monkeypatch.undo()
    with connections([lab.target]) as (connection,):
        scripts.run(connection, "doctor/probe_drop.sql", {"Database": lab.target.database})


@pytest.mark.process
def test_handles_out_of_order_are_a_warning(lab, monkeypatch):
    rows = scripts.rows

    def shuffled(connection: object, path: str, variables: dict[str, str]) -> list[dict[str, object]]:
        found = rows(connection, path, variables)
        return [{**row, "handle_rank": 51 - row["handle_rank"]} for row in found] if "handles" in path else found

    monkeypatch.setattr(probe.scripts, "rows", shuffled)
    findings = probe.there_and_back(lab, asked(lab))
    assert ills(findings) == [("warning", "initiator-1", "handles"), ("warning", "initiator-2", "handles")]


TEXTS = [
    (statuses.table()["9748"].text.replace("%S_MSG", "Service Broker"), "ALTER ENDPOINT"),
    (statuses.table()["9750"].text, "no route leads to the service: CREATE ROUTE [<name>]"),
    ("Connection attempt failed with error: '10061(connection refused)'.", "start the endpoint there"),
    (statuses.table()["9770"].text, "drop the route to that service"),
    (statuses.table()["28050"].text, "USE [d]; "),
    (statuses.table()["9727"].text, "CREATE REMOTE SERVICE BINDING [<name>] TO SERVICE N'<service>'"),
    ("You do not have permission to access the service 'x'.", "GRANT SEND ON SERVICE::[<service>]"),
    ("", "drops messages that it cannot verify"),
    ("something never heard of", "error logs"),
]
SIDE = SimpleNamespace(instance=SimpleNamespace(database="d"))


@pytest.mark.parametrize("text, words", TEXTS)
def test_a_status_has_a_remedy(text, words):
    assert words in remedy_for(text, SIDE)


def test_an_empty_status_has_its_own_remedy():
    assert remedy_for("  ", SIDE) == SILENT
