"""Permissions of logins that are not sysadmin, and SQL Server's errors."""

import pytest

from harness.embedded.tsql.requests import ClientSession
from tests.embedded.tsql.sides import Side, World
from tests.embedded.tsql.test_scripts_run import Linked, body

SET_UP = """
CREATE DATABASE shop;
GO
CREATE LOGIN ann WITH PASSWORD = 'Secret-word-1';
CREATE LOGIN bob WITH PASSWORD = 'Secret-word-1';
GO
USE shop;
CREATE USER ann FOR LOGIN ann;
CREATE TABLE dbo.t (id int NOT NULL PRIMARY KEY, a int);
INSERT INTO dbo.t (id, a) VALUES (1, 1);
GO
CREATE PROCEDURE dbo.read_t AS SELECT a FROM dbo.t;
GO
CREATE PROCEDURE dbo.read_t_by_text AS EXECUTE (N'SELECT a FROM dbo.t;');
GO
CREATE PROCEDURE dbo.read_t_by_text_as_owner WITH EXECUTE AS OWNER AS EXECUTE (N'SELECT a FROM dbo.t;');
GO
CREATE PROCEDURE dbo.call_read_t AS EXECUTE dbo.read_t;
GO
CREATE PROCEDURE dbo.who WITH EXECUTE AS OWNER AS
    SELECT USER_NAME(), SUSER_SNAME(), ORIGINAL_LOGIN(), IS_SRVROLEMEMBER(N'sysadmin');
GO
CREATE QUEUE dbo.q;
CREATE SERVICE s ON QUEUE dbo.q ([DEFAULT]);
"""


@pytest.fixture
def side() -> Side:
    return World().side("Shop", set_up=SET_UP)


def as_login(side: Side, login: str, database: str = "shop") -> ClientSession:
    side.spids += 1
    return ClientSession(side.engine, spid=side.spids, login=login, database=database)


def number(side: Side, text: str, session: ClientSession) -> int | None:
    """The number of the first error; None if there is none."""
    errors = side.results(text, session).errors
    return errors[0].number if errors else None


# -- refused ----------------------------------------------------------------------------------------------------------

REFUSED = {
    "SELECT a FROM dbo.t;": (229, "The SELECT permission was denied on the object 't', database 'shop', schema 'dbo'."),
    "INSERT INTO dbo.t (id) VALUES (2);": (229, "The INSERT permission was denied on the object 't'"),
    "UPDATE dbo.t SET a = 2;": (229, "The UPDATE permission was denied on the object 't'"),
    "DELETE FROM dbo.t;": (229, "The DELETE permission was denied on the object 't'"),
    "EXECUTE dbo.read_t;": (229, "The EXECUTE permission was denied on the object 'read_t', database 'shop'"),
    "RECEIVE * FROM dbo.q;": (229, "The RECEIVE permission was denied on the object 'q'"),
    "WAITFOR (RECEIVE * FROM dbo.q), TIMEOUT 10;": (229, "The RECEIVE permission was denied on the object 'q'"),
    "SELECT * FROM dbo.q;": (229, "The SELECT permission was denied on the object 'q'"),
    "DECLARE @h uniqueidentifier; BEGIN DIALOG @h FROM SERVICE s TO SERVICE 's' ON CONTRACT [DEFAULT];": (
        229,
        "RECEIVE",
    ),
    "TRUNCATE TABLE dbo.t;": (1088, 'Cannot find the object "dbo.t"'),
    "DROP TABLE dbo.t;": (
        3701,
        "Cannot drop the table 'dbo.t', because it does not exist or you do not have permission.",
    ),
    "CREATE TABLE dbo.u (a int);": (262, "CREATE TABLE permission denied in database 'shop'."),
    "CREATE QUEUE dbo.r;": (262, "CREATE QUEUE permission denied in database 'shop'."),
    "CREATE SERVICE r ON QUEUE dbo.q;": (262, "CREATE SERVICE permission denied in database 'shop'."),
    "CREATE ROUTE r WITH ADDRESS = 'LOCAL';": (262, "CREATE ROUTE permission denied in database 'shop'."),
    "ALTER QUEUE dbo.q WITH STATUS = OFF;": (15151, "Cannot alter the queue 'dbo.q'"),
    "DROP SERVICE s;": (15151, "Cannot drop the service 's'"),
    "CREATE DATABASE other;": (262, "CREATE DATABASE permission denied in database 'master'."),
    "ALTER DATABASE shop SET NEW_BROKER WITH NO_WAIT;": (
        5011,
        "User does not have permission to alter database 'shop'",
    ),
    "DROP DATABASE shop;": (3701, "Cannot drop the database 'shop'"),
    "CREATE LOGIN eve WITH PASSWORD = 'x';": (15247, "User does not have permission to perform this action."),
    "ALTER LOGIN bob WITH PASSWORD = 'x';": (15151, "Cannot alter the login 'bob'"),
    "DROP LOGIN bob;": (15151, "Cannot drop the login 'bob'"),
    "CREATE USER bob FOR LOGIN bob;": (15247, "User does not have permission"),
    "CREATE MASTER KEY ENCRYPTION BY PASSWORD = 'x';": (15247, "User does not have permission"),
    "CREATE CERTIFICATE c WITH SUBJECT = 'c';": (15247, "User does not have permission"),
    "CREATE ENDPOINT e AS TCP (LISTENER_PORT = 5022) FOR SERVICE_BROKER ();": (15247, "User does not have permission"),
    "GRANT SELECT ON OBJECT::dbo.t TO ann;": (15151, "Cannot find the object 'dbo.t', because it does not exist"),
    "GRANT CREATE TABLE TO ann;": (4613, "Grantor does not have GRANT permission."),
    "GRANT CONTROL SERVER TO ann;": (4613, "Grantor does not have GRANT permission."),
    "ALTER ROLE db_owner ADD MEMBER ann;": (15151, "Cannot alter the role 'db_owner'"),
    "ALTER SERVER ROLE sysadmin ADD MEMBER ann;": (15151, "Cannot alter the server role 'sysadmin'"),
    "SELECT * FROM sys.dm_os_wait_stats;": (
        300,
        "VIEW SERVER PERFORMANCE STATE permission was denied on object 'server'",
    ),
    "EXECUTE sp_configure 'show advanced options', 1;": (15247, "User does not have permission"),
    "ALTER AUTHORIZATION ON SERVICE::s TO ann;": (15151, "Cannot find the service 's'"),
    "ALTER AUTHORIZATION ON DATABASE::shop TO ann;": (15151, "Cannot find the database 'shop'"),
    "EXECUTE sys.sp_addextendedproperty N'p', N'v';": (15247, "User does not have permission"),
    "EXECUTE sys.sp_dropextendedproperty N'p';": (15247, "User does not have permission"),
    "CHECKPOINT;": (262, "CHECKPOINT permission denied in database 'shop'."),
    "RECONFIGURE;": (5812, "You do not have permission to run the RECONFIGURE statement."),
    "DBCC TRACEON (3604);": (2571, "User 'ann' does not have permission to run DBCC TRACEON."),
}


