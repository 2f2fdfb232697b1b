"""Faults that the embedded broker cannot have: one fact of a healthy lab is changed, and exactly that is found."""

from dataclasses import replace
from typing import Any

import pytest

from harness import doctor
from harness.doctor import instance_settings
from harness.lab.instances import LabError, Security
from tests.doctor.conftest import found, ills

pytestmark = pytest.mark.process

TARGET, FIRST = 0, 1

# question, column, value on the target; what is found; words of text or remedy
CHANGED = [
    ("owner", "problem", "Msg 15404", ("error", "owner"), "ALTER AUTHORIZATION ON DATABASE::[SSBTarget] TO [sa];"),
    ("database", "is_read_only", True, ("error", "database"), "READ_WRITE"),
    ("database", "user_access", "SINGLE_USER", ("error", "database"), "MULTI_USER"),
    ("database", "delayed_durability", "FORCED", ("warning", "database"), "DELAYED_DURABILITY = DISABLED"),
    ("database", "recovery_model", "FULL", ("warning", "database"), "RECOVERY SIMPLE"),
    ("database", "is_auto_shrink_on", True, ("warning", "database"), "AUTO_SHRINK OFF"),
    ("database", "is_auto_close_on", True, ("warning", "database"), "AUTO_CLOSE OFF"),
    ("database", "page_verify", "TORN_PAGE_DETECTION", ("information", "database"), "PAGE_VERIFY CHECKSUM"),
    ("database", "is_query_store_on", True, ("information", "database"), "QUERY_STORE = OFF"),
    ("database", "is_read_committed_snapshot_on", True, ("information", "database"), "READ_COMMITTED_SNAPSHOT OFF"),
    ("database", "is_encrypted", True, ("warning", "database"), "ENCRYPTION OFF"),
    ("database", "group_database_id", "6F9619FF-8B86-D011-B42D-00C04FC964FF", ("warning", "database"), "SET HADR OFF;"),
    ("database", "target_recovery_time_in_seconds", 0, ("information", "database"), "TARGET_RECOVERY_TIME = 60"),
    ("database", "compatibility_level", 90, ("information", "database"), "the version's own, 100"),
    ("edition", "product_version", "16.0.4135.4", ("error", "version"), "this is SQL Server 2022"),
    ("edition", "edition", "Web Edition (64-bit)", ("warning", "edition"), "Developer"),
    ("edition", "engine_edition", 4, ("warning", "edition"), "client only"),
    ("edition", "scheduler_count", 8, ("warning", "tempdb"), "1 data file for 8 processors"),
    ("service", "max_readers", 0, ("error", "activation"), "MAX_QUEUE_READERS = 16"),
    ("service", "execute_as_principal_id", None, ("error", "activation"), "EXECUTE AS OWNER"),
    ("service", "activation_procedure", None, ("error", "activation"), "target/activation.sql"),
    ("contract", "is_sent_by_initiator", False, ("error", "contract"), "does not let the initiator send"),
    ("contract", "message_type_name", "//Other", ("error", "contract"), "has no message type"),
    ("endpoint", "ip_address", "10.0.0.1", ("warning", "endpoint"), "instead of (127.0.0.1)"),
    ("endpoint", "state", "DISABLED", ("error", "endpoint"), "is DISABLED"),
]


BOTH = ("initiator-1", "initiator-2")
# What also follows on the other sides.
FOLLOWS = {
    "product_version": {("lab", "version")},
    "is_sent_by_initiator": {(name, "message type") for name in BOTH},
    "message_type_name": {(name, "message type") for name in BOTH},
}


@pytest.mark.parametrize("case", CHANGED, ids=lambda case: f"{case[1]} {case[2]}")
def test_a_wrong_fact_is_found(lab, sides, case):
    question, column, value, expected, words = case
    before = doctor.configuration(lab, sides)
    sides[TARGET].answers[question][0][column] = value
    after = [one for one in doctor.configuration(lab, sides) if one not in before and one.check != "options"]
    own = [finding for finding in after if finding.severity != "information" or expected[0] == "information"]
    assert [(one.severity, one.check) for one in own if one.instance == "target"] == [expected]
    assert {(one.instance, one.check) for one in own if one.instance != "target"} <= FOLLOWS.get(column, set())
    assert any(words in str(finding) for finding in after)


def test_data_and_log_on_one_volume_are_told(lab, sides):
    def told(log_volume: str) -> list[str]:
        files = ((1, "ROWS", "D:\\"), (2, "LOG", log_volume))
        sides[TARGET].answers["files"] = [{"file_id": number, "file_type": kind} for number, kind, _ in files]
        sides[TARGET].answers["volumes"] = [{"file_id": number, "volume": volume} for number, _, volume in files]
        return [one.text for one in instance_settings.check_volumes(sides[TARGET])]

    assert told("L:\\") == []
    assert told("D:\\") == ["data and log are both on D:\\: in the paper each had a volume of its own"]


