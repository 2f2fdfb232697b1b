"""Failures of a user's own servers, rehearsed: each gives one line that names server, step and remedy, and a clean lab.

The servers are embedded ones that misbehave on demand (`tests/stand_ins/faulty_server.py`); everything goes through the
command line, as it would for a user. Commands that no signal ends run in this process.
"""

import itertools
import json
import signal
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from harness.files.journal import Entry, read
from harness.files.script_text import ScriptError
from harness.lab import drivers, instances, link, scripts
from harness.lab.drivers import Secret
from harness.lab.error_remedies import REMEDIES
from tests.commands import CommandResult
from tests.processes import free_port
from tests.stand_ins.own_servers import PASSWORD, OwnServers, Server, output_until, running_servers
from tests.thorough import one_of_each

pytestmark = [pytest.mark.process, pytest.mark.usefixtures("warm_clients")]

SIDES = ("target", "initiator-1")
LAB = ("--lab-file", "lab.toml")
OPEN = ("lab", "open", *LAB)
TIMES = ("--measure", "300ms", "--settle", "200ms", "--drain", "5s", "--rate", "100/s")
CELL, OTHER_CELL = "i1-t2-r1-p100-v2022", "i1-t1-r1-p100-v2022"
RUN = ("run", CELL, *LAB, *TIMES)


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Server]]:
    with running_servers(tmp_path_factory.mktemp("servers"), SIDES) as servers:
        yield {server.role: server for server in servers}


@pytest.fixture
def own(running: dict[str, Server], tmp_path: Path) -> Iterator[OwnServers]:
    """The servers, healthy before and after each test: the harness has left nothing on them."""
    own = OwnServers(tmp_path, list(running.values()))
    own.lab_file()
    before = own.contents()
    yield own
    heal(own)
    after = own.contents()
    if after != before:
        own.harness("lab", "clean", *LAB, "--yes")
    assert after == before


def heal(own: OwnServers) -> None:
    """Remove the faults and restart the servers that died."""
    for server in own.servers:
        if server.is_running:
            server.plant()
        else:
            server.stop()
            server.start()


def clean_as_advised(own: OwnServers, printed: CommandResult) -> None:
    """Remove what an opening could not remove, with the command that it named."""
    heal(own)
    if "remove it with harness lab clean" in printed.out:
        cleaned = own.harness("lab", "clean", *LAB, "--yes")
        assert cleaned.code == 0, cleaned


def entries(own: OwnServers) -> list[Entry]:
    [journal] = own.folder.glob("results/*/journal.jsonl")
    return list(read(journal))


def verb_of(fault: str) -> str:
    """What the server does: refuse a statement, close its connection, end."""
    return fault.partition(":")[0]


# -- nothing has been created ------------------------------------------------------------------------------------------

REFUSALS = {
    "login=18456/sa": f"Login failed for user 'sa'. (error 18456): {REMEDIES[18456]}",
    "login=18470/sa": "Login failed for user 'sa'. Reason: The account is disabled. (error 18470): ALTER LOGIN",
    "login=18401/sa": f"Only administrator can connect at this time. (error 18401): {REMEDIES[18401]}",
    "login=4064": "Cannot open user default database. Login failed. (error 4064): ALTER LOGIN",
    "close-port": "whatever listens there closes the connection: check that it is SQL Server and that it is healthy",
}


@pytest.mark.parametrize("fault, side", list(zip(REFUSALS, itertools.cycle(SIDES))))
def test_a_server_that_refuses_every_login_is_reported(
    fault: str, side: str, running: dict[str, Server], own: OwnServers
) -> None:
    running[side].plant(fault)
    printed = own.harness(*OPEN)
    assert printed.code == 3
    assert printed.line.startswith(f"{side} (127.0.0.1:{running[side].port})")
    assert REFUSALS[fault] in printed.line


def test_a_missing_server_is_reported_at_once(own: OwnServers) -> None:
    own.lab_file(target_port=1)
    printed = own.harness(*OPEN)
    assert (printed.code, printed.line) == (
        3,
        "target (127.0.0.1:1): nothing listens there: start the server, or check host and port",
    )
    own.lab_file(initiator_1_host="no-such-host.invalid", initiator_1_broker_host="127.0.0.1")
    printed = own.harness(*OPEN)
    assert printed.code == 3
    assert printed.line.endswith(
        ":" + f"{own.servers[1].port}): the host no-such-host.invalid is unknown: check its name"
    )