@pytest.mark.parametrize("text", REFUSED)
def test_a_user_without_rights_is_refused(side, text):
    results = side.results(text, as_login(side, "ann"))
    assert not results.sets
    error = results.errors[0]
    expected, words = REFUSED[text]
    assert error.number == expected
    assert words in error.text
    assert side.rows("SELECT id, a FROM dbo.t;") == [(1, 1)]


@pytest.mark.parametrize("text", [text for text in REFUSED if "ALTER LOGIN" not in text])
def test_a_member_of_sysadmin_is_not_refused(side, text):
    side.run("ALTER SERVER ROLE sysadmin ADD MEMBER ann;")
    permissions = {229, 262, 300, 1088, 2571, 4613, 5011, 5812, 15151, 15247}
    assert number(side, text, as_login(side, "ann")) not in permissions


@pytest.mark.parametrize(
    "made",
    [
        "SCHEMA new AUTHORIZATION {owner}",
        "MESSAGE TYPE new AUTHORIZATION {owner}",
        "CONTRACT new AUTHORIZATION {owner} ([DEFAULT] SENT BY ANY)",
        "SERVICE new AUTHORIZATION {owner} ON QUEUE dbo.q",
        "ROUTE new AUTHORIZATION {owner} WITH ADDRESS = 'LOCAL'",
        "REMOTE SERVICE BINDING new AUTHORIZATION {owner} TO SERVICE '{owner}' WITH USER = ann",
        "CERTIFICATE new AUTHORIZATION {owner} ENCRYPTION BY PASSWORD = 'Pass-word-1' WITH SUBJECT = 'new'",
    ],
)
def test_who_may_create_a_thing_may_not_give_it_to_a_user_whom_they_may_not_impersonate(side, made):
    side.run(f"CREATE USER bob WITHOUT LOGIN; GRANT CREATE {made.partition(' new')[0]} TO ann;")
    side.run("GRANT CONTROL ON OBJECT::dbo.q TO ann;")
    ann = as_login(side, "ann")
    error = side.error(f"CREATE {made.format(owner='bob')}", ann)
    assert (error.number, error.text.partition(",")[0]) == (15151, "Cannot find the user 'bob'")
    side.run("GRANT IMPERSONATE ON USER::bob TO ann;")
    assert number(side, f"CREATE {made.format(owner='bob')}", ann) is None
    assert number(side, f"CREATE {made.format(owner='ann').replace('new', 'own')}", ann) is None


def test_everybody_sees_all_databases_unless_that_is_denied(side):
    names = "SELECT name FROM sys.databases WHERE name IN ('master', 'shop') ORDER BY name;"
    bob = as_login(side, "bob", "master")
    assert side.rows(names, bob) == [("master",), ("shop",)]
    side.run("USE master; DENY VIEW ANY DATABASE TO bob;")
    assert side.rows(names, bob) == [("master",)]


# What a user may make: its clauses, and a change of it
OWNED = {
    "MESSAGE TYPE": ("", "VALIDATION = EMPTY"),
    "CONTRACT": ("([DEFAULT] SENT BY ANY)", None),
    "SERVICE": ("ON QUEUE dbo.q", "ON QUEUE dbo.q"),
    "ROUTE": ("WITH ADDRESS = 'LOCAL'", "WITH LIFETIME = 100"),
    "REMOTE SERVICE BINDING": ("TO SERVICE 'far' WITH USER = ann", "WITH ANONYMOUS = ON"),
    "CERTIFICATE": ("ENCRYPTION BY PASSWORD = 'Pass-word-1' WITH SUBJECT = 'new'", "REMOVE PRIVATE KEY"),
}


@pytest.mark.parametrize("kind", OWNED)
def test_a_thing_is_its_owners_to_see_change_and_drop_and_nobody_elses(side, kind):
    clauses, change = OWNED[kind]
    side.run(
        f"CREATE USER bob FOR LOGIN bob; GRANT CREATE {kind} TO ann, bob; GRANT CONTROL ON OBJECT::dbo.q TO ann, bob;"
    )
    ann, bob = as_login(side, "ann"), as_login(side, "bob")
    assert number(side, f"CREATE {kind} new {clauses};", ann) is None
    ends = [f"DROP {kind} new;"] if change is None else [f"ALTER {kind} new {change};", f"DROP {kind} new;"]
    assert [number(side, text, bob) for text in ends] == [15151] * len(ends)
    refusal = f"The database principal owns a {kind.lower()} in the database, and cannot be dropped."
    assert side.error("DROP USER ann;").text == refusal
    assert [number(side, text, ann) for text in ends] == [None] * len(ends)
    side.run("DROP USER ann;")


