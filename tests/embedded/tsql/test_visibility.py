"""Metadata visibility: what a stranger, a user without permissions and an owner see in every view and function."""

from collections.abc import Iterator

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.embedded.tsql.catalog import INFORMATION_SCHEMA, VIEWS
from harness.embedded.tsql.requests import ClientSession
from tests.embedded.tsql.sides import Side, World
from tests.examples import share

MARK = "hidden"  # in every name and body of the private database
EVERY_VIEW = [
    *(f"sys.{name}" for name in sorted(VIEWS)),
    *(f"INFORMATION_SCHEMA.{name}" for name in INFORMATION_SCHEMA),
]
SET_UP = f"""
CREATE LOGIN stranger WITH PASSWORD = 'Secret-word-1';
CREATE LOGIN plain WITH PASSWORD = 'Secret-word-1';
CREATE LOGIN reader WITH PASSWORD = 'Secret-word-1';
CREATE LOGIN owner WITH PASSWORD = 'Secret-word-1';
CREATE LOGIN {MARK}_login WITH PASSWORD = 'Secret-word-1';
GO
CREATE DATABASE mine;
GO
CREATE DATABASE priv;
GO
USE mine; CREATE USER stranger FOR LOGIN stranger; ALTER ROLE db_owner ADD MEMBER stranger;
GO
USE priv;
CREATE USER plain FOR LOGIN plain; CREATE USER reader FOR LOGIN reader; CREATE USER owner FOR LOGIN owner;
CREATE USER {MARK}_user FOR LOGIN {MARK}_login;
ALTER ROLE db_owner ADD MEMBER owner; ALTER ROLE db_datareader ADD MEMBER reader;
ALTER ROLE db_datawriter ADD MEMBER {MARK}_user;
CREATE TABLE dbo.{MARK}_t ({MARK}_id int NOT NULL PRIMARY KEY);
CREATE QUEUE dbo.{MARK}_q;
CREATE MESSAGE TYPE {MARK}_m VALIDATION = NONE;
CREATE CONTRACT {MARK}_c ({MARK}_m SENT BY ANY);
CREATE SERVICE {MARK}_s ON QUEUE dbo.{MARK}_q ({MARK}_c);
CREATE ROUTE {MARK}_r WITH SERVICE_NAME = '{MARK}_far', ADDRESS = 'TCP://{MARK}:4022';
CREATE REMOTE SERVICE BINDING {MARK}_b TO SERVICE '{MARK}_far' WITH USER = {MARK}_user;
CREATE BROKER PRIORITY {MARK}_p FOR CONVERSATION SET (LOCAL_SERVICE_NAME = {MARK}_s, PRIORITY_LEVEL = 7);
CREATE MASTER KEY ENCRYPTION BY PASSWORD = 'Secret-word-1';
CREATE CERTIFICATE {MARK}_cert WITH SUBJECT = '{MARK}';
GRANT SELECT ON dbo.{MARK}_t TO {MARK}_user;
GO
CREATE PROCEDURE dbo.{MARK}_proc AS PRINT '{MARK}';
GO
DECLARE @h uniqueidentifier;
BEGIN DIALOG @h FROM SERVICE {MARK}_s TO SERVICE '{MARK}_nowhere' ON CONTRACT {MARK}_c WITH ENCRYPTION = OFF;
SEND ON CONVERSATION @h MESSAGE TYPE {MARK}_m (N'{MARK}');
"""


@pytest.fixture(scope="module")
def side() -> Side:
    side = World().side("Here", "2025", set_up=SET_UP)
    side.world.run_for(1)
    return side


@pytest.fixture
def sessions(side: Side) -> Iterator[list[ClientSession]]:
    opened: list[ClientSession] = []
    yield opened
    for session in opened:
        session.close()


def as_login(side: Side, opened: list[ClientSession], login: str, database: str) -> ClientSession:
    side.spids += 1
    opened.append(ClientSession(side.engine, spid=side.spids, login=login, database=database))
    return opened[-1]


def shows(rows: list[tuple[object, ...]]) -> bool:
    """Whether a name or body of the private database is in them, as text or as UTF-16."""
    values = [value for row in rows for value in row]
    texts = [value.decode("utf-16-le", "replace") if isinstance(value, bytes) else str(value) for value in values]
    return any(MARK in text for text in texts)


@pytest.mark.parametrize("name", EVERY_VIEW)
def test_a_stranger_reads_no_view_of_a_database_without_being_its_user(side: Side, sessions, name: str) -> None:
    stranger = as_login(side, sessions, "stranger", "mine")
    result = side.results(f"SELECT * FROM priv.{name}", stranger)
    assert [error.number for error in result.errors] == [916]
    assert not any(rows for _, rows in result.sets)