def test_a_remedy_can_be_pasted_whatever_names_a_server_has(lab, sides):
    sides[TARGET].answers["endpoint"][0].update(endpoint_name="x]; DROP TABLE t", state="STOPPED")
    for route in sides[TARGET].answers["routes"]:
        route.update(route_name="x]; DROP TABLE t", is_expired=True)
    remedies = [finding.remedy for finding in doctor.configuration(lab, sides) if "DROP TABLE" in finding.remedy]
    assert len(remedies) >= 2 and all("[x]]; DROP TABLE t]" in remedy for remedy in remedies), remedies


def test_the_options_of_each_database_are_shown(lab, sides):
    shown = {one.instance: one.text for one in doctor.configuration(lab, sides) if one.check == "options"}
    usual = "recovery SIMPLE, compatibility level 100, delayed durability DISABLED, query store OFF"
    assert shown == dict.fromkeys(("target", "initiator-1", "initiator-2"), usual)
    sides[TARGET].answers["accelerated_recovery"] = [{"is_accelerated_database_recovery_on": True}]
    found = [one.text for one in doctor.configuration(lab, sides) if one.check == "options"]
    assert found[0] == f"{usual}, accelerated recovery ON"


@pytest.mark.parametrize(
    "case",
    [
        ("endpoint_certificates", {"private_key": "ENCRYPTED_BY_PASSWORD"}, "endpoint certificate", "cannot open it"),
        ("endpoint_certificates", {"is_started": 0}, "endpoint certificate", "is not valid before"),
        ("endpoint_certificates", {"is_expired": 1}, "endpoint certificate", "expired on"),
        ("dialog_certificates", {"private_key": "ENCRYPTED_BY_PASSWORD"}, "dialog certificate", "cannot open it"),
    ],
)
def test_an_unusable_certificate_is_found(lab, sides, case):
    question, change, expected, words = case
    own = next(row for row in sides[TARGET].answers[question] if row["certificate_name"].startswith("Target_"))
    own.update(change)
    assert found(lab, sides) == [("error", "target", expected)]
    assert any(words in str(finding) for finding in doctor.configuration(lab, sides))


def test_two_databases_with_one_broker_identifier_are_found(lab, sides):
    brokers = sides[FIRST].answers["brokers"]
    own = next(row for row in brokers if row["database_name"] == "SSBInitiator1")
    brokers.append({**own, "database_name": "Copy"})
    assert found(lab, sides) == [("error", "initiator-1", "broker")]
    assert "[Copy] SET NEW_BROKER" in str(first_ill(lab, sides))


def test_a_master_key_that_the_server_cannot_open_is_found(lab, sides):
    for row in sides[FIRST].answers["master_keys"]:
        row["is_master_key_encrypted_by_server"] = row["database_name"] == "master"
    assert found(lab, sides) == [("error", "initiator-1", "master key")]
    assert "ADD ENCRYPTION BY SERVICE MASTER KEY" in str(first_ill(lab, sides))


def test_an_expired_route_is_found_and_named(lab, sides):
    next(row for row in sides[FIRST].answers["routes"] if row["route_name"] == "Test_Target")["is_expired"] = 1
    assert found(lab, sides) == [("error", "initiator-1", "route")]
    assert "ALTER ROUTE [Test_Target] WITH LIFETIME" in str(first_ill(lab, sides))


def test_a_small_log_of_tempdb_is_told(sides):
    facts = sides[TARGET]
    facts.answers["tempdb_files"][0]["log_mb"] = 8
    small = [one for one in instance_settings.check_instance(facts) if "log of tempdb has 8 MB" in one.text]
    assert [one.remedy for one in small] == ["ALTER DATABASE tempdb MODIFY FILE (NAME = templog, SIZE = 256MB);"]
    facts.answers["tempdb_files"][0]["log_mb"] = 256
    assert not any("log of tempdb" in one.text for one in instance_settings.check_instance(facts))


def test_a_certificate_whose_owner_has_no_login_is_found(lab, sides):
    copy = next(
        row for row in sides[TARGET].answers["endpoint_certificates"] if "Initiator1" in row["certificate_name"]
    )
    copy["login_name"] = None
    assert found(lab, sides) == [("error", "target", "endpoint rights")]


def test_a_right_that_is_denied_is_found(lab, sides):
    sides[TARGET].answers["endpoint_grants"].append({"grantee_name": "public", "state": "DENY"})
    sides[TARGET].answers["service_grants"].append({"grantee_name": "public", "state": "DENY"})
    expected = [("error", "target", "endpoint rights"), ("error", "target", "right to send")]
    assert sorted(found(lab, sides)) == sorted(expected * 2)


def test_what_the_login_may_not_see_is_a_warning_instead_of_an_error(lab, sides):
    sides[TARGET].answers["rights"] = [{"sees_server_definitions": 0, "sees_database_definitions": 1}]
    sides[TARGET].answers["endpoint"] = []
    assert found(lab, sides) == [("warning", "target", "endpoint")]
    assert "GRANT VIEW ANY DEFINITION" in str(first_ill(lab, sides))