@pytest.mark.parametrize("side", one_of_each(SIDES))
def test_a_server_of_another_version_or_that_starts_slowly_is_reported(
    side: str, own: OwnServers, tmp_path: Path
) -> None:
    others = [server for server in own.servers if server.role != side]
    other = Server(side, tmp_path.parent / f"{tmp_path.name}-{side}", version="2019")
    stranger = OwnServers(tmp_path, [other, *others] if side == "target" else [*others, other])
    stranger.lab_file()
    try:
        other.start("slow-start=3", wait=False)
        printed = stranger.harness(*OPEN)
        assert (printed.code, printed.line) == (
            3,
            f"{side} (127.0.0.1:{other.port}): nothing listens there: start the server, or check host and port",
        )
        other.wait_until_ready()
        printed = stranger.harness(*OPEN)
        assert printed.code == 3
        assert printed.line.startswith(f"{side} (127.0.0.1:{other.port}) is SQL Server 2019 (15.")
        assert printed.line.endswith("lab.toml, line 1 says 2022: correct the version, or use another server")
    finally:
        other.stop()


# -- in the middle of opening ------------------------------------------------------------------------------------------

# What fails, and what its line has to hold beside the server's name. The paths name the step.
STEPS = {
    "statement:CREATE DATABASE=262/CREATE DATABASE/master": "CREATE DATABASE permission denied in database 'master'.",
    "statement:ALTER DATABASE=5061/ssbh_SSBTarget,5069": REMEDIES[5061],
    "statement:ALTER DATABASE=5011/ssbh_SSBTarget,5069": REMEDIES[5011],
    "statement:CREATE TABLE=1105/dbo.x//ssbh_SSBTarget/PRIMARY": REMEDIES[1105],
    "statement:CREATE QUEUE=262/CREATE QUEUE/ssbh": "CREATE QUEUE permission denied",
    "statement:CREATE MASTER KEY=15247": f"link/master_key.sql, {REMEDIES[15247]}",
    "statement:CREATE CERTIFICATE=15581": f"link/endpoint_certificate.sql, {REMEDIES[15581]}",
    "statement:CREATE CERTIFICATE .* FROM BINARY=15297": f"link/import_endpoint_certificate.sql, {REMEDIES[15297]}",
    "statement:CREATE ENDPOINT=15247": f"link/endpoint.sql, {REMEDIES[15247]}",
    "statement:CREATE ENDPOINT=7862": f"link/endpoint.sql, {REMEDIES[7862]}",
    "statement:CREATE LOGIN=15247": f"_login.sql, {REMEDIES[15247]}",
    "statement:GRANT CONNECT ON ENDPOINT=15151/find/endpoint/ssbh": f"link/grant_connect.sql, {REMEDIES[15151]}",
    "statement:CREATE ROUTE=9002/ssbh": f"link/route.sql, {REMEDIES[9002]}",
    "drop:CREATE QUEUE": "queue.sql, the server closed the connection",
}


@pytest.mark.parametrize(
    "fault, side", one_of_each(zip(STEPS, itertools.cycle(SIDES)), lambda case: (verb_of(case[0]), case[1]))
)
def test_a_step_that_fails_is_reported_and_leaves_nothing(
    fault: str, side: str, running: dict[str, Server], own: OwnServers
) -> None:
    running[side].plant(fault)
    printed = own.harness(*OPEN)
    assert printed.code == 3
    assert printed.line.startswith(side)
    for part in STEPS[fault].split(", "):
        assert part in printed.line
    clean_as_advised(own, printed)


def test_a_port_in_use_is_reported_before_anything_is_created(own: OwnServers) -> None:
    for server in own.servers:
        with socket.create_server(("127.0.0.1", server.broker_port)):
            printed = own.harness("doctor", "--first-run", *LAB)
        assert printed.code == 3
        assert "step 1 differs" not in printed.out and "step 2 differs: see section 5" in printed.out
        assert printed.line.startswith(f"{server.role} (127.0.0.1:{server.port}): something already listens on port ")
        assert "will be created" not in printed.out


@pytest.mark.parametrize("side", one_of_each(SIDES))
def test_clean_removes_what_a_server_that_died_during_the_opening_left(
    side: str, running: dict[str, Server], own: OwnServers
) -> None:
    running[side].plant("die:CREATE ENDPOINT")
    printed = own.harness(*OPEN)
    assert printed.code == 3
    assert printed.line.startswith(side)
    assert "the server closed the connection" in printed.line
    assert "remove it with harness lab clean" in printed.out
    clean_as_advised(own, printed)