@pytest.mark.parametrize("name", EVERY_VIEW)
@pytest.mark.parametrize("login, database", [("stranger", "mine"), ("stranger", "master"), ("plain", "priv")])
def test_no_view_shows_what_the_session_has_no_permission_on(
    side: Side, sessions, name: str, login: str, database: str
) -> None:
    session = as_login(side, sessions, login, database)
    result = side.results(f"SELECT * FROM {name}", session)
    assert all(not shows(rows) for _, rows in result.sets), name
    assert {error.number for error in result.errors} <= {208, 262, 300}


@pytest.mark.parametrize(
    "name",
    "services transmission_queue objects columns certificates routes database_principals service_queues".split(),  # noqa: SIM905
)
def test_an_owner_of_the_database_sees_what_others_do_not(side: Side, sessions, name: str) -> None:
    owner = as_login(side, sessions, "owner", "priv")
    assert shows(side.rows(f"SELECT * FROM sys.{name}", owner))


def test_a_permission_shows_its_securable_and_no_other(side: Side, sessions) -> None:
    reader = as_login(side, sessions, "reader", "priv")  # SELECT on the database: tables and queues
    keys = side.rows("SELECT name, type FROM sys.objects WHERE parent_object_id <> 0 AND is_ms_shipped = 0", reader)
    assert keys == [(f"PK_{MARK}_t", "PK")]
    names = {
        name
        for (name,) in side.rows(
            "SELECT name FROM sys.objects WHERE is_ms_shipped = 0 AND parent_object_id = 0", reader
        )
    }
    assert names == {f"{MARK}_t", f"{MARK}_q"}
    assert side.rows("SELECT name FROM sys.procedures", reader) == []
    plain = as_login(side, sessions, "plain", "priv")
    side.run(f"USE priv; GRANT EXECUTE ON dbo.{MARK}_proc TO plain; GRANT SEND ON SERVICE::{MARK}_s TO plain;")
    assert side.rows("SELECT name FROM sys.procedures", plain) == [(f"{MARK}_proc",)]
    assert side.rows("SELECT definition FROM sys.sql_modules", plain) == [(None,)], "EXECUTE does not show the text"
    assert side.rows(f"SELECT name FROM sys.services WHERE name = '{MARK}_s'", plain) == [(f"{MARK}_s",)]
    assert side.rows("SELECT * FROM sys.transmission_queue", plain) == []
    side.run(f"REVOKE EXECUTE ON dbo.{MARK}_proc TO plain; REVOKE SEND ON SERVICE::{MARK}_s TO plain; USE master;")
    assert side.rows("SELECT name FROM sys.procedures", plain) == []


def test_functions_answer_null_for_what_the_session_does_not_see(side: Side, sessions) -> None:
    plain = as_login(side, sessions, "plain", "priv")
    stranger = as_login(side, sessions, "stranger", "mine")
    owner = as_login(side, sessions, "owner", "priv")
    identifier = side.value(f"SELECT OBJECT_ID('priv.dbo.{MARK}_t')")
    database_id = side.value("SELECT DB_ID('priv')")
    asked = {
        f"OBJECT_ID('priv.dbo.{MARK}_t')": (plain, stranger),
        f"OBJECT_ID('priv.dbo.{MARK}_q')": (plain, stranger),
        f"OBJECT_ID('priv.dbo.{MARK}_proc')": (plain, stranger),
        f"OBJECT_NAME({identifier}, {database_id})": (plain, stranger),
        f"OBJECT_SCHEMA_NAME({identifier}, {database_id})": (plain, stranger),
        f"CERT_ID('{MARK}_cert')": (plain,),
        "CERTENCODED(256)": (plain,),
        f"USER_ID('{MARK}_user')": (plain,),
    }
    for expression, hidden_from in asked.items():
        assert side.rows(f"SELECT {expression}", owner) != [(None,)], expression
        for session in hidden_from:
            assert side.rows(f"SELECT {expression}", session) == [(None,)], expression
    assert side.rows(f"SELECT SUSER_ID('{MARK}_login'), SUSER_SID('{MARK}_login')", plain) == [(None, None)]


def test_a_session_is_told_its_own_login_and_the_roles_of_users_that_it_sees(side: Side, sessions) -> None:
    tokens = "SELECT name, type FROM sys.login_token WHERE sid = SUSER_SID() OR sid IS NULL ORDER BY name"
    members = "SELECT USER_NAME(role_principal_id), USER_NAME(member_principal_id) FROM sys.database_role_members"
    reader = as_login(side, sessions, "reader", "priv")
    assert side.rows(tokens, reader) == [("public", "SERVER ROLE"), ("reader", "SQL LOGIN")]
    assert side.rows(tokens) == [("public", "SERVER ROLE"), ("sa", "SQL LOGIN"), ("sysadmin", "SERVER ROLE")]
    assert side.rows(members, reader) == [("db_owner", "dbo"), ("db_datareader", "reader")]
    assert len(side.rows(members, as_login(side, sessions, "owner", "priv"))) == 4