@pytest.mark.parametrize("kind", [kind for kind in OWNED if kind != "CERTIFICATE"])  # whose DROP needs CONTROL
@pytest.mark.parametrize("permission", ["ALTER", "ALTER ANY {kind}"])
def test_who_may_alter_all_of_a_kind_may_also_drop_and_create_them(side, kind, permission):
    clauses, change = OWNED[kind]
    side.run(
        f"CREATE {kind} new {clauses}; GRANT {permission.format(kind=kind)} TO ann; GRANT CONTROL ON OBJECT::dbo.q TO ann;"
    )
    changed = f"ALTER {kind} new {change};" if change else ""
    assert number(side, f"{changed} DROP {kind} new; CREATE {kind} new {clauses};", as_login(side, "ann")) is None


@pytest.mark.parametrize("kind", [*OWNED, "SCHEMA"])
def test_a_thing_is_given_to_another_user_for_good(side, kind):
    clauses = OWNED.get(kind, ("",))[0].replace("USER = ann", "USER = dbo")
    side.run(f"CREATE {kind} new AUTHORIZATION ann {clauses};")
    side.run(f"ALTER AUTHORIZATION ON {kind}::new TO dbo; DROP USER ann;")
    side.run(f"CREATE USER bob WITHOUT LOGIN; ALTER AUTHORIZATION ON {kind}::new TO bob;")
    side.world.run_for(1)
    side.crash()
    assert side.error("USE shop; DROP USER bob;").number == 15138


def test_an_owner_is_one_again_after_a_rollback(side):
    side.run(
        "CREATE MESSAGE TYPE m AUTHORIZATION ann; BEGIN TRANSACTION; ALTER AUTHORIZATION ON MESSAGE TYPE::m TO dbo;"
    )
    ann, change = as_login(side, "ann"), "ALTER MESSAGE TYPE m VALIDATION = EMPTY;"
    assert number(side, change, ann) == 15151
    side.run("ROLLBACK;")
    assert number(side, change, ann) is None


@pytest.mark.parametrize(
    ("thing", "refusal"),
    [("SCHEMA::dbo", 15150), ("MESSAGE TYPE::[DEFAULT]", 9663), ("CONTRACT::missing", 15151), ("OBJECT::dbo.q", 50001)],
)
def test_what_is_not_given_away(side, thing, refusal):
    assert side.error(f"ALTER AUTHORIZATION ON {thing} TO ann;").number == refusal


def test_a_services_owner_needs_send_on_a_target_of_the_same_database(side):
    side.run("CREATE QUEUE dbo.mine; CREATE SERVICE sv AUTHORIZATION ann ON QUEUE dbo.mine;")
    side.run("""
        DECLARE @h uniqueidentifier; BEGIN DIALOG @h FROM SERVICE sv TO SERVICE 's' WITH ENCRYPTION = OFF;
        SEND ON CONVERSATION @h (0x01);
    """)
    [(status,)] = side.rows("SELECT transmission_status FROM sys.transmission_queue;")
    assert "Error: 8494" in status and "You do not have permission to access the service 's'." in status
    side.run("GRANT SEND ON SERVICE::s TO ann;")
    side.world.run_for(1)
    assert side.value("SELECT COUNT(*) FROM dbo.q;") == 1


REFERRING = {
    "CREATE CONTRACT new (m SENT BY ANY);": "message type 'm'",
    "CREATE SERVICE new ON QUEUE dbo.q (c);": "contract 'c'",
    "ALTER SERVICE s (ADD CONTRACT c);": "contract 'c'",
    "DECLARE @h uniqueidentifier; BEGIN DIALOG @h FROM SERVICE s TO SERVICE 's' ON CONTRACT c;": "contract 'c'",
}


@pytest.mark.parametrize("text", REFERRING)
def test_who_names_a_message_type_or_a_contract_needs_references_on_it(side, text):
    side.run("CREATE MESSAGE TYPE m; CREATE CONTRACT c (m SENT BY ANY); GRANT CREATE CONTRACT, CREATE SERVICE TO ann;")
    side.run("GRANT CONTROL ON OBJECT::dbo.q TO ann; GRANT ALTER ON SERVICE::s TO ann;")
    ann = as_login(side, "ann")
    error = side.error(text, ann)
    assert error.number == 15151 and f"Cannot find the {REFERRING[text]}" in error.text
    side.run("GRANT REFERENCES ON MESSAGE TYPE::m TO ann; GRANT REFERENCES ON CONTRACT::c TO ann;")
    assert number(side, text, ann) is None


