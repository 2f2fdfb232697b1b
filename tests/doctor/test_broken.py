"""A fault is made on a linked lab with T-SQL: the doctor finds it, with its remedy, and nothing once it is repaired."""

from collections.abc import Callable
from dataclasses import dataclass
from types import SimpleNamespace

import pytest

from harness import doctor
from harness.doctor import transport
from harness.doctor.transport import end_of_validity
from harness.files.workload_file import Names
from harness.lab import link, scripts
from harness.lab.instances import Instance, Lab
from tests.doctor.conftest import asked, ills
from tests.thorough import one_of_each

pytestmark = pytest.mark.process

NAMES = Names()
QUEUE, SERVICE, CONTRACT, MESSAGE_TYPE = NAMES.target_queue, NAMES.target_service, NAMES.contract, NAMES.message_type
BINDING = f"CREATE REMOTE SERVICE BINDING [Test_Target] TO SERVICE N'{SERVICE}' WITH USER = [Proxy:User_Target]"

Found = list[tuple[str, str, str]]


@dataclass(frozen=True)
class Breakage:
    """`spoil` and `mend` run on one instance, in its database or in the one they USE; {script} means a file."""

    name: str
    on: str
    spoil: str
    mend: str
    found: Found
    words: str  # of text or remedy

    def __str__(self) -> str:
        return self.name


def error(instance: str, check: str) -> Found:
    return [("error", instance, check)]


def warning(instance: str, check: str) -> Found:
    return [("warning", instance, check)]


def recreate_endpoint(options: str) -> str:
    return (
        "USE master; DROP ENDPOINT Endpoint_SRPerf_1; CREATE ENDPOINT Endpoint_SRPerf_1 STATE = STARTED"
        f" AS TCP (LISTENER_PORT = {{port}}, LISTENER_IP = (127.0.0.1)) FOR SERVICE_BROKER ({options});"
        " GRANT CONNECT ON ENDPOINT::Endpoint_SRPerf_1 TO [User_Initiator1];"
        " GRANT CONNECT ON ENDPOINT::Endpoint_SRPerf_1 TO [User_Initiator2];"
    )


WHOLE_ENDPOINT = recreate_endpoint("AUTHENTICATION = CERTIFICATE Target_Endpoint, ENCRYPTION = DISABLED")
CERTIFICATE = "CREATE CERTIFICATE [Initiator1_Dialog] AUTHORIZATION dbo WITH SUBJECT = 'x'"