@pytest.mark.parametrize("errors, remedy", [("5061/ssbh,5069", REMEDIES[5061]), ("9775/ssbh", REMEDIES[9775])])
def test_a_broker_that_cannot_be_turned_on_is_reported(
    errors: str, remedy: str, running: dict[str, Server], own: OwnServers
) -> None:
    """A database that an administrator prepared, for example from a backup: its broker is off."""
    target = running["target"]
    mark = "EXECUTE sys.sp_addextendedproperty @name = N'service_broker_harness', @value = N'prepared';"
    target.run("CREATE DATABASE ssbh_SSBTarget;", "ALTER DATABASE ssbh_SSBTarget SET DISABLE_BROKER;")
    target.run(mark, database="ssbh_SSBTarget")
    try:
        target.plant(f"statement:ALTER DATABASE .* SET ENABLE_BROKER={errors}")
        printed = own.harness(*OPEN)
        assert printed.code == 3
        assert printed.line.startswith("target: common/database.sql, ") and remedy in printed.line
    finally:
        target.plant()
        target.run("DROP DATABASE ssbh_SSBTarget;")


def test_a_certificate_that_the_login_may_not_see_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scripts, "rows", lambda *_: [{"certificate_binary": None}])
    with pytest.raises(ScriptError, match="may not see the certificate: GRANT VIEW ANY DEFINITION"):
        link.export_certificate(None, "endpoint", {})


def instance_at(port: int) -> instances.Instance:
    login = instances.Login("sa", Secret(PASSWORD))
    return instances.Instance("target", "master", "127.0.0.1", port, 0, drivers.choose(), login)


def test_a_server_that_does_not_answer_is_reported_in_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(drivers, "LOGIN_TIMEOUT_S", 1)
    with (
        socket.create_server(("127.0.0.1", 0)) as mute,
        pytest.raises(instances.LabError, match="Login timeout expired: no SQL Server answers there"),
    ):
        instance_at(mute.getsockname()[1]).connect()


def test_a_statement_that_does_not_return_ends_in_time(
    running: dict[str, Server], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(instances, "STATEMENT_TIMEOUT_S", 1)
    target = running["target"]
    target.plant("hang:SELECT 1")
    with (
        instances.connections([instance_at(target.port)]) as (connection,),
        pytest.raises(ScriptError, match="something blocks the statement"),
    ):
        scripts.scalar(connection, "SELECT 1;")
    target.plant()


@pytest.mark.parametrize("statement", ["CREATE DATABASE", "CREATE ENDPOINT"])
def test_ctrl_c_ends_an_opening_that_a_server_holds_up(
    statement: str, running: dict[str, Server], own: OwnServers
) -> None:
    running["initiator-1"].plant(f"hang:{statement}")
    with own.begin(*OPEN) as process:
        output_until(process, "harness lab clean removes all of this")
        running["initiator-1"].wait_until_struck()
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=120)
    assert process.returncode == 130
    assert err.split("\n") == ["", "harness: interrupted", ""]


def test_ctrl_c_ends_an_opening_on_a_server_that_answers_nothing_any_more(
    running: dict[str, Server], own: OwnServers
) -> None:
    server = running["initiator-1"]
    server.plant("hang:CREATE DATABASE")
    assert server.process is not None
    with own.begin(*OPEN) as process:
        output_until(process, "harness lab clean removes all of this")
        server.wait_until_struck()
        server.process.send_signal(signal.SIGSTOP)
        try:
            process.send_signal(signal.SIGINT)
            out, err = process.communicate(timeout=120)
        finally:
            process.kill()
            server.process.send_signal(signal.SIGCONT)
    assert process.returncode == 130
    assert err.split("\n") == ["", "harness: interrupted", ""]
    clean_as_advised(own, CommandResult(process.returncode, out, err))


@pytest.mark.parametrize("verb", [("ui", "--port"), ("doctor",), ("matrix", "--cells", CELL), RUN[:2]])
def test_every_verb_reports_a_refused_login_in_one_line(
    verb: tuple[str, ...], running: dict[str, Server], own: OwnServers
) -> None:
    if verb[-1] == "--port":
        verb = (*verb, str(free_port()))
    running["initiator-1"].plant("login=18456/sa")
    printed = own.harness(*verb, *LAB)
    assert printed.code == 3
    assert f"initiator-1 (127.0.0.1:{running['initiator-1'].port}): Login failed for user 'sa'." in printed.line


# -- while a sweep runs ------------------------------------------------------------------------------------------------