MISSING = {
    "DROP MESSAGE TYPE nosuch;": "drop the message type 'nosuch'",
    "ALTER MESSAGE TYPE nosuch VALIDATION = NONE;": "alter the message type 'nosuch'",
    "CREATE CONTRACT k (nosuch SENT BY ANY);": "find the message type 'nosuch'",
    "DROP CONTRACT nosuch;": "drop the contract 'nosuch'",
    "CREATE SERVICE k ON QUEUE dbo.q (nosuch);": "find the contract 'nosuch'",
    "CREATE BROKER PRIORITY p FOR CONVERSATION SET (CONTRACT_NAME = nosuch);": "find the contract 'nosuch'",
    "ALTER QUEUE dbo.nosuch WITH STATUS = ON;": "alter the queue 'nosuch'",
    "DROP QUEUE dbo.nosuch;": "drop the queue 'nosuch'",
    "CREATE SERVICE k ON QUEUE dbo.nosuch;": "find the queue 'dbo.nosuch'",
    "DROP EVENT NOTIFICATION n ON QUEUE dbo.nosuch;": "find the queue 'dbo.nosuch'",
    "ALTER SERVICE nosuch (DROP CONTRACT [DEFAULT]);": "alter the service 'nosuch'",
    "DROP SERVICE nosuch;": "drop the service 'nosuch'",
    "GRANT SEND ON SERVICE::nosuch TO public;": "find the service 'nosuch'",
    "CREATE BROKER PRIORITY p FOR CONVERSATION SET (LOCAL_SERVICE_NAME = nosuch);": "find the service 'nosuch'",
    "ALTER ROUTE nosuch WITH ADDRESS = 'LOCAL';": "alter the route 'nosuch'",
    "DROP ROUTE nosuch;": "drop the route 'nosuch'",
    "ALTER REMOTE SERVICE BINDING nosuch WITH USER = dbo;": "alter the remote service binding 'nosuch'",
    "DROP REMOTE SERVICE BINDING nosuch;": "drop the remote service binding 'nosuch'",
    "CREATE REMOTE SERVICE BINDING b TO SERVICE 'x' WITH USER = nosuch;": "find the user 'nosuch'",
    "DROP BROKER PRIORITY nosuch;": "drop the broker priority 'nosuch'",
    "ALTER ENDPOINT nosuch STATE = STARTED;": "alter the endpoint 'nosuch'",
    "DROP ENDPOINT nosuch;": "drop the endpoint 'nosuch'",
    "DROP CERTIFICATE nosuch;": "drop the certificate 'nosuch'",
    "DROP MASTER KEY;": "drop the symmetric key 'master key'",
    "DROP USER nosuch;": "drop the user 'nosuch'",
    "DROP LOGIN nosuch;": "drop the login 'nosuch'",
    "DROP SCHEMA nosuch;": "drop the schema 'nosuch'",
    "DROP XML SCHEMA COLLECTION nosuch;": "drop the xml schema collection 'dbo.nosuch'",
}


@pytest.mark.parametrize("text", MISSING)
def test_an_object_that_does_not_exist_has_the_error_of_one_that_may_not_be_seen(side, text):
    error = side.error(text)
    assert error.number == 15151
    assert error.text == f"Cannot {MISSING[text]}, because it does not exist or you do not have permission."


@pytest.mark.parametrize("name", ["dbo", "Guest", "db_owner"])
def test_a_user_cannot_have_a_name_that_every_database_has(side, name):
    assert side.error(f"CREATE USER {name} WITHOUT LOGIN;").number == 15023


def test_a_login_without_a_user_cannot_enter_a_database(side):
    session = as_login(side, "bob", "master")
    error = side.error("USE shop;", session)
    assert (error.number, error.text) == (
        916,
        'The server principal "bob" is not able to access the database "shop" under the current security context.',
    )
    assert number(side, "SELECT a FROM shop.dbo.t;", session) == 916
    assert number(side, "EXECUTE shop.dbo.read_t;", session) == 916
    assert side.value("SELECT USER_NAME();", session) == "guest"


# -- allowed -----------------------------------------------------------------------------------------------------------


def test_grant_allows_deny_wins_and_revoke_takes_back(side):
    session = as_login(side, "ann")
    select = "SELECT a FROM dbo.t;"
    side.run("GRANT SELECT ON OBJECT::dbo.t TO ann;")
    assert side.rows(select, session) == [(1,)]
    side.run("DENY SELECT ON OBJECT::dbo.t TO public;")
    assert number(side, select, session) == 229
    side.run("REVOKE SELECT ON OBJECT::dbo.t FROM public;")
    assert side.rows(select, session) == [(1,)]
    side.run("REVOKE SELECT ON OBJECT::dbo.t FROM ann;")
    assert number(side, select, session) == 229


@pytest.mark.parametrize(
    "grant",
    [
        "GRANT SELECT ON SCHEMA::dbo TO ann;",
        "GRANT SELECT TO ann;",
        "GRANT CONTROL ON OBJECT::dbo.t TO ann;",
        "GRANT CONTROL ON DATABASE::shop TO ann;",
        "GRANT SELECT ON OBJECT::dbo.t TO public;",
        "ALTER ROLE db_datareader ADD MEMBER ann;",
        "ALTER ROLE db_owner ADD MEMBER ann;",
        "USE master; GRANT CONTROL SERVER TO ann;",
    ],
)
def test_a_permission_on_what_contains_a_table_implies_it_on_the_table(side, grant):
    session = as_login(side, "ann")
    side.run(grant)
    assert side.rows("SELECT a FROM dbo.t;", session) == [(1,)]