BREAKAGES = [
    Breakage(
        "queue disabled",
        "target",
        f"ALTER QUEUE {QUEUE} WITH STATUS = OFF;",
        f"ALTER QUEUE {QUEUE} WITH STATUS = ON;",
        error("target", "queue"),
        f"ALTER QUEUE {QUEUE} WITH STATUS = ON;",
    ),
    Breakage(
        "initiator's queue disabled",
        "initiator-2",
        f"ALTER QUEUE {QUEUE} WITH STATUS = OFF;",
        f"ALTER QUEUE {QUEUE} WITH STATUS = ON;",
        error("initiator-2", "queue"),
        "STATUS = ON",
    ),
    Breakage(
        "activation off",
        "target",
        f"ALTER QUEUE {QUEUE} WITH ACTIVATION (STATUS = OFF);",
        f"ALTER QUEUE {QUEUE} WITH ACTIVATION (STATUS = ON);",
        error("target", "activation"),
        "ACTIVATION (STATUS = ON)",
    ),
    Breakage(
        "fewer readers",
        "target",
        f"ALTER QUEUE {QUEUE} WITH ACTIVATION (MAX_QUEUE_READERS = 3);",
        f"ALTER QUEUE {QUEUE} WITH ACTIVATION (MAX_QUEUE_READERS = 16);",
        warning("target", "activation"),
        "instead of 16",
    ),
    Breakage(
        "no activation procedure",
        "target",
        "DROP PROCEDURE dbo.SRPerf_Queue_LabTest;",
        "{workloads/paper/receive_procedure.sql}",
        error("target", "activation"),
        "receive_procedure.sql",
    ),
    Breakage(
        "contract not offered",
        "target",
        f"ALTER SERVICE [{SERVICE}] (DROP CONTRACT [{CONTRACT}]);",
        f"ALTER SERVICE [{SERVICE}] (ADD CONTRACT [{CONTRACT}]);",
        error("target", "contract"),
        "ADD CONTRACT",
    ),
    Breakage(
        "no service",
        "initiator-2",
        f"DROP SERVICE [{SERVICE}];",
        "{initiator/service.sql} GRANT SEND ON SERVICE::[" + SERVICE + "] TO [Proxy:User_Target];",
        error("initiator-2", "service"),
        "initiator/service.sql",
    ),
    Breakage(
        "another validation",
        "initiator-1",
        f"ALTER MESSAGE TYPE [{MESSAGE_TYPE}] VALIDATION = WELL_FORMED_XML;",
        f"ALTER MESSAGE TYPE [{MESSAGE_TYPE}] VALIDATION = NONE;",
        error("initiator-1", "message type"),
        "VALIDATION = NONE",
    ),
    Breakage(
        "broker disabled",
        "initiator-1",
        "ALTER DATABASE SSBInitiator1 SET DISABLE_BROKER WITH ROLLBACK IMMEDIATE;",
        "ALTER DATABASE SSBInitiator1 SET ENABLE_BROKER WITH ROLLBACK IMMEDIATE;",
        error("initiator-1", "broker"),
        "ENABLE_BROKER",
    ),
    Breakage(
        "msdb's broker disabled",
        "target",
        "ALTER DATABASE msdb SET DISABLE_BROKER WITH ROLLBACK IMMEDIATE;",
        "ALTER DATABASE msdb SET ENABLE_BROKER WITH ROLLBACK IMMEDIATE;",
        error("target", "broker"),
        "[msdb] SET ENABLE_BROKER",
    ),
    Breakage(
        "no route", "initiator-1", "DROP ROUTE Test_Target;", "{route}", error("initiator-1", "route"), "link/route.sql"
    ),
    Breakage(
        "no route back", "target", "DROP ROUTE Test_Initiator2;", "{route}", error("target", "route"), "initiator-2"
    ),
    Breakage(
        "route to another address",
        "initiator-1",
        "ALTER ROUTE Test_Target WITH ADDRESS = N'TCP://127.0.0.1:1025';",
        "{route}",
        error("initiator-1", "route"),
        "WITH ADDRESS",
    ),
    Breakage(
        "route to another broker instance",
        "initiator-1",
        "ALTER ROUTE Test_Target WITH BROKER_INSTANCE = N'00000000-0000-0000-0000-000000000001';",
        "{route}",
        error("initiator-1", "route"),
        "BrokerInstance=",
    ),
    Breakage(
        "two routes",
        "initiator-1",
        f"CREATE ROUTE twin WITH SERVICE_NAME = N'{SERVICE}', BROKER_INSTANCE = N'{{guid}}', ADDRESS = N'{{address}}';",
        "DROP ROUTE twin;",
        warning("initiator-1", "route"),
        "twin",
    ),
    Breakage(
        "a route to the configuration service",
        "initiator-1",
        "CREATE ROUTE ask WITH SERVICE_NAME = N'SQL/ServiceBroker/BrokerConfiguration', ADDRESS = N'LOCAL';",
        "DROP ROUTE ask;",
        warning("initiator-1", "route"),
        "DROP ROUTE [ask]",
    ),
    Breakage(
        "nothing for what arrives",
        "target",
        "USE msdb; DROP ROUTE AutoCreatedLocal;",
        "USE msdb; CREATE ROUTE AutoCreatedLocal WITH ADDRESS = N'LOCAL';",
        warning("target", "arriving route"),
        "AutoCreatedLocal",
    ),
    Breakage(
        "msdb sends on what arrives",
        "target",
        f"USE msdb; CREATE ROUTE away WITH SERVICE_NAME = N'{SERVICE}', ADDRESS = N'TCP://127.0.0.1:1025';",
        "USE msdb; DROP ROUTE away;",
        error("target", "arriving route"),
        "DROP ROUTE [away]",
    ),
    Breakage(
        "endpoint stopped",
        "target",
        "ALTER ENDPOINT Endpoint_SRPerf_1 STATE = STOPPED;",
        "ALTER ENDPOINT Endpoint_SRPerf_1 STATE = STARTED;",
        error("target", "endpoint"),
        "STATE = STARTED",
    ),
    Breakage(
        "no endpoint",
        "target",
        "USE master; DROP ENDPOINT Endpoint_SRPerf_1;",
        WHOLE_ENDPOINT.replace("DROP ENDPOINT Endpoint_SRPerf_1;", ""),
        error("target", "endpoint"),
        "link/endpoint.sql",
    ),
    Breakage(
        "another port",
        "target",
        WHOLE_ENDPOINT.replace("{port}", "{free}"),
        WHOLE_ENDPOINT,
        error("target", "endpoint"),
        "LISTENER_PORT",
    ),
    Breakage(
        "encryption on one side",
        "target",
        recreate_endpoint("AUTHENTICATION = CERTIFICATE Target_Endpoint, ENCRYPTION = REQUIRED ALGORITHM AES"),
        WHOLE_ENDPOINT,
        [("warning", "target", "endpoint"), *error("initiator-1", "endpoint"), *error("initiator-2", "endpoint")],
        "refuse each other",
    ),
    Breakage(
        "authentication by Windows",
        "target",
        recreate_endpoint("AUTHENTICATION = WINDOWS NEGOTIATE, ENCRYPTION = DISABLED"),
        WHOLE_ENDPOINT,
        error("target", "endpoint"),
        "NEGOTIATE",
    ),
    Breakage(
        "no right to connect",
        "target",
        WHOLE_ENDPOINT.replace("GRANT CONNECT ON ENDPOINT::Endpoint_SRPerf_1 TO [User_Initiator2];", ""),
        WHOLE_ENDPOINT,
        error("target", "endpoint rights"),
        "GRANT CONNECT ON ENDPOINT::[Endpoint_SRPerf_1] TO [User_Initiator2];",
    ),
    Breakage(
        "no copy of the endpoint's certificate",
        "target",
        "USE master; DROP CERTIFICATE Initiator1_Endpoint;",
        "{link}",
        error("target", "endpoint certificate"),
        "import_endpoint_certificate.sql",
    ),
    Breakage(
        "no master key",
        "initiator-1",
        "DROP CERTIFICATE Initiator1_Dialog; DROP MASTER KEY;",
        "{link}",
        [*error("initiator-1", "master key"), *error("initiator-1", "dialog certificate")],
        "Database=SSBInitiator1",
    ),
    Breakage(
        "no master key in master",
        "initiator-1",
        "USE master; DROP CERTIFICATE Initiator1_Endpoint; DROP MASTER KEY;",
        "{link}",
        [*error("initiator-1", "endpoint certificate"), *error("initiator-1", "master key")],
        "Database=master",
    ),
    Breakage(
        "no certificate for dialogs",
        "initiator-1",
        "DROP CERTIFICATE Initiator1_Dialog;",
        "{link}",
        error("initiator-1", "dialog certificate"),
        "dialog_certificate.sql",
    ),
    Breakage(
        "a certificate that is to come",
        "initiator-1",
        f"DROP CERTIFICATE Initiator1_Dialog; {CERTIFICATE}, START_DATE = '20480101', EXPIRY_DATE = '20491231';",
        "DROP CERTIFICATE Initiator1_Dialog; {link}",
        error("initiator-1", "dialog certificate"),
        "not valid before 2048-01-01",
    ),
    Breakage(
        "an expired certificate",
        "initiator-1",
        f"DROP CERTIFICATE Initiator1_Dialog; {CERTIFICATE}, START_DATE = '20200101', EXPIRY_DATE = '20210101';",
        "DROP CERTIFICATE Initiator1_Dialog; {link}",
        error("initiator-1", "dialog certificate"),
        "expired on 2021-01-01",
    ),
    Breakage(
        "a certificate that begins no dialogs",
        "initiator-1",
        f"DROP CERTIFICATE Initiator1_Dialog; {CERTIFICATE} ACTIVE FOR BEGIN_DIALOG = OFF;",
        "DROP CERTIFICATE Initiator1_Dialog; {link}",
        error("initiator-1", "dialog certificate"),
        "ACTIVE FOR BEGIN_DIALOG = ON",
    ),
    Breakage(
        "no copy of the dialogs' certificate",
        "target",
        "DROP CERTIFICATE Initiator1_Dialog;",
        "{link}",
        error("target", "certificate copy"),
        "import_dialog_certificate.sql",
    ),
    Breakage(
        "a copy of an older certificate",
        "initiator-1",
        f"DROP CERTIFICATE Initiator1_Dialog; {CERTIFICATE};",
        "DROP CERTIFICATE Initiator1_Dialog; {link}",
        error("target", "certificate copy"),
        "the certificate of that name is a different one",
    ),
    Breakage(
        "no binding",
        "initiator-1",
        "DROP REMOTE SERVICE BINDING Test_Target;",
        f"{BINDING};",
        error("initiator-1", "binding"),
        "remote_service_binding.sql",
    ),
    Breakage(
        "anonymous binding",
        "initiator-1",
        "ALTER REMOTE SERVICE BINDING Test_Target WITH ANONYMOUS = ON;",
        "ALTER REMOTE SERVICE BINDING Test_Target WITH ANONYMOUS = OFF;",
        warning("initiator-1", "binding"),
        "ANONYMOUS = OFF",
    ),
    Breakage(
        "binding to another user",
        "initiator-1",
        "CREATE USER stranger WITHOUT LOGIN; ALTER REMOTE SERVICE BINDING Test_Target WITH USER = stranger;",
        "ALTER REMOTE SERVICE BINDING Test_Target WITH USER = [Proxy:User_Target]; DROP USER stranger;",
        error("initiator-1", "binding"),
        "names stranger",
    ),
    Breakage(
        "no right to send",
        "target",
        f"REVOKE SEND ON SERVICE::[{SERVICE}] FROM [Proxy:User_Initiator2];",
        f"GRANT SEND ON SERVICE::[{SERVICE}] TO [Proxy:User_Initiator2];",
        error("target", "right to send"),
        "TO [Proxy:User_Initiator2]",
    ),
    Breakage(
        "no right to send back",
        "initiator-1",
        f"REVOKE SEND ON SERVICE::[{SERVICE}] FROM [Proxy:User_Target];",
        f"GRANT SEND ON SERVICE::[{SERVICE}] TO [Proxy:User_Target];",
        warning("initiator-1", "right to send"),
        "TO [Proxy:User_Target]",
    ),
]