NAMED = [
    "SELECT * FROM priv.dbo.{name}",
    "INSERT priv.dbo.{name} VALUES (1)",
    "UPDATE priv.dbo.{name} SET a = 1",
    "DELETE priv.dbo.{name}",
    "TRUNCATE TABLE priv.dbo.{name}",
    "DROP TABLE priv.dbo.{name}",
    "DROP PROCEDURE priv.dbo.{name}",
    "DROP QUEUE priv.dbo.{name}",
    "ALTER QUEUE priv.dbo.{name} WITH STATUS = OFF",
    "CREATE QUEUE priv.dbo.{name}",
    "CREATE TABLE priv.dbo.{name} (a int)",
    "RECEIVE * FROM priv.dbo.{name}",
    "EXEC priv.dbo.{name}",
    "SELECT HAS_PERMS_BY_NAME('priv.dbo.{name}', 'OBJECT', 'SELECT')",
    "GRANT SELECT ON priv.dbo.{name} TO public",
    "CREATE QUEUE dbo.taken WITH ACTIVATION (PROCEDURE_NAME = priv.dbo.{name}, MAX_QUEUE_READERS = 1, EXECUTE AS SELF)",
]


@pytest.mark.parametrize("text", NAMED)
def test_a_stranger_does_not_learn_whether_an_object_exists(side: Side, sessions, text: str) -> None:
    """The owner of one database asks for objects of another: the answer for one that exists is that for none."""
    stranger = as_login(side, sessions, "stranger", "mine")
    answers = []
    for name in (f"{MARK}_t", f"{MARK}_q", f"{MARK}_proc", "nothing"):
        result = side.results(text.format(name=name), stranger)
        answers.append(([rows for _, rows in result.sets], [error.number for error in result.errors]))
    assert all(answer == answers[0] for answer in answers), answers
    assert answers[0][1] or "HAS_PERMS" in text
    assert side.value(f"SELECT COUNT(*) FROM priv.sys.objects WHERE name LIKE '{MARK}%'") == 3


# Each securable of the private database: the view that shows it, and permissions on it.
SECURABLES = {
    f"OBJECT::dbo.{MARK}_t": ("tables", ("SELECT", "INSERT", "ALTER", "CONTROL", "VIEW DEFINITION")),
    f"OBJECT::dbo.{MARK}_proc": ("procedures", ("EXECUTE", "ALTER", "CONTROL", "VIEW DEFINITION")),
    f"OBJECT::dbo.{MARK}_q": ("service_queues", ("RECEIVE", "SELECT", "CONTROL")),
    f"SERVICE::{MARK}_s": ("services", ("SEND", "CONTROL", "VIEW DEFINITION")),
    f"CONTRACT::{MARK}_c": ("service_contracts", ("REFERENCES", "ALTER")),
    f"MESSAGE TYPE::{MARK}_m": ("service_message_types", ("REFERENCES", "VIEW DEFINITION")),
    f"ROUTE::{MARK}_r": ("routes", ("ALTER", "VIEW DEFINITION")),
    f"REMOTE SERVICE BINDING::{MARK}_b": ("remote_service_bindings", ("ALTER", "CONTROL")),
    f"CERTIFICATE::{MARK}_cert": ("certificates", ("REFERENCES", "VIEW DEFINITION")),
    f"USER::{MARK}_user": ("database_principals", ("IMPERSONATE", "VIEW DEFINITION")),
}
PERMITS = [(one, permission) for one, (_, permissions) in SECURABLES.items() for permission in permissions]


@settings(max_examples=share(30), deadline=None)
@given(granted=st.sets(st.sampled_from(PERMITS)), denied=st.sets(st.sampled_from(PERMITS), max_size=5))
def test_a_securable_is_seen_by_those_who_hold_some_permission_on_it(
    side: Side, granted: set[tuple[str, str]], denied: set[tuple[str, str]]
) -> None:
    side.run("USE priv")
    for verb, permits in (("GRANT", granted), ("DENY", denied)):
        for one, permission in sorted(permits):
            side.run(f"{verb} {permission} ON {one} TO plain")
    opened: list[ClientSession] = []
    plain = as_login(side, opened, "plain", "priv")
    for one, (view, permissions) in SECURABLES.items():
        kind, name = one.split("::")
        held = any(
            side.value(f"SELECT HAS_PERMS_BY_NAME('{name}', '{kind}', '{permission}')", plain)
            for permission in permissions
        )
        assert held >= bool({each for each in granted if each[0] == one} and not denied)
        shown = side.rows(f"SELECT * FROM sys.{view} WHERE name = '{name.removeprefix('dbo.')}'", plain)
        assert bool(shown) == held, (one, granted, denied)
    opened[0].close()
    for one, permission in sorted(granted | denied):
        side.run(f"REVOKE {permission} ON {one} TO plain")
    side.run("USE master")