def test_a_permission_on_a_schema_is_one_on_what_is_in_it_alone(side):
    for batch in (
        "CREATE SCHEMA app",
        "CREATE SCHEMA own AUTHORIZATION ann",
        "CREATE TABLE app.v (a int); CREATE TABLE own.v (a int);",
        "CREATE PROCEDURE app.five AS RETURN 5",
        "GRANT SELECT, EXECUTE ON SCHEMA::app TO ann; GRANT CREATE TABLE TO ann;",
    ):
        side.run(batch)
    ann = as_login(side, "ann")
    assert side.value("SELECT COUNT(*) FROM app.v; EXEC app.five;", ann) == 0
    assert number(side, "SELECT a FROM dbo.t;", ann) == 229
    assert number(side, "INSERT app.v VALUES (1);", ann) == 229
    assert number(side, "INSERT own.v VALUES (1); ALTER TABLE own.v ADD b int; DROP TABLE own.v;", ann) is None
    assert number(side, "CREATE TABLE own.w (a int);", ann) is None
    assert number(side, "CREATE TABLE app.w (a int);", ann) == 2760
    side.run(
        "GRANT ALTER ON SCHEMA::app TO ann; GRANT SELECT ON SCHEMA::dbo TO ann; DENY SELECT ON SCHEMA::app TO ann;"
    )
    assert number(side, "CREATE TABLE app.w (a int); DROP TABLE app.v;", ann) is None
    assert number(side, "SELECT a FROM app.w;", ann) == 229
    assert side.rows("SELECT a FROM dbo.t;", ann) == [(1,)]
    side.run("DROP PROCEDURE app.five; DROP TABLE app.w; DROP SCHEMA app;")
    assert side.rows("SELECT major_id, permission_name FROM sys.database_permissions WHERE class = 3;") == [
        (1, "SELECT")
    ]


def test_an_ownership_chain_ends_at_another_owner(side):
    for batch in (
        "CREATE USER bob WITHOUT LOGIN",
        "CREATE SCHEMA bobs AUTHORIZATION bob",
        "CREATE TABLE bobs.v (a int); CREATE QUEUE bobs.q",
        "CREATE PROCEDURE bobs.five AS SELECT a FROM bobs.v; SELECT a FROM dbo.t",
        "CREATE PROCEDURE dbo.reads AS SELECT a FROM dbo.t; SELECT a FROM bobs.v",
        "CREATE PROCEDURE dbo.receives AS RECEIVE message_body FROM bobs.q",
        "CREATE PROCEDURE dbo.calls AS EXECUTE bobs.five",
        "GRANT EXECUTE ON SCHEMA::dbo TO ann",
    ):
        side.run(batch)
    ann = as_login(side, "ann")
    for name in ("reads", "receives", "calls"):
        assert number(side, f"EXECUTE dbo.{name};", ann) == 229
    assert number(side, "EXECUTE bobs.five;", ann) == 229
    side.run("ALTER AUTHORIZATION ON SCHEMA::bobs TO dbo;")
    for name in ("reads", "receives", "calls"):
        assert number(side, f"EXECUTE dbo.{name};", ann) is None


def test_a_rollback_takes_a_grant_back(side):
    side.run("BEGIN TRANSACTION; GRANT SELECT ON OBJECT::dbo.t TO ann; ROLLBACK;")
    assert number(side, "SELECT a FROM dbo.t;", as_login(side, "ann")) == 229


def test_grants_members_and_owners_survive_a_crash(side):
    side.run("GRANT SELECT ON OBJECT::dbo.t TO ann; ALTER ROLE db_datawriter ADD MEMBER ann;")
    side.run("USE master; GRANT CREATE ANY DATABASE TO bob;")
    side.run("CREATE DATABASE bobs;", as_login(side, "bob", "master"))
    side.crash()
    session = as_login(side, "ann")
    assert side.rows("SELECT a FROM dbo.t;", session) == [(1,)]
    assert number(side, "UPDATE dbo.t SET a = 3;", session) is None
    assert side.value("USE bobs; SELECT USER_NAME();", as_login(side, "bob", "master")) == "dbo"


def test_the_creator_of_a_database_is_its_dbo(side):
    side.run("USE master; GRANT CREATE ANY DATABASE TO bob;")
    session = as_login(side, "bob", "master")
    side.run("CREATE DATABASE bobs;", session)
    side.run("USE bobs; CREATE TABLE dbo.x (a int); ALTER DATABASE bobs SET NEW_BROKER;", session)
    assert side.value("SELECT IS_MEMBER(N'db_owner');", session) == 1
    assert side.rows("SELECT SUSER_SNAME(owner_sid) FROM sys.databases WHERE name = N'bobs';", session) == [("bob",)]
    assert number(side, "SELECT * FROM sys.dm_os_wait_stats;", session) == 300


def test_a_principal_created_again_has_none_of_its_former_permissions(side):
    side.run("GRANT SELECT ON OBJECT::dbo.t TO ann; DROP USER ann; CREATE USER ann FOR LOGIN ann;")
    assert number(side, "SELECT a FROM dbo.t;", as_login(side, "ann")) == 229
    side.run("GRANT SEND ON SERVICE::s TO ann; DROP USER ann; CREATE USER ann FOR LOGIN ann;")
    assert not side.engine.databases.get("shop").catalog.services["s"].senders, "the broker remembers ann"
    side.run("USE master; CREATE MASTER KEY ENCRYPTION BY PASSWORD = 'x'; CREATE CERTIFICATE c WITH SUBJECT = 'c';")
    side.run(
        "CREATE ENDPOINT e STATE = STARTED AS TCP (LISTENER_PORT = 5022) FOR SERVICE_BROKER (AUTHENTICATION = CERTIFICATE c);"
    )
    side.run("GRANT CONNECT ON ENDPOINT::e TO bob;")
    side.run("USE master; ALTER SERVER ROLE sysadmin ADD MEMBER bob; DROP LOGIN bob;")
    side.run("CREATE LOGIN bob WITH PASSWORD = 'Secret-word-1';")
    assert side.value("SELECT IS_SRVROLEMEMBER(N'sysadmin');", as_login(side, "bob", "master")) == 0
    assert "bob" not in side.engine.link.endpoint.connect_granted_to