FULL = "The transaction log for database 'ssbh' is full due to 'NOTHING'. (error 9002)"
TRANSIENT = {
    "statement:SEND=9002/ssbh@12-23": FULL,
    "statement:SEND=1205/57@12": "chosen as the deadlock victim. Rerun the transaction. (error 1205)",
    "drop:SEND@12": "gave up after 10 failed calls in a row: Communication link failure",
}


@pytest.mark.parametrize("fault", one_of_each(TRANSIENT))
def test_a_passing_failure_fails_a_cell_that_is_retried_and_the_sweep_continues(
    fault: str, running: dict[str, Server], own: OwnServers
) -> None:
    running["initiator-1"].plant(fault)
    printed = own.harness("matrix", "--only-sweep", "--cells", f"{CELL} {OTHER_CELL}", *LAB, *TIMES)
    assert (printed.code, printed.err) == (0, "")
    first, *others = entries(own)
    assert first.outcome == "failed"
    assert TRANSIENT[fault] in first.reason
    assert f"{first.cell} failed and will be tried again: {first.reason}" in printed.out
    assert {entry.cell for entry in others if entry.outcome == "completed"} == {CELL, OTHER_CELL}
    remove(own)


# Side, fault, exit code, and what the last line says.
LASTING = [
    ("initiator-1", "statement:SEND=9002/ssbh@12+", 1, FULL),
    (
        "target",
        "statement:INSERT INTO dbo.messageDrop=9002/ssbh@5+",
        1,
        f"the activation procedure recorded 2 errors: {FULL}",
    ),
    ("target", "statement:INSERT INTO dbo.messageDrop=1105/dbo.messageDrop//tempdb/PRIMARY@5+", 1, REMEDIES[1105]),
    ("target", "statement:INSERT INTO dbo.messageDrop=1205/57@5+", 1, "its queue is disabled, after five rollbacks"),
    ("initiator-1", "login:ssbh_Client=18456/ssbh_Client", 1, REMEDIES[18456]),
    (
        "target",
        "die:INSERT INTO dbo.messageDrop@5",
        1,
        "nothing listens there: start the server, or check host and port",
    ),
]


@pytest.mark.parametrize(
    "side, fault, code, line",
    one_of_each(LASTING, lambda case: verb_of(case[1])),
    ids=[f"{side}-{fault}" for side, fault, _, _ in LASTING],
)
def test_a_lasting_failure_fails_the_cell_with_its_reason(  # noqa: PLR0917
    side: str, fault: str, code: int, line: str, running: dict[str, Server], own: OwnServers
) -> None:
    running[side].plant(fault)
    printed = own.harness(*RUN)
    assert printed.code == code
    assert line in printed.line
    assert [entry.outcome for entry in entries(own)] == ["failed", "failed"]
    remove(own)


def test_a_sweep_whose_server_does_not_come_back_ends(running: dict[str, Server], own: OwnServers) -> None:
    running["initiator-1"].plant("die:SEND@12")
    printed = own.harness("matrix", "--only-sweep", "--cells", f"{CELL} {OTHER_CELL}", *LAB, *TIMES)
    assert printed.code == 3
    port = running["initiator-1"].port
    assert printed.line == (
        f"the lab is not available: initiator-1 (127.0.0.1:{port}): nothing listens there: start the server, or check "
        "host and port"
    )
    remove(own)


def test_what_servers_do_not_show_is_reported_and_the_sweep_continues(
    running: dict[str, Server], own: OwnServers
) -> None:
    initiator = own.servers[1]
    own.lab_file(initiator_1_admin_port=initiator.admin_port)
    running["target"].plant("statement:SELECT .*dm_os_wait=300/VIEW SERVER STATE/server/master")
    with initiator.connection(port=initiator.admin_port):
        printed = own.harness(*RUN)
    assert (printed.code, printed.err) == (0, "")
    assert "target does not show waits to this login, so they are not recorded: observe/waits.sql" in printed.out
    assert REMEDIES[300] in printed.out
    assert "the maximum number of '1' dedicated administrator connections already exists" in printed.out
    # Results of embedded servers are never labelled SQL Server.
    [manifest] = (json.loads(path.read_text()) for path in own.folder.glob("results/*/manifest.json"))
    assert (manifest["settings"]["lab"], manifest["lab"]) == ("sqlserver", "embedded")
    remove(own)


def remove(own: OwnServers) -> None:
    """A closed lab stays on the servers until it is removed."""
    heal(own)
    printed = own.harness("lab", "clean", *LAB, "--yes")
    assert (printed.code, printed.err) == (0, "")
