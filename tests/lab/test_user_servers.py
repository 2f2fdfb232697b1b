"""A user's own servers, represented by embedded ones: opening, refusing, removing; objects of others are left alone."""

import re
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyodbc
import pytest

from harness.definitions.lab_kinds import SERVERS
from harness.failures import Declined, MachineFailure, UsageFailure
from harness.files import lab_file
from harness.lab import (
    brakes,
    dialog_pool,
    drivers,
    interruption,
    ledger,
    link,
    opening,
    script_files,
    scripts,
    user_servers,
)
from harness.lab.brakes import Overload
from harness.lab.instances import Instance, Lab, LabError, Login, Security, connections
from harness.lab.opening import Topology
from tests.stand_ins.own_servers import PASSWORD, OwnServers, Server, output_until, running_servers
from tests.thorough import one_of_each
from tests.waiting import wait_until

pytestmark = pytest.mark.process

ROLES = ("target", "initiator-1", "initiator-2")
# What others have on these servers, and what has to be there afterwards as it was.
OTHERS = (
    "CREATE DATABASE payroll;",
    "CREATE LOGIN ssbh_somebody WITH PASSWORD = 'Str0ng, but not ours';",
    "USE master; CREATE USER ssbh_somebody FOR LOGIN ssbh_somebody;",
)


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[Server]]:
    with running_servers(tmp_path_factory.mktemp("servers"), ROLES) as servers:
        for server in servers:
            server.run(*OTHERS)
        yield servers