def test_who_keeps_control_of_a_service_may_still_send_when_send_is_revoked_and_nobody_when_it_is_denied(side):
    senders = lambda: side.engine.databases.get("shop").catalog.services["s"].senders  # noqa: E731
    side.run("GRANT CONTROL ON SERVICE::s TO ann; GRANT SEND ON SERVICE::s TO ann; REVOKE SEND ON SERVICE::s FROM ann;")
    assert senders() == {"ann"}
    side.run("DENY SEND ON SERVICE::s TO ann;")
    assert not senders()
    side.run("REVOKE SEND ON SERVICE::s FROM ann;")
    assert senders() == {"ann"}


# -- modules -----------------------------------------------------------------------------------------------------------


def test_execute_permission_covers_what_a_procedure_does_to_objects_of_its_owner(side):
    side.run("GRANT EXECUTE ON OBJECT::dbo.read_t TO ann; GRANT EXECUTE ON OBJECT::dbo.call_read_t TO ann;")
    session = as_login(side, "ann")
    assert side.rows("EXECUTE dbo.read_t;", session) == [(1,)]
    side.run("REVOKE EXECUTE ON OBJECT::dbo.read_t FROM ann;")
    assert side.rows("EXECUTE dbo.call_read_t;", session) == [(1,)]


def test_dynamic_sql_breaks_the_ownership_chain_unless_the_procedure_executes_as_owner(side):
    side.run("GRANT EXECUTE ON SCHEMA::dbo TO ann;")
    session = as_login(side, "ann")
    assert number(side, "EXECUTE dbo.read_t_by_text;", session) == 229
    assert side.rows("EXECUTE dbo.read_t_by_text_as_owner;", session) == [(1,)]
    assert number(side, "SELECT a FROM dbo.t;", session) == 229  # the context is back


def test_a_procedure_that_executes_as_owner_is_dbo_without_server_permissions(side):
    side.run("GRANT EXECUTE ON OBJECT::dbo.who TO ann;")
    assert side.rows("EXECUTE dbo.who;", as_login(side, "ann")) == [("dbo", "sa", "ann", 0)]


def test_a_procedure_can_execute_as_self_or_as_a_user(side):
    side.run("CREATE USER reader WITHOUT LOGIN; GRANT SELECT ON OBJECT::dbo.t TO reader;")
    side.run("CREATE PROCEDURE dbo.as_reader WITH EXECUTE AS 'reader' AS EXECUTE (N'SELECT a FROM dbo.t;');")
    side.run("CREATE PROCEDURE dbo.as_self WITH EXECUTE AS SELF AS SELECT USER_NAME();")
    side.run("GRANT EXECUTE ON SCHEMA::dbo TO ann;")
    session = as_login(side, "ann")
    assert side.rows("EXECUTE dbo.as_reader;", session) == [(1,)]
    assert side.rows("EXECUTE dbo.as_self;", session) == [("dbo",)]


def test_send_in_a_procedure_needs_receive_permission_of_its_context(side):
    side.run("CREATE PROCEDURE dbo.send_as_caller @h uniqueidentifier AS SEND ON CONVERSATION @h (0x01);")
    side.run(
        "CREATE PROCEDURE dbo.send_as_owner @h uniqueidentifier WITH EXECUTE AS OWNER AS SEND ON CONVERSATION @h (0x01);"
    )
    side.run("GRANT EXECUTE ON SCHEMA::dbo TO ann;")
    begin = "BEGIN DIALOG @h FROM SERVICE s TO SERVICE 's' ON CONTRACT [DEFAULT] WITH ENCRYPTION = OFF"
    handle = side.value(f"DECLARE @h uniqueidentifier; {begin}; SELECT @h;")
    session = as_login(side, "ann")
    assert number(side, f"SEND ON CONVERSATION '{handle}' (0x01);", session) == 229
    assert number(side, f"EXECUTE dbo.send_as_caller '{handle}';", session) == 229
    assert number(side, f"EXECUTE dbo.send_as_owner '{handle}';", session) is None
    assert number(side, f"END CONVERSATION '{handle}';", session) == 229
    side.run("GRANT RECEIVE ON OBJECT::dbo.q TO ann;")
    assert number(side, f"EXECUTE dbo.send_as_caller '{handle}';", session) is None
    assert number(side, f"END CONVERSATION '{handle}' WITH CLEANUP;", session) == 28006


def test_an_activated_procedure_runs_as_the_queues_user(side):
    side.run("CREATE TABLE dbo.seen (who sysname);")
    side.run("CREATE PROCEDURE dbo.see AS BEGIN RECEIVE * FROM dbo.q; INSERT INTO dbo.seen VALUES (USER_NAME()); END;")
    side.run("CREATE USER reader WITHOUT LOGIN; GRANT EXECUTE ON OBJECT::dbo.see TO reader;")
    activation = "ACTIVATION (STATUS = ON, PROCEDURE_NAME = dbo.see, MAX_QUEUE_READERS = 1, EXECUTE AS"
    begin = "BEGIN DIALOG @h FROM SERVICE s TO SERVICE 's' ON CONTRACT [DEFAULT] WITH ENCRYPTION = OFF"
    for user in ("OWNER", "'reader'"):
        side.run(f"ALTER QUEUE dbo.q WITH {activation} {user});")
        side.run(f"DECLARE @h uniqueidentifier; {begin}; SEND ON CONVERSATION @h (0x01);")
        side.world.run_for(20)
    assert side.rows("SELECT DISTINCT who FROM dbo.seen ORDER BY who;") == [("dbo",), ("reader",)]


# -- functions ---------------------------------------------------------------------------------------------------------