def test_a_refused_query_is_reported(lab, sides):
    del sides[FIRST].answers["endpoint_grants"]
    sides[FIRST].failures["endpoint_grants"] = "VIEW ANY DEFINITION permission was denied (error 300)"
    assert found(lab, sides) == [("warning", "initiator-1", "endpoint_grants")]
    assert "error 300" in str(next(sides[FIRST].unanswered()))


def test_instances_of_different_builds_are_found(lab, sides):
    sides[FIRST].answers["edition"][0]["product_version"] = "10.0.1600.22"
    assert found(lab, sides) == [("warning", "lab", "version")]


def test_two_client_only_editions_are_an_error(lab, sides):
    for side in sides[:2]:
        side.answers["edition"][0]["engine_edition"] = 4
    assert ("error", "lab", "edition") in found(lab, sides)


def test_a_binding_on_a_lab_without_dialog_security_is_an_error(lab, sides, monkeypatch):
    monkeypatch.setattr(lab, "security", Security(dialog=False))
    assert found(lab, sides) == [
        ("error", "target", "right to send"),
        *[(severity, name, check) for name in ("initiator-1", "initiator-2") for severity, check in UNSECURED],
    ]


UNSECURED = (("error", "binding"), ("warning", "right to send"))


def test_an_endpoint_that_encrypts_against_the_labs_setting_is_found(lab, sides, monkeypatch):
    for side in sides:
        side.answers["endpoint"][0]["encryption"] = "AES"
    assert found(lab, sides) == [("warning", side.name, "endpoint") for side in sides]
    monkeypatch.setattr(lab, "security", replace(lab.security, endpoint_encryption=True))
    assert found(lab, sides) == []


def test_minor_settings_are_reported(lab, sides):
    sides[TARGET].answers["accelerated_recovery"] = [{"is_accelerated_database_recovery_on": True}]
    sides[TARGET].answers["configuration"] = [{"name": "max server memory (MB)", "value_in_use": 2147483647}]
    printed = [str(finding) for finding in doctor.configuration(lab, sides) if finding.instance == "target"]
    assert any("ACCELERATED_DATABASE_RECOVERY = OFF" in line for line in printed)
    assert any("max server memory is not set" in line for line in printed)
    assert found(lab, sides) == []


def test_a_refused_administrator_connection_is_reported(lab, sides, monkeypatch):
    def refused(self: Any) -> Any:
        raise LabError("target: the port is closed")

    monkeypatch.setattr(lab.target, "admin_port", 1434)
    monkeypatch.setattr(type(lab.target), "connect_admin", refused)
    [finding] = doctor.instance_settings.check_admin_connection(sides[TARGET])
    assert finding.severity == "information"
    assert "the port is closed" in finding.text and "remote admin connections" in finding.remedy


def first_ill(lab: Any, sides: Any) -> Any:
    findings = doctor.configuration(lab, sides)
    assert ills(findings)
    return next(finding for finding in findings if finding.severity != "information")


@pytest.mark.parametrize(
    "question, row, words",
    [
        ("fingerprint_log", {"virtual_log_files": 1001}, "1,001 virtual log files"),
        ("fingerprint_service", {"instant_file_initialization_enabled": "N"}, "file initialization is off"),
    ],
)
def test_slow_files_are_found_where_the_instance_shows_them(lab, sides, question, row, words):
    sides[TARGET].answers[question] = [row]
    [found] = [one for one in doctor.configuration(lab, sides) if one.check in ("log", "files")]
    assert (found.severity, found.instance) == ("information", "target") and words in found.text and found.remedy
    sides[TARGET].answers[question] = [{"virtual_log_files": 1000, "instant_file_initialization_enabled": "Y"}]
    assert not [one for one in doctor.configuration(lab, sides) if one.check in ("log", "files")]


@pytest.mark.parametrize(
    "plan, words",
    [
        ("381b4222-f694-41f0-9685-ff5bb260df2e", "power plan is Balanced, not High performance"),
        ("11111111-f694-41f0-9685-ff5bb260df2e", "power plan is 11111111-f694-41f0-9685-ff5bb260df2e, not"),
        ("8c5e7fda-e8bf-4a96-9a85-a6e23a8c635c", ""),
        (None, ""),
    ],
)
def test_a_power_plan_that_slows_processors_down_is_a_warning(lab, sides, plan, words):
    assert sides[TARGET].answers["power_plan"] == [{"power_plan": None, "refused": None}]
    sides[TARGET].answers["power_plan"] = [{"power_plan": plan, "refused": None}]
    found = [one for one in doctor.configuration(lab, sides) if one.check == "power"]
    assert [(one.severity, one.instance) for one in found] == [("warning", "target")] * bool(words)
    assert not found or (words in found[0].text and "powercfg /setactive 8c5e7fda" in found[0].remedy)