@pytest.fixture
def run(lab: Lab) -> Callable[[str, str], None]:
    return lambda on, text: run_on(lab, on, text)


def run_on(lab: Lab, on: str, text: str) -> None:
    """Run T-SQL on an instance, with the parts in braces carried out or filled in."""
    instance = next(one for one in lab.instances if one.name == on)
    for word, action in _actions(lab, instance).items():
        if word in text:
            text = text.replace(word, "")
            action()
    port, guid = lab.target.broker_port, str(lab.identities[0]["service_broker_guid"])
    text = text.replace("{port}", str(instance.broker_port)).replace("{free}", str(port + 1))
    text = text.replace("{guid}", guid).replace("{address}", lab.target.broker_address)
    if not text.strip():
        return
    connection = instance.connect()
    try:
        scripts.execute(connection, text)
    finally:
        connection.close()


def _actions(lab: Lab, instance: Instance) -> dict[str, Callable[[], None]]:
    def script(path: str) -> Callable[[], None]:
        def run() -> None:
            connection = instance.connect()
            scripts.run(connection, path, lab.variables | instance.variables)
            connection.close()

        return run

    paths = ("workloads/paper/receive_procedure.sql", "initiator/service.sql")
    linking = {"{link}": lambda: link.link(lab), "{route}": lambda: link.relink(lab)}
    return linking | {f"{{{path}}}": script(path) for path in paths}