def test_functions_show_the_permissions_that_are_checked(side):
    side.run("GRANT EXECUTE ON OBJECT::dbo.read_t TO ann; ALTER ROLE db_datareader ADD MEMBER ann;")
    side.run("USE master; GRANT ALTER ANY LOGIN TO ann; USE shop;")
    asked = """
        SELECT HAS_PERMS_BY_NAME(N'dbo.read_t', N'OBJECT', N'EXECUTE'), HAS_PERMS_BY_NAME(N'dbo.t', N'OBJECT', N'SELECT'),
            HAS_PERMS_BY_NAME(N'dbo.t', N'OBJECT', N'INSERT'), HAS_PERMS_BY_NAME(NULL, NULL, N'ALTER ANY LOGIN'),
            HAS_PERMS_BY_NAME(NULL, NULL, N'CREATE LOGIN'), HAS_PERMS_BY_NAME(NULL, NULL, N'VIEW SERVER STATE'),
            HAS_PERMS_BY_NAME(DB_NAME(), N'DATABASE', N'CONTROL'), HAS_PERMS_BY_NAME(N's', N'SERVICE', N'SEND'),
            HAS_PERMS_BY_NAME(N'nothing', N'OBJECT', N'SELECT'), HAS_PERMS_BY_NAME(NULL, NULL, N'FLY'),
            IS_MEMBER(N'db_datareader'), IS_MEMBER(N'db_owner'),
            IS_SRVROLEMEMBER(N'sysadmin'), IS_SRVROLEMEMBER(N'public'), IS_SRVROLEMEMBER(N'nonsense'),
            USER_NAME(), SUSER_SNAME();
    """
    own = (1, 1, 0, 1, 1, 0, 0, 0, None, None, 1, 0, 0, 1, None, "ann", "ann")
    assert side.rows(asked, as_login(side, "ann")) == [own]
    sa = (1, 1, 1, 1, 1, 1, 1, 1, None, None, 0, 1, 1, 1, None, "dbo", "sa")
    assert side.rows(asked) == [sa]


def test_views_show_grants_until_their_securable_is_dropped(side):
    side.run("GRANT EXECUTE ON OBJECT::dbo.read_t TO ann; DENY SELECT ON SCHEMA::dbo TO public;")
    side.run("GRANT SEND ON SERVICE::s TO ann;")
    granted = """
        SELECT p.class_desc, p.permission_name, p.state_desc, g.name
        FROM sys.database_permissions AS p
        JOIN sys.database_principals AS g ON g.principal_id = p.grantee_principal_id
        WHERE p.permission_name <> N'CONNECT' ORDER BY p.class;
    """
    assert side.rows(granted) == [
        ("OBJECT_OR_COLUMN", "EXECUTE", "GRANT", "ann"),
        ("SCHEMA", "SELECT", "DENY", "public"),
        ("SERVICE", "SEND", "GRANT", "ann"),
    ]
    side.run("BEGIN TRANSACTION; DROP SERVICE s; DROP QUEUE dbo.q; DROP PROCEDURE dbo.read_t; ROLLBACK;")
    assert len(side.rows(granted)) == 3
    side.run("DROP SERVICE s; DROP QUEUE dbo.q; DROP PROCEDURE dbo.read_t;")
    assert side.rows(granted) == [("SCHEMA", "SELECT", "DENY", "public")]
    side.run("USE master; GRANT VIEW SERVER STATE TO ann;")
    rows = side.rows(
        """
        SELECT p.permission_name, g.name FROM sys.server_permissions AS p
        JOIN sys.server_principals AS g ON g.principal_id = p.grantee_principal_id
        WHERE p.permission_name = N'VIEW SERVER STATE';
        """
    )
    assert rows == [("VIEW SERVER STATE", "ann")]


def test_the_default_database_of_a_login_exists_and_is_kept(side):
    defaults = "SELECT name, default_database_name FROM sys.server_principals WHERE type = 'S' ORDER BY name"
    side.run(
        "CREATE LOGIN carl WITH PASSWORD = 'x', DEFAULT_DATABASE = [shop], DEFAULT_LANGUAGE = us_english, SID = 0x01"
    )
    side.run("CREATE LOGIN dora WITH PASSWORD = 'x'; ALTER LOGIN dora WITH CHECK_POLICY = OFF, DEFAULT_DATABASE = shop")
    side.run("ALTER LOGIN carl WITH PASSWORD = 'y'")
    side.crash()
    assert {("carl", "shop"), ("dora", "shop"), ("sa", "master")} <= set(side.rows(defaults))
    assert side.error("CREATE LOGIN eve WITH PASSWORD = 'x', DEFAULT_DATABASE = nowhere").number == 15010
    assert side.error("CREATE LOGIN eve WITH DEFAULT_DATABASE = shop").number == 102


def test_other_logins_are_hidden_without_view_any_definition(side):
    session = as_login(side, "ann")
    logins = "SELECT name FROM sys.server_principals WHERE type = 'S' ORDER BY name;"
    assert side.rows(logins, session) == [("ann",), ("sa",)]
    assert side.rows("SELECT session_id FROM sys.dm_exec_sessions;", session) == [(session.spid,)]
    side.run("USE master; GRANT VIEW ANY DEFINITION TO ann; GRANT VIEW SERVER STATE TO ann;")
    assert side.rows(logins, session) == [("ann",), ("bob",), ("sa",)]
    assert len(side.rows("SELECT session_id FROM sys.dm_exec_sessions;", session)) > 1


# -- logins of a lab --------------------------------------------------------------------------------------------------