@pytest.fixture
def own(running: list[Server], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[OwnServers]:
    """The servers as they are without the harness, before and after each test."""
    monkeypatch.setenv("HARNESS_PASSWORD", PASSWORD)
    own = OwnServers(tmp_path, running)
    before = own.contents()
    yield own
    assert own.contents() == before


class Teller(list[str]):
    def __call__(self, text: str) -> None:
        assert "\n" not in text
        self.append(text)


def opened(
    own: OwnServers,
    tell: Callable[[str], None] = print,
    *,
    initiators: int = 2,
    confirm: Callable[[str], bool] = lambda question: True,
    is_patient: bool = True,
    **keys: Any,
) -> Any:
    file = lab_file.read(own.lab_file(**keys))
    return opening.open(
        Topology(SERVERS, file, Security()),
        version=file.version,
        initiators=initiators,
        tell=tell,
        confirm=confirm,
        is_patient=is_patient,
        directory=own.folder,
    )


def clean(own: OwnServers, *, answer: bool = True, **keys: Any) -> list[str]:
    tell = Teller()
    file = lab_file.read(own.lab_file(**keys))
    user_servers.clean(file, driver=drivers.choose(), tell=tell, confirm=lambda question: answer)
    return tell


def created(before: list[dict[str, list[str]]], after: list[dict[str, list[str]]]) -> list[tuple[str, str]]:
    """What exists after and not before, by role."""
    return [
        (role, name)
        for role, one, other in zip(ROLES, before, after, strict=True)
        for place in one
        for name in sorted(set(other[place]) - set(one[place]))
    ]


def ledger_of(instance: Instance) -> set[str]:
    with connections([instance], "master") as (connection,):
        return {row["name"] for row in scripts.rows(connection, "server/listed.sql", {"Database": instance.database})}


def send_one(lab: Lab) -> None:
    dialog_pool.build(lab, initiators=len(lab.initiators), dialogs=2)
    with connections(lab.initiators) as clients, connections([lab.target]) as (target,):
        handle = dialog_pool.used(clients, 2, 1)[-1][0]
        client = pyodbc.connect(lab.initiators[-1].client_connection_string(), autocommit=True)
        client.execute("{CALL dbo.SendMessage (?, ?)}", handle, b"x" * 100)
        client.close()
        dialog_pool.wait_until_drained(lab, lab.initiators, clients, target, expected=1, timeout_s=120)
        assert dialog_pool.processed(target) == 1


# -- opening and cleaning ----------------------------------------------------------------------------------------------


def test_nothing_is_created_where_the_user_says_no(own: OwnServers) -> None:
    before, tell, questions = own.contents(), Teller(), []

    def refuse(question: str) -> bool:
        questions.append(question)
        return False

    with pytest.raises(Declined, match="nothing was created on the servers"), opened(own, tell, confirm=refuse):
        pytest.fail("the lab opened")
    assert questions == ["Create this?"] and tell[-1] == "harness lab clean removes all of this"
    assert own.contents() == before


def test_a_run_ends_where_a_server_can_take_no_more(own: OwnServers, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(brakes, "LOOK_EVERY_S", 0.05)
    monkeypatch.setattr(brakes, "FREE_PERCENT_MIN", 101)

    with pytest.raises(Overload, match="of the disk of its data files is free"), opened(own, is_patient=False):
        wait_until(interruption.look)
    clean(own)


def test_scripts_leave_a_master_key_that_others_have_made(own: OwnServers) -> None:
    file, folder = lab_file.read(own.lab_file()), own.folder / "scripts"
    planned = user_servers.lab_of(file, initiators=2, directory=folder, driver=drivers.choose(), signs_in=False)
    script_files.write(planned, folder)
    server = own.servers[0]
    server.run("USE master; CREATE MASTER KEY ENCRYPTION BY PASSWORD = N'Str0ng of others';")
    try:
        before = server.contents()
        for step in ("1-target-create", "3-target-remove"):
            with server.connection() as connection:
                scripts.run(connection, folder / f"{step}.sql", SECRETS_OF_SCRIPTS)
        assert server.contents() == before
    finally:
        server.run("USE master; DROP MASTER KEY;")


SECRETS_OF_SCRIPTS = {name: f"Str0ng {name}" for name in ("MasterKeyPassword", "ClientPassword", "LoginPassword")}


def test_a_lab_that_an_administrator_has_created_by_script_needs_no_right_outside_its_databases(
    own: OwnServers, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = own.lab_file()
    file, folder = lab_file.read(path), own.folder / "scripts"
    planned = user_servers.lab_of(file, initiators=2, directory=folder, driver=drivers.choose(), signs_in=False)
    script_files.write(planned, folder)
    values = dict(SECRETS_OF_SCRIPTS)

    def execute(step: str) -> None:
        for server in own.servers:
            [script] = folder.glob(f"{step}-{server.role}-*.sql")
            with server.connection() as connection:
                scripts.run(connection, script, values)

    try:
        execute("1")
        for server, instance in zip(own.servers, planned.instances, strict=True):
            name = link.local_name(instance)
            with server.connection(instance.database) as connection:
                [identity] = scripts.rows(connection, "observe/instance.sql", {})
                values[f"{name}BrokerInstance"] = str(identity["service_broker_guid"])
                exported = {"LocalName": name, "Prefix": "ssbh_", "Database": instance.database}
                for kind in ("endpoint", "dialog"):
                    binary = link.export_certificate(connection, kind, exported)
                    values[f"{name}{kind.capitalize()}Certificate"] = f"0x{binary.hex()}"
                connection.execute("USE master; CREATE LOGIN bench WITH PASSWORD = N'Str0ng of bench';")
                connection.execute("USE master; GRANT VIEW SERVER STATE TO bench;")
                connection.execute(f"USE [{instance.database}]; CREATE USER bench FOR LOGIN bench;")
                connection.execute("ALTER ROLE db_owner ADD MEMBER bench;")
        execute("2")
        path.write_text(path.read_text().replace("prefix", "by_script = true\nprefix", 1).replace('"sa"', '"bench"'))
        monkeypatch.setenv("HARNESS_PASSWORD", "Str0ng of bench")
        monkeypatch.setenv("HARNESS_CLIENT_PASSWORD", values["ClientPassword"])
        topology, before = Topology(SERVERS, lab_file.read(path), Security()), own.contents()
        for _ in range(2):  # the second time with conversations of the first
            with opening.open(topology, version="2022", initiators=2, directory=own.folder) as lab:
                send_one(lab)
        assert own.contents() == before
        monkeypatch.delenv("HARNESS_CLIENT_PASSWORD")
        with (
            pytest.raises(UsageFailure, match="set HARNESS_CLIENT_PASSWORD in the environment"),
            opening.open(topology, version="2022", initiators=2),
        ):
            pytest.fail("the lab opened")
    finally:
        execute("3")
        for server in own.servers:
            server.run("DROP LOGIN bench;")


def test_everything_created_is_announced_listed_in_the_ledger_and_removed_by_clean(own: OwnServers) -> None:
    before = own.contents()
    told_before_creation = Teller()
    with opened(own, told_before_creation) as lab:
        printed = list(told_before_creation)
        assert (lab.kind, lab.prefix) == (SERVERS, "ssbh_")
        new = created(before, own.contents())
        listed = {instance.name: ledger_of(instance) for instance in lab.instances}
        for role, name in new:
            assert name in listed[role], (role, name)
            line = next(line for line in printed if line.startswith(f"on {role} "))
            assert name in line or (name == ledger.MASTER_KEY and "the master key of master" in line)
        assert sorted(name for _, name in new) == sorted(
            name for names in listed.values() for name in names for _ in range(1 + name.startswith("ssbh_User_"))
        ), "nothing is listed that is not there (a login and its user have one name)"
        assert all(name.startswith("ssbh_") for _, name in new if name != ledger.MASTER_KEY), (
            "everything bears the prefix"
        )
        assert "harness lab clean removes all of this" in printed
        send_one(lab)
    assert created(before, own.contents()) == new, "a closed lab stays, to be looked at"
    shown = clean(own)
    for role, name in new:
        assert any(line.startswith((f"{role} (", f"{role}: removed")) and name in line for line in shown) or (
            name == ledger.MASTER_KEY
        )
    assert own.contents() == before


def test_a_certificate_that_nobody_vouches_for_is_refused_with_what_to_set(own: OwnServers) -> None:
    own.lab_file(target_trust_server_certificate=None)
    for driver, words in (
        ("auto", r"self-signed certificate\]: give the server a certificate that this machine can verify, or trust it"),
        ("freetds", r"FreeTDS verifies no certificate"),
    ):
        done = own.harness("doctor", "--lab-file", "lab.toml", "--initiators", "2", "--driver", driver)
        assert (done.code, done.err.count("\n")) == (3, 1)
        assert re.search(rf"{words}.*trust_server_certificate = true", done.err), done.err


def test_clean_asks_first_and_can_be_repeated(own: OwnServers) -> None:
    with opened(own, initiators=1):
        pass
    there = own.contents()
    assert clean(own, answer=False)[-1] == "nothing was removed"
    assert own.contents() == there
    clean(own)
    assert all("nothing to remove" in line for line in clean(own))


def test_an_opening_first_removes_what_the_previous_one_left(own: OwnServers) -> None:
    with opened(own, initiators=2) as lab:
        send_one(lab)
    tell = Teller()
    with opened(own, tell, initiators=1) as lab:
        assert "target: removing what an earlier opening left" in tell
        with connections([lab.target]) as (target,):
            assert dialog_pool.processed(target) == 0
        assert "ssbh_User_Initiator2" not in ledger_of(lab.target)
        send_one(lab)
    clean(own)


def test_a_master_key_is_kept_if_it_existed_before_or_others_need_it(own: OwnServers) -> None:
    target, initiator, _ = own.servers
    target.run("USE master; CREATE MASTER KEY ENCRYPTION BY PASSWORD = 'others';")
    with opened(own, initiators=1) as lab:
        assert ledger.MASTER_KEY not in ledger_of(lab.target)
        assert ledger.MASTER_KEY in ledger_of(lab.initiators[0])
        initiator.run("USE master; CREATE CERTIFICATE theirs WITH SUBJECT = 'theirs';")
    printed = clean(own)
    assert "initiator-1: kept the master key of master, which theirs needs" in printed
    for server in (target, initiator):
        assert server.contents()["keys of master"] == [ledger.MASTER_KEY]
    target.run("USE master; DROP MASTER KEY;")
    initiator.run("USE master; DROP CERTIFICATE theirs; DROP MASTER KEY;")


def test_a_prepared_database_is_emptied_and_keeps_its_mark(own: OwnServers) -> None:
    target = own.servers[0]
    mark = "EXEC sys.sp_addextendedproperty @name = N'service_broker_harness', @value = N'prepared';"
    target.run("CREATE DATABASE ssbh_SSBTarget;", f"USE ssbh_SSBTarget; {mark}")
    names = """
        SELECT name FROM sys.objects WHERE is_ms_shipped = 0
        UNION ALL SELECT name FROM sys.services WHERE service_id >= 65536
        UNION ALL SELECT name FROM sys.certificates
        UNION ALL SELECT name FROM sys.routes
        UNION ALL SELECT name FROM sys.database_principals
        UNION ALL SELECT name FROM sys.symmetric_keys;
    """
    with target.connection("ssbh_SSBTarget") as connection:
        empty = connection.execute(names).fetchall()
    tell = Teller()
    with opened(own, tell) as lab:
        assert any("everything in ssbh_SSBTarget" in line for line in tell)
        assert "ssbh_SSBTarget" not in ledger_of(lab.target)
        send_one(lab)
    assert "target: emptied the database ssbh_SSBTarget, which an administrator prepared" in clean(own)
    with target.connection("ssbh_SSBTarget") as connection:
        assert connection.execute(names).fetchall() == empty
    assert any("prepared and empty" in line for line in clean(own))
    with opened(own, initiators=1):
        pass
    clean(own)
    target.run("USE master; DROP DATABASE ssbh_SSBTarget;")


# -- refusals ----------------------------------------------------------------------------------------------------------

ENDPOINT = "USE master; CREATE ENDPOINT {} AS TCP (LISTENER_PORT = 4999) FOR SERVICE_BROKER (AUTHENTICATION = WINDOWS);"
REFUSALS = {
    "foreign database": (
        "CREATE DATABASE ssbh_SSBInitiator1;",
        "USE master; DROP DATABASE ssbh_SSBInitiator1;",
        r"the database ssbh_SSBInitiator1 exists and does not carry the harness's mark: .*\(lab.toml, line 9\)",
    ),
    "foreign endpoint": (
        ENDPOINT.format("theirs"),
        "DROP ENDPOINT theirs;",
        "the endpoint theirs already serves Service Broker, and an instance can have only one",
    ),
    "foreign endpoint of our name": (
        ENDPOINT.format("ssbh_Endpoint_SRPerf_1"),
        "DROP ENDPOINT ssbh_Endpoint_SRPerf_1;",
        r"the endpoint ssbh_Endpoint_SRPerf_1 exists and is in no ledger of the harness: .* \(lab.toml, line 2\)",
    ),
    "foreign login": (
        "CREATE LOGIN SSBH_user_target WITH PASSWORD = 'Str0ng, but not ours';",
        "DROP LOGIN SSBH_user_target;",
        r"the login ssbh_User_Target exists and is in no ledger of the harness: .* DROP LOGIN \[ssbh_User_Target\];",
    ),
    "foreign user": (
        "USE master; CREATE USER ssbh_User_Target FOR LOGIN ssbh_somebody;",
        "USE master; DROP USER ssbh_User_Target;",
        r"the user ssbh_User_Target exists .* USE \[master\]; DROP USER \[ssbh_User_Target\];",
    ),
    "foreign certificate": (
        "USE master; CREATE CERTIFICATE ssbh_Target_Endpoint ENCRYPTION BY PASSWORD = 'x' WITH SUBJECT = 'x';",
        "USE master; DROP CERTIFICATE ssbh_Target_Endpoint;",
        "the certificate ssbh_Target_Endpoint exists and is in no ledger of the harness",
    ),
}


def refused(own: OwnServers, **keys: Any) -> str:
    """The error with which an opening ends; nothing was created."""
    before, tell = own.contents(), Teller()
    with pytest.raises((MachineFailure, UsageFailure)) as caught, opened(own, tell, **keys):
        pass
    assert own.contents() == before
    assert not any("will be created" in line for line in tell)
    message = str(caught.value)
    assert "\n" not in message and PASSWORD not in message
    return message


@pytest.mark.parametrize(("made", "undone", "line"), REFUSALS.values(), ids=REFUSALS)
def test_objects_of_others_are_named_in_one_line_and_left_alone(
    own: OwnServers, made: str, undone: str, line: str
) -> None:
    server = own.servers[1]
    server.run(made)
    before = server.contents()
    try:
        message = refused(own)
        assert message.startswith(f"initiator-1 (127.0.0.1:{server.port}): ")
        assert re.search(line, message), message
        clean(own)
        assert server.contents() == before
    finally:
        server.run(undone)


def test_two_refusals_are_counted_in_one_line(own: OwnServers) -> None:
    for server in own.servers[1:]:
        server.run(ENDPOINT.format("theirs"))
    assert refused(own).endswith("(and 1 more like it)")
    for server in own.servers[1:]:
        server.run("DROP ENDPOINT theirs;")


def test_a_server_of_another_version_is_refused(own: OwnServers) -> None:
    message = refused(own, version="2019")
    assert "is SQL Server 2022 (16.0." in message
    assert message.endswith("lab.toml, line 1 says 2019: correct the version, or use another server")


def test_sql_server_2016_needs_its_first_service_pack(own: OwnServers, monkeypatch: pytest.MonkeyPatch) -> None:
    rows, numbers = scripts.rows, iter(["13.0.4001.0", "13.0.1601.5", "13.0.4001.0"])

    def older(connection: pyodbc.Connection, path: str, variables: dict[str, str]) -> list[dict[str, Any]]:
        of_2016 = {"product_version": next(numbers)} if path == "server/identity.sql" else {}
        return [row | of_2016 for row in rows(connection, path, variables)]

    monkeypatch.setattr(user_servers.scripts, "rows", older)
    message = refused(own, version="2016")
    assert message.endswith("is SQL Server 2016 (13.0.1601.5): install Service Pack 1 or a later one")


def test_a_missing_password_is_named_with_its_variable(own: OwnServers, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("HARNESS_PASSWORD")
    monkeypatch.setattr(user_servers, "_asked", {})
    monkeypatch.setenv("HARNESS_PASSWORD_TARGET", PASSWORD)
    message = refused(own)
    assert "no password for sa: set HARNESS_PASSWORD_INITIATOR_1, or HARNESS_PASSWORD for all servers" in message


def test_at_a_terminal_the_password_is_asked_for_once(own: OwnServers, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("HARNESS_PASSWORD")
    monkeypatch.setattr(user_servers, "_asked", {})
    questions: list[str] = []

    def ask(question: str) -> str:
        questions.append(question)
        return PASSWORD

    monkeypatch.setattr("getpass.getpass", ask)
    monkeypatch.setattr("sys.stdin", type("Terminal", (), {"isatty": lambda self: True})())
    file = lab_file.read(own.lab_file())
    for _ in range(2):
        assert user_servers.password_for(file.target) == PASSWORD
    assert questions == [f"Password of sa on target (127.0.0.1:{own.servers[0].port}): "]
    assert PASSWORD not in repr(user_servers.password_for(file.target))


def test_a_wrong_password_and_a_closed_port_are_refused(own: OwnServers, monkeypatch: pytest.MonkeyPatch) -> None:
    assert "nothing listens there" in refused(
        own, initiator_2_port=own.servers[2].broker_port, initiator_2_broker_port=4022
    )
    monkeypatch.setenv("HARNESS_PASSWORD_INITIATOR_2", "wrong")
    assert refused(own).startswith(f"initiator-2 (127.0.0.1:{own.servers[2].port}): Login failed for user 'sa'.")


def test_more_initiators_than_the_lab_file_names_are_refused(own: OwnServers) -> None:
    assert "3 initiators are needed and lab.toml, line 9 names 2" in refused(own, initiators=3)


def test_two_names_of_one_instance_are_refused(own: OwnServers, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = scripts.rows

    def same_server(connection: Any, path: Any, variables: Any) -> Any:
        found = rows(connection, path, variables)
        if path == "server/identity.sql":
            found[0] |= {"server_name": "ONE", "process_id": 4711}
        return found

    monkeypatch.setattr(scripts, "rows", same_server)
    assert "are one instance (ONE): give each side its own" in refused(own)


def test_a_database_that_another_run_uses_is_left_alone(own: OwnServers, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ledger, "_SESSIONS_END_WITHIN_S", 0.5)
    with opened(own, initiators=1) as lab, connections([lab.target]):
        line = r"a run of the harness on .* uses the database ssbh_SSBTarget \(session"
        with pytest.raises(LabError, match=line), opened(own, initiators=1):
            pass
        with pytest.raises(LabError, match="uses the database ssbh_SSBTarget"):
            clean(own)
        assert ledger_of(lab.target)
    clean(own)


# -- failures in the middle --------------------------------------------------------------------------------------------


def test_an_opening_that_fails_while_linking_leaves_nothing(own: OwnServers, monkeypatch: pytest.MonkeyPatch) -> None:
    before, really = own.contents(), link.link

    def fail(lab: Lab) -> None:
        really(lab)
        raise LabError("in the middle")

    monkeypatch.setattr(link, "link", fail)
    with pytest.raises(LabError, match="in the middle"), opened(own):
        pass
    assert own.contents() == before


def test_a_database_that_was_not_marked_yet_is_removed_too(own: OwnServers, monkeypatch: pytest.MonkeyPatch) -> None:
    before, really = own.contents(), ledger.begin

    def fail(instance: Instance, connection: Any, *rest: Any) -> None:
        if instance.name == "initiator-1":
            scripts.execute(connection, f"CREATE DATABASE [{instance.database}];")
            raise LabError("in the middle")
        really(instance, connection, *rest)

    monkeypatch.setattr(ledger, "begin", fail)
    with pytest.raises(LabError, match="in the middle"), opened(own):
        pass
    assert own.contents() == before


def test_clean_continues_where_a_killed_one_stopped(own: OwnServers) -> None:
    before = own.contents()
    with opened(own):
        pass
    path = str(own.lab_file())
    for word in ("removed the endpoint", "removed the user", "removed the login", "removed the database"):
        with own.begin("lab", "clean", "--lab-file", path, "--yes") as process:
            output_until(process, word)
            process.send_signal(signal.SIGKILL)
    clean(own)
    assert own.contents() == before


def test_clean_removes_what_a_killed_opening_has_created(own: OwnServers) -> None:
    before = own.contents()
    path = str(own.lab_file())
    with own.begin("lab", "open", "--lab-file", path) as process:
        deadline = time.monotonic() + 120
        while own.servers[0].contents()["endpoints"] == before[0]["endpoints"]:
            assert time.monotonic() < deadline and process.poll() is None
        process.send_signal(signal.SIGKILL)
    assert own.contents() != before
    clean(own)
    assert own.contents() == before


def test_clean_lists_what_no_ledger_lists_if_a_database_was_dropped(own: OwnServers) -> None:
    with opened(own, initiators=1):
        pass
    own.servers[1].run("USE master; DROP DATABASE ssbh_SSBInitiator1;")
    there = own.servers[1].contents()
    line = next(line for line in clean(own) if line.startswith("initiator-1"))
    assert "no database ssbh_SSBInitiator1, so no ledger and nothing to remove; left alone" in line
    assert own.servers[1].contents() == there
    statements = line.partition("no ledger lists it: ")[2]
    for kind in ("ENDPOINT", "CERTIFICATE", "USER", "LOGIN"):  # what a person would run, in an order that works
        for statement in statements.split("; "):
            if f"DROP {kind}" in statement and "somebody" not in statement:
                own.servers[1].run(f"USE master; {statement}")
    own.servers[1].run("USE master; DROP MASTER KEY;")


def test_clean_cleans_the_other_servers_and_names_the_one_out_of_reach(own: OwnServers) -> None:
    with opened(own, initiators=2):
        pass
    with pytest.raises(
        LabError, match=r"not everything could be removed: initiator-1 \(127.0.0.1:\d+\): nothing listens"
    ):
        clean(own, initiator_1_port=own.servers[1].broker_port + 1)
    assert "ssbh_SSBTarget" not in own.servers[0].contents()["databases"]
    clean(own)


# -- a login without sysadmin -----------------------------------------------------------------------------------------


@pytest.fixture
def harness_login(own: OwnServers) -> Iterator[str]:
    for server in own.servers:
        server.run(f"CREATE LOGIN harness WITH PASSWORD = '{PASSWORD}';")
    own.user = "harness"
    yield "harness"
    for server in own.servers:
        server.run("USE master; IF USER_ID(N'harness') IS NOT NULL DROP USER harness;", "DROP LOGIN harness;")


def grant(server: Server, path: str, **variables: str) -> None:
    with server.connection() as connection:
        scripts.run(connection, path, {"Login": "harness", **variables})


def test_the_minimal_rights_suffice(own: OwnServers, harness_login: str) -> None:
    for server in own.servers:
        grant(server, "server/minimal_rights.sql")
    tell = Teller()
    with opened(own, tell) as lab:
        assert lab.target.login == Login("harness", drivers.Secret(PASSWORD))
        assert "target: without sysadmin, the run does not include the pages of the dialogs" in " ".join(tell)
        send_one(lab)
    clean(own)


def test_with_a_prepared_database_no_right_to_create_databases_is_needed(own: OwnServers, harness_login: str) -> None:
    for server, name in zip(own.servers, ("Target", "Initiator1", "Initiator2"), strict=True):
        grant(server, "server/prepare_database.sql", Database=f"ssbh_SSB{name}")
        grant(server, "server/minimal_rights.sql")
        server.run("USE master; REVOKE CREATE ANY DATABASE FROM harness;")
    with opened(own) as lab:
        send_one(lab)
    clean(own)
    for server, name in zip(own.servers, ("Target", "Initiator1", "Initiator2"), strict=True):
        assert f"ssbh_SSB{name}" in server.contents()["databases"]
        server.run(f"USE master; DROP DATABASE ssbh_SSB{name};")


RIGHTS = ("CREATE ANY DATABASE", "ALTER ANY LOGIN", "CREATE ENDPOINT", "VIEW ANY DEFINITION", "VIEW SERVER STATE")


@pytest.mark.parametrize("right", one_of_each([*RIGHTS, "CONTROL"], lambda right: right == "CONTROL"))
def test_a_missing_right_is_named_with_the_statement_that_grants_it(
    own: OwnServers, harness_login: str, right: str
) -> None:
    for server in own.servers:
        grant(server, "server/minimal_rights.sql")
    on = " ON DATABASE::[master]" if right == "CONTROL" else ""
    own.servers[1].run(f"USE master; REVOKE {right}{on} FROM harness;")
    message = refused(own)
    assert message.startswith(f"initiator-1 (127.0.0.1:{own.servers[1].port}): harness lacks {right}")
    remedy = message.partition("USE [master]; ")[2]
    assert remedy == f"GRANT {right}{on} TO [harness];"
    own.servers[1].run(f"USE master; {remedy}")
    with opened(own):
        pass
    clean(own)


def test_a_login_without_any_right_sees_all_it_lacks_in_one_line(own: OwnServers, harness_login: str) -> None:
    message = refused(own)
    assert "target" in message and "harness lacks CREATE ANY DATABASE" in message
    assert message.endswith("VIEW SERVER STATE; sql/server/minimal_rights.sql grants all")