@pytest.mark.parametrize("breakage", one_of_each(BREAKAGES, lambda breakage: str(breakage.found)), ids=str)
def test_a_fault_is_found_and_nothing_else(lab, run, breakage):
    run(breakage.on, breakage.spoil)
    try:
        findings = doctor.configuration(lab, asked(lab))
        assert ills(findings) == breakage.found
        lines = [str(finding) for finding in findings if finding.severity != "information"]
        assert any(breakage.words in line for line in lines), lines
    finally:
        mend(run, breakage)
    assert ills(doctor.configuration(lab, asked(lab))) == []


def mend(run: Callable[[str, str], None], breakage: Breakage) -> None:
    """Drop before a new link creates the object again; grant after its object exists."""
    text = breakage.mend
    if text.endswith("{link}"):
        run(breakage.on, text.removesuffix("{link}"))
        text = "{link}"
    run(breakage.on, text)


@pytest.mark.parametrize(
    ("days", "severity"), [(-1, "error"), (1, "error"), (2, "warning"), (29, "warning"), (30, None), (300, None)]
)
def test_a_certificate_that_ends_soon_is_told_and_one_that_may_end_in_a_run_is_an_error(days, severity):
    side = SimpleNamespace(error=lambda *words: ("error", *words), warning=lambda *words: ("warning", *words))
    row = {"certificate_name": "c", "expiry_date": "2027-01-01", "days_left": days}
    findings = list(end_of_validity(side, row, "endpoint certificate", "the certificate"))
    assert [finding[0] for finding in findings] == ([] if severity is None else [severity])
    assert all("the certificate c expires on 2027-01-01 UTC" in finding[2] for finding in findings)


def test_the_certificates_of_a_lab_are_examined_for_their_end(lab, monkeypatch):
    monkeypatch.setattr(transport, "EXPIRY_DAYS_WARNING", 10_000_000)
    checks = ills(doctor.configuration(lab, asked(lab)))
    names = [instance.name for instance in lab.instances]
    assert sorted(checks) == sorted(
        [("warning", name, check) for name in names for check in ("dialog certificate", "endpoint certificate")]
    )