def test_the_login_of_test_clients_can_only_send():
    linked = Linked()
    linked.pool(2)
    [side] = linked.initiators
    handle = side.value("SELECT handle FROM dbo.dialogs WHERE id = 1;")
    client = as_login(side, "lab_Client", "SSBInitiator1")
    side.call("dbo.SendMessage", handle, body(1, 1, 0), session=client)
    side.call("dbo.SendMessageOnNewDialog", linked.guid(), body(1, 1, 0), session=client)
    for text, expected in {
        "SELECT handle FROM dbo.dialogs;": 229,
        "SELECT * FROM dbo.MySSBLabTestQueue;": 229,
        "RECEIVE * FROM dbo.MySSBLabTestQueue;": 229,
        f"SEND ON CONVERSATION '{handle}' MESSAGE TYPE [//MySSB.com/Lab/M_Test] (0x01);": 229,
        f"END CONVERSATION '{handle}';": 229,
        "EXECUTE dbo.WarmUpDialogs;": 229,
        "EXECUTE dbo.CreateDialogs 1, '00000000-0000-0000-0000-000000000000';": 229,
        "CREATE TABLE dbo.x (a int);": 262,
        "CREATE PROCEDURE dbo.x AS SELECT 1;": 262,
        "ALTER PROCEDURE dbo.SendMessage @handle uniqueidentifier, @body varbinary(max) AS SELECT 1;": 15151,
        "GRANT SELECT ON OBJECT::dbo.dialogs TO [lab_Client];": 15151,
        "ALTER DATABASE SSBInitiator1 SET NEW_BROKER;": 5011,
        "SELECT * FROM sys.dm_exec_requests AS r JOIN sys.dm_os_wait_stats AS w ON 1 = 1;": 300,
        "USE master; CREATE TABLE dbo.x (a int);": 262,
        "USE master; CREATE CERTIFICATE c WITH SUBJECT = 'c';": 15247,
        "USE master; ALTER LOGIN [lab_User_Target] WITH PASSWORD = 'x';": 15151,
    }.items():
        assert number(side, text, client) == expected, text
        side.run("USE SSBInitiator1;", client)
    assert side.rows("SELECT name FROM sys.server_principals WHERE type = 'S' ORDER BY name;", client) == [
        ("lab_Client",),
        ("sa",),
    ]
    linked.world.run_for(10)
    assert linked.target.value("SELECT COUNT(*) FROM dbo.messageDrop;") == 4


def test_the_minimal_rights_are_needed_and_enough_to_build_a_lab():
    world = World()
    side = world.side("Target")
    side.run("CREATE LOGIN harness WITH PASSWORD = 'Secret-word-1';")
    session = as_login(side, "harness", "master")
    assert number(side, "CREATE MASTER KEY ENCRYPTION BY PASSWORD = 'x';", session) == 15247
    side.script("server/minimal_rights.sql", Login="harness")
    sa, side.session = side.session, session
    linked = Linked.__new__(Linked)
    linked.world, linked.target, linked.initiators, linked.sides = world, side, [], [side]
    linked.set_up(side, 5114)
    other = world.side("Initiator1")
    linked.set_up(other, 5115)
    linked.introduce(side, other)
    assert side.value("SELECT IS_SRVROLEMEMBER(N'sysadmin');") == 0
    assert side.value("SELECT USER_NAME();") == "dbo"
    rows = side.rows("SELECT name, principal_id FROM sys.service_broker_endpoints;", sa)
    assert rows[0][0] == "lab_Endpoint_SRPerf_1"


# -- EXECUTE AS as a statement ----------------------------------------------------------------------------------------


def test_execute_as_holds_until_revert_and_is_nested(side):
    session = as_login(side, "sa")
    side.run("EXECUTE AS USER = 'dbo'; EXEC AS USER = N'ann';", session)
    assert side.value("SELECT USER_NAME();", session) == "ann"
    assert number(side, "SELECT a FROM dbo.t;", session) == 229
    assert side.value("REVERT; SELECT USER_NAME();", session) == "dbo"
    assert number(side, "CREATE DATABASE other;", session) == 262  # dbo of a database is nobody on the server
    side.run("REVERT; REVERT; CREATE DATABASE other;", session)


def test_execute_as_ends_with_its_procedure_string_or_connection(side):
    session = as_login(side, "sa")
    side.run("CREATE PROCEDURE dbo.become AS EXECUTE AS USER = 'ann'; SELECT USER_NAME();", session)
    assert side.value("EXECUTE dbo.become;", session) == "ann"
    assert side.value("EXECUTE (N'EXECUTE AS USER = ''ann''; SELECT USER_NAME();');", session) == "ann"
    assert side.value("EXECUTE sp_executesql N'EXECUTE AS USER = ''ann''; SELECT USER_NAME();';", session) == "ann"
    side.run("CREATE TRIGGER dbo.tr ON dbo.t AFTER UPDATE AS EXECUTE AS USER = 'ann';", session)
    side.run("UPDATE dbo.t SET a = 1; REVERT;", session)
    assert side.value("SELECT USER_NAME();", session) == "dbo"
    assert not session.impersonated
    side.run("EXECUTE AS USER = 'ann';", session)
    session.reset()
    assert side.value("USE shop; REVERT; SELECT USER_NAME();", session) == "dbo"


def test_a_user_may_be_nobody_else_and_nobody_is_a_user_that_does_not_exist(side):
    ann = as_login(side, "ann")
    assert number(side, "EXECUTE AS USER = 'dbo';", ann) == 15517
    assert number(side, "EXECUTE AS USER = 'ann'; REVERT;", ann) is None
    assert number(side, "EXECUTE AS USER = 'nobody';", as_login(side, "sa")) == 15517
    caught = "BEGIN TRY EXECUTE AS USER = 'nobody'; END TRY BEGIN CATCH SELECT ERROR_NUMBER(); END CATCH;"
    assert side.value(caught, as_login(side, "sa")) == 15517
    side.run("CREATE USER bob FOR LOGIN bob; GRANT IMPERSONATE ON USER::bob TO ann;")
    assert side.value("EXECUTE AS USER = 'bob'; SELECT USER_NAME();", ann) == "bob"
