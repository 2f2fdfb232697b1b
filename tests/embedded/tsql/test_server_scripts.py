"""The scripts of `sql/server/`: each is run, and does what its head says."""

import errno
import re

import pytest

from harness.lab import scripts
from tests.embedded.tsql.sides import Side, World

VARIABLES = {"Database": "ssbh_SSBTarget", "Prefix": "ssbh_", "Login": "harness"}
PATHS = sorted(path.stem for path in (scripts.SQL_ROOT / "server").glob("*.sql"))
DROPPED = ("endpoint", "certificate", "user", "login", "master key")


@pytest.fixture
def side() -> Side:
    side = World().side("Target", "2017")
    side.run("CREATE LOGIN harness WITH PASSWORD = 'Str0ng!';")
    return side


def run(side: Side, name: str, **variables: str) -> list[dict]:
    """A script's rows."""
    rows: list[dict] = []
    for results in side.script(f"server/{name}.sql", **VARIABLES | variables):
        for columns, values in results.sets:
            rows += [dict(zip((column.name for column in columns), row, strict=True)) for row in values]
    return rows


def prepare(side: Side, name: str) -> None:
    """What a script takes for granted."""
    if name in ("create_database", "prepare_database", "minimal_rights", "identity", "rights", "inventory", "sessions"):
        return
    run(side, "create_database")
    run(side, "ledger")


@pytest.mark.parametrize("name", PATHS)
def test_a_script_runs_and_shows_the_columns_it_announces(side: Side, name: str) -> None:
    prepare(side, name)
    variables = {"Name": "ssbh_x", "Class": "login", "Exists": "0"}
    text = (scripts.SQL_ROOT / "server" / f"{name}.sql").read_text()
    announced = re.search(r"Columns:(.*?)\*/", text, re.DOTALL)
    for results in side.script(f"server/{name}.sql", **VARIABLES | variables):
        for columns, _ in results.sets:
            assert announced is not None
            assert all(column.name in announced[1] for column in columns)


def test_a_made_database_carries_the_mark_and_a_ledger(side: Side) -> None:
    run(side, "create_database")
    assert run(side, "ownership") == [{"mark": "made", "has_ledger": 0}]
    run(side, "ledger")
    assert run(side, "ownership") == [{"mark": "made", "has_ledger": 1}]
    for _ in range(2):
        run(side, "record", Class="login", Name="ssbh_x")
    [row] = run(side, "listed")
    assert (row["class"], row["name"]) == ("login", "ssbh_x") and row["created_at"]


def test_an_object_leaves_the_ledger_when_it_is_gone_and_not_before(side: Side) -> None:
    run(side, "create_database")
    run(side, "ledger")
    side.run(
        "USE master; CREATE MASTER KEY ENCRYPTION BY PASSWORD = 'x'; CREATE LOGIN ssbh_x WITH PASSWORD = 'x';"
        "CREATE USER ssbh_x FOR LOGIN ssbh_x; CREATE CERTIFICATE ssbh_x AUTHORIZATION ssbh_x WITH SUBJECT = 'x';"
        "CREATE ENDPOINT ssbh_x STATE = STARTED AS TCP (LISTENER_PORT = 4022)"
        "FOR SERVICE_BROKER (AUTHENTICATION = CERTIFICATE ssbh_x);"
    )
    for kind in DROPPED:
        run(side, "record", Class=kind, Name="ssbh_x")
    found = {(row["class"], row["name"]) for row in run(side, "inventory")}
    assert {(kind, "ssbh_x") for kind in DROPPED[:-1]} | {
        ("master key", "##MS_DatabaseMasterKey##"),
        ("database", "ssbh_SSBTarget"),
    } == found
    for number, kind in enumerate(DROPPED, start=1):
        assert run(side, f"drop_{kind.replace(' ', '_')}", Name="ssbh_x") == []
        assert sorted(row["class"] for row in run(side, "listed")) == sorted(DROPPED[number:])
    assert [row["class"] for row in run(side, "inventory")] == ["database"]


def test_a_master_key_that_others_need_stays(side: Side) -> None:
    run(side, "create_database")
    run(side, "ledger")
    side.run(
        "USE master; CREATE MASTER KEY ENCRYPTION BY PASSWORD = 'x'; CREATE CERTIFICATE theirs WITH SUBJECT = 'x';"
    )
    run(side, "record", Class="master key", Name="##MS_DatabaseMasterKey##")
    assert run(side, "drop_master_key") == [{"name": "theirs"}]
    assert run(side, "listed") == []
    assert side.value("USE master; SELECT COUNT(*) FROM sys.symmetric_keys;") == 1


def test_another_run_in_the_database_is_seen(side: Side) -> None:
    run(side, "create_database")
    session = side.connect("ssbh_SSBTarget")
    session.program = "service-broker-harness"
    assert [row["host_name"] for row in run(side, "sessions")] == ["here"]
    session.program = "SQL Server Management Studio"
    assert run(side, "sessions") == []


def test_rights_that_are_held_are_said_to_be(side: Side) -> None:
    assert {row["is_held"] for row in run(side, "rights")} == {1}
    permissions = [row["permission"] for row in run(side, "rights")]
    assert permissions[0] == "CREATE ANY DATABASE"
    run(side, "create_database")
    assert run(side, "rights")[0]["permission"] == "CONTROL on the database ssbh_SSBTarget"


@pytest.mark.parametrize("reason, number", [(errno.EADDRINUSE, 9692), (errno.EADDRNOTAVAIL, 9693)])
def test_an_endpoint_that_cannot_listen_is_changed_and_says_so(side: Side, reason: int, number: int) -> None:
    def listen(host: str, port: int) -> None:
        raise OSError(reason, "no")

    side.engine.link.transport.listen = listen
    started = "STATE = STARTED AS TCP (LISTENER_PORT = 4022) FOR SERVICE_BROKER (AUTHENTICATION = WINDOWS)"
    assert side.error(f"CREATE ENDPOINT e {started}").number == number
    assert side.value("SELECT state_desc FROM sys.service_broker_endpoints") == "STARTED"
    side.run("ALTER ENDPOINT e STATE = STOPPED")
    error = side.error("ALTER ENDPOINT e STATE = STARTED")
    assert error.number == number
    assert error.text in [entry.text for entry in side.engine.error_log.entries]
