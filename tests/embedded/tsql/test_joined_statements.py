"""Two statements in one batch are those two, whether or not a semicolon stands between them."""

from collections.abc import Iterator
from dataclasses import fields, is_dataclass
from types import FunctionType
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.embedded.errors import SqlServerError
from harness.embedded.tsql.statements.batches import parse
from harness.embedded.tsql.statements.registry import GRAMMAR
from tests.embedded.tsql.sides import Side, World
from tests.examples import share

SETUP = [
    "CREATE DATABASE db",
    "CREATE DATABASE spare",
    "USE db",
    "CREATE TABLE dbo.t (id int IDENTITY NOT NULL PRIMARY KEY, n int NOT NULL)",
    "INSERT dbo.t (n) VALUES (10), (20)",
    "CREATE PROCEDURE dbo.p @a int = 0, @b int = 0 OUTPUT AS BEGIN SET @b = @a; INSERT dbo.t (n) VALUES (@a); RETURN 7; END",
    "CREATE PROCEDURE dbo.p1 AS RETURN 1",
    "CREATE TABLE dbo.watched (n int, INDEX ix (n), CONSTRAINT CK_watched CHECK (n > 0))",
    "CREATE VIEW dbo.v AS SELECT n FROM dbo.t",
    "CREATE TRIGGER dbo.tr ON dbo.watched AFTER INSERT AS RETURN",
    "CREATE TRIGGER dbo.tr1 ON dbo.watched AFTER UPDATE AS RETURN",
    "DISABLE TRIGGER dbo.tr1 ON dbo.watched",
    "CREATE MESSAGE TYPE m VALIDATION = NONE; CREATE CONTRACT k (m SENT BY ANY)",
    "CREATE QUEUE dbo.q; CREATE QUEUE dbo.q1; CREATE SERVICE s ON QUEUE dbo.q ([DEFAULT], k)",
    "CREATE SERVICE s1 ON QUEUE dbo.q1",
    "CREATE SCHEMA sc",
    "CREATE XML SCHEMA COLLECTION xsc AS N'<s:schema xmlns:s=\"http://www.w3.org/2001/XMLSchema\"/>'",
    "CREATE LOGIN l WITH PASSWORD = 'secret'; CREATE LOGIN l1 WITH PASSWORD = 'secret'; CREATE USER u FOR LOGIN l",
    "CREATE MASTER KEY; CREATE CERTIFICATE c WITH SUBJECT = 'c'; CREATE USER u1 WITHOUT LOGIN",
    "GRANT SEND ON SERVICE::s TO u1",
    "CREATE ROUTE r WITH ADDRESS = 'LOCAL'; CREATE REMOTE SERVICE BINDING b TO SERVICE 'far' WITH USER = u",
    "CREATE BROKER PRIORITY bp FOR CONVERSATION SET (PRIORITY_LEVEL = 3)",
    "CREATE EVENT NOTIFICATION e ON QUEUE dbo.q FOR BROKER_QUEUE_DISABLED TO SERVICE 's', 'current database'",
    "CREATE ENDPOINT ep STATE = STOPPED AS TCP (LISTENER_PORT = 4022) FOR SERVICE_BROKER (AUTHENTICATION = WINDOWS)",
    "DECLARE c0 CURSOR FOR SELECT n FROM dbo.t ORDER BY n; OPEN c0",
    "DECLARE c1 CURSOR FOR SELECT n FROM dbo.t ORDER BY n",
]
# What the statements below use.
PRELUDE = """
    DECLARE @i int = 1, @h uniqueidentifier, @g uniqueidentifier;
    DECLARE @t table (a int);
    BEGIN DIALOG @h FROM SERVICE s TO SERVICE 's', 'CURRENT DATABASE' ON CONTRACT k WITH ENCRYPTION = OFF;
    SEND ON CONVERSATION @h MESSAGE TYPE m (N'first');
"""

# One or more for each beginning of a statement, above all those with something optional at their end.
STATEMENTS = """
    (SELECT 1 AS a UNION SELECT 2) INTERSECT SELECT 2
    ALTER AUTHORIZATION ON DATABASE::db TO l
    ALTER BROKER PRIORITY bp FOR CONVERSATION SET (PRIORITY_LEVEL = 4)
    ALTER DATABASE tempdb ADD FILE (NAME = more, FILENAME = 'more.ndf')
    ALTER DATABASE tempdb ADD LOG FILE (NAME = l2, FILENAME = 'l2.ldf', SIZE = 3)
    ALTER DATABASE db MODIFY FILE (NAME = db, SIZE = 16MB)
    ALTER DATABASE db SET DISABLE_BROKER
    ALTER DATABASE db SET ENABLE_BROKER
    ALTER DATABASE db SET ERROR_BROKER_CONVERSATIONS
    ALTER DATABASE db SET HONOR_BROKER_PRIORITY ON
    ALTER DATABASE CURRENT SET HONOR_BROKER_PRIORITY ON, DISABLE_BROKER WITH NO_WAIT
    ALTER DATABASE db SET NEW_BROKER WITH ROLLBACK IMMEDIATE
    ALTER DATABASE db SET ALLOW_SNAPSHOT_ISOLATION ON
    ALTER DATABASE db SET AUTO_CLOSE OFF
    ALTER DATABASE db SET AUTO_SHRINK OFF, MULTI_USER
    ALTER DATABASE db SET COMPATIBILITY_LEVEL = 90
    ALTER DATABASE db SET DELAYED_DURABILITY = FORCED
    ALTER DATABASE db SET PAGE_VERIFY CHECKSUM
    ALTER DATABASE db SET QUERY_STORE = ON
    ALTER DATABASE db SET READ_COMMITTED_SNAPSHOT ON WITH NO_WAIT
    ALTER DATABASE db SET READ_WRITE
    ALTER DATABASE db SET RECOVERY SIMPLE
    ALTER DATABASE db SET SINGLE_USER WITH ROLLBACK IMMEDIATE
    ALTER DATABASE db SET TRUSTWORTHY ON
    ALTER ENDPOINT ep STATE = DISABLED
    ALTER ENDPOINT ep FOR SERVICE_BROKER (AUTHENTICATION = WINDOWS, ENCRYPTION = DISABLED)
    ALTER LOGIN l DISABLE
    ALTER LOGIN l WITH PASSWORD = 'other'
    ALTER CERTIFICATE c WITH ACTIVE FOR BEGIN_DIALOG = OFF
    ALTER MASTER KEY ADD ENCRYPTION BY SERVICE MASTER KEY
    ALTER MESSAGE TYPE m VALIDATION = EMPTY
    ALTER QUEUE dbo.q WITH STATUS = OFF
    ALTER QUEUE dbo.q WITH RETENTION = ON, POISON_MESSAGE_HANDLING (STATUS = OFF)
    ALTER QUEUE dbo.q1 WITH ACTIVATION (PROCEDURE_NAME = dbo.p1, MAX_QUEUE_READERS = 2, EXECUTE AS OWNER)
    ALTER REMOTE SERVICE BINDING b WITH USER = u1, ANONYMOUS = ON
    ALTER ROLE db_owner ADD MEMBER u
    ALTER ROUTE r WITH SERVICE_NAME = 'x', LIFETIME = 10
    ALTER SERVER ROLE sysadmin ADD MEMBER l
    ALTER SERVICE s1 ON QUEUE dbo.q
    ALTER SERVICE s1 (ADD CONTRACT k)
    ALTER TABLE dbo.t ADD more int
    ALTER TABLE dbo.t ADD more int NOT NULL DEFAULT 1 WITH VALUES
    ALTER TABLE dbo.t ADD CONSTRAINT UQ_t UNIQUE (n)
    ALTER TABLE dbo.t ADD DEFAULT 7 FOR n
    ALTER TABLE dbo.t WITH NOCHECK ADD CHECK (n > 100)
    ALTER TABLE dbo.watched ADD FOREIGN KEY (n) REFERENCES dbo.t (id) ON DELETE NO ACTION
    ALTER TABLE dbo.watched CHECK CONSTRAINT CK_watched
    ALTER TABLE dbo.watched DROP CONSTRAINT IF EXISTS CK_watched
    DROP VIEW IF EXISTS dbo.v
    ALTER USER u WITH LOGIN = l1
    BEGIN PRINT 'in a block' END
    BEGIN CONVERSATION TIMER (@h) TIMEOUT = 60
    BACKUP CERTIFICATE c TO FILE = 'c.cer'
    CREATE TYPE dbo.tt AS TABLE (a int)
    CREATE TYPE ph FROM nvarchar(20) NOT NULL
    DROP TYPE dbo.tt
    DROP FUNCTION f, dbo.g
    BACKUP MASTER KEY TO FILE = 'm' ENCRYPTION BY PASSWORD = 'p'
    RESTORE MASTER KEY FROM FILE = 'm' DECRYPTION BY PASSWORD = 'p' ENCRYPTION BY PASSWORD = 'q' FORCE
    ADD SIGNATURE TO OBJECT::dbo.p BY CERTIFICATE c WITH PASSWORD = 'p'
    DROP SIGNATURE FROM dbo.p BY CERTIFICATE c
    BEGIN DIALOG @g FROM SERVICE s TO SERVICE 's'
    BEGIN DIALOG CONVERSATION @g FROM SERVICE s TO SERVICE 's', 'CURRENT DATABASE' ON CONTRACT k
    BEGIN DIALOG @g FROM SERVICE s TO SERVICE 's' WITH LIFETIME = 60, ENCRYPTION = OFF
    BEGIN TRAN
    BEGIN TRANSACTION named
    BEGIN TRY THROW 50000, 'x', 1; END TRY BEGIN CATCH PRINT ERROR_MESSAGE() END CATCH
    CLOSE c0
    COMMIT
    COMMIT TRAN
    CREATE BROKER PRIORITY bp1 FOR CONVERSATION
    CREATE CERTIFICATE c2 WITH SUBJECT = 'c2'
    CREATE CERTIFICATE c3 WITH SUBJECT = 'c3', EXPIRY_DATE = '20300101' ACTIVE FOR BEGIN_DIALOG = OFF
    CREATE CONTRACT k1 (m SENT BY INITIATOR)
    CREATE DATABASE another
    CREATE DATABASE another COLLATE SQL_Latin1_General_CP1_CI_AS
    CREATE ENDPOINT ep1 AS TCP (LISTENER_PORT = 4023) FOR SERVICE_BROKER (AUTHENTICATION = WINDOWS)
    CREATE EVENT NOTIFICATION e1 ON QUEUE dbo.q FOR BROKER_QUEUE_DISABLED TO SERVICE 's', 'current database'
    CREATE INDEX ix1 ON dbo.t (n)
    CREATE NONCLUSTERED INDEX ix1 ON dbo.t (n) WHERE n > 0
    CREATE UNIQUE INDEX ix1 ON dbo.t (id, n) INCLUDE (n)
    CREATE UNIQUE NONCLUSTERED INDEX ix1 ON dbo.t (id) WITH (FILLFACTOR = 80)
    CREATE CLUSTERED INDEX ix1 ON dbo.watched (n) ON [PRIMARY]
    CREATE UNIQUE CLUSTERED INDEX ix1 ON dbo.watched (n)
    DROP INDEX IF EXISTS ix ON dbo.watched
    CREATE LOGIN l2 WITH PASSWORD = 'secret', CHECK_POLICY = OFF
    CLOSE MASTER KEY
    OPEN MASTER KEY DECRYPTION BY PASSWORD = 'x'
    CREATE MASTER KEY
    CREATE XML SCHEMA COLLECTION xsc1 AS N'<s:schema xmlns:s="http://www.w3.org/2001/XMLSchema"/>'
    DROP XML SCHEMA COLLECTION dbo.xsc
    CREATE MESSAGE TYPE m1
    CREATE MESSAGE TYPE m1 VALIDATION = WELL_FORMED_XML
    CREATE QUEUE dbo.q2
    CREATE QUEUE dbo.q2 WITH STATUS = ON
    CREATE QUEUE dbo.q2 WITH RETENTION = ON ON [PRIMARY]
    CREATE REMOTE SERVICE BINDING b1 TO SERVICE 'else' WITH USER = u
    CREATE ROUTE r1 WITH ADDRESS = 'LOCAL'
    DROP SCHEMA IF EXISTS sc
    CREATE SERVICE s2 ON QUEUE dbo.q1
    CREATE SERVICE s2 ON QUEUE dbo.q1 (k)
    CREATE TABLE dbo.t1 (a int DEFAULT 1, PRIMARY KEY (a))
    CREATE TABLE dbo.t2 (a int NOT NULL) ON [PRIMARY]
    CREATE TABLE #t2 (a int CHECK (a > 0))
    SELECT n INTO dbo.copied FROM dbo.t
    CREATE USER u2 WITHOUT LOGIN
    CREATE USER u2 FOR LOGIN l1 WITH DEFAULT_SCHEMA = dbo
    CREATE USER l1
    DBCC TRACEON (8628)
    DBCC TRACEOFF (8628) WITH NO_INFOMSGS
    DEALLOCATE c1
    DECLARE c2 CURSOR LOCAL FAST_FORWARD FOR SELECT n FROM dbo.t
    DECLARE @x int = 5
    DELETE dbo.t
    DELETE TOP (1) FROM dbo.t WHERE n > 10
    DELETE FROM dbo.t OUTPUT deleted.n
    DENY SEND ON SERVICE::s TO u CASCADE
    DISABLE TRIGGER dbo.tr ON dbo.watched
    DROP BROKER PRIORITY bp
    DROP CERTIFICATE c
    DROP CONTRACT k
    DROP DATABASE IF EXISTS spare
    DROP ENDPOINT ep
    DROP EVENT NOTIFICATION e ON QUEUE dbo.q
    DROP LOGIN l1
    DROP MASTER KEY
    DROP MESSAGE TYPE m
    DROP PROC dbo.p
    DROP PROCEDURE IF EXISTS dbo.p
    DROP QUEUE dbo.q1
    DROP REMOTE SERVICE BINDING b
    DROP ROUTE r
    DROP SERVICE s1
    DROP TABLE dbo.t
    DROP TRIGGER dbo.tr
    DROP TRIGGER IF EXISTS dbo.tr, dbo.tr2
    DROP USER u1
    ENABLE TRIGGER ALL ON dbo.watched
    END CONVERSATION @h
    END CONVERSATION @h WITH ERROR = 5 DESCRIPTION = 'five'
    END CONVERSATION @h WITH CLEANUP
    EXEC dbo.p
    EXEC @i = dbo.p 3, @b = @i OUTPUT
    EXECUTE sp_executesql N'PRINT 1'
    EXEC ('PRINT 2')
    EXECUTE ('PRINT 3')
    EXEC AS USER = 'dbo'
    EXECUTE AS USER = 'u'
    REVERT
    FETCH c0
    FETCH NEXT FROM c0 INTO @i
    GET CONVERSATION GROUP @g FROM dbo.q
    GRANT SEND ON SERVICE::s TO u
    GRANT RECEIVE ON dbo.q TO u
    IF 1 = 1 PRINT 'then'
    IF 1 = 0 PRINT 'then' ELSE PRINT 'else'
    INSERT dbo.t DEFAULT VALUES
    INSERT BULK dbo.t ([n] int NOT NULL)
    INSERT BULK dbo.t (n int) WITH (KEEP_NULLS, ROWS_PER_BATCH = 5)
    INSERT dbo.t (n) VALUES (1)
    INSERT INTO @t SELECT n FROM dbo.t
    MOVE CONVERSATION @h TO @g
    OPEN c1
    PRINT 'text'
    RAISERROR ('raised', 16, 1)
    RAISERROR ('raised', 16, 1) WITH NOWAIT
    RECEIVE * FROM dbo.q
    RECEIVE TOP (1) message_body FROM dbo.q WHERE conversation_handle = @h
    CHECKPOINT
    CHECKPOINT 10
    RECONFIGURE
    RECONFIGURE WITH OVERRIDE
    RETURN
    REVOKE SEND ON SERVICE::s FROM u1
    ROLLBACK
    ROLLBACK TRANSACTION
    SAVE TRAN sp
    SELECT n FROM dbo.t
    SELECT 1 AS one
    SELECT n FROM dbo.t WITH (NOLOCK) WHERE n = 10 ORDER BY n DESC
    SELECT @i = n FROM dbo.t
    SEND ON CONVERSATION @h
    SEND ON CONVERSATION @h MESSAGE TYPE m (N'again')
    SET NOCOUNT ON
    SET LOCK_TIMEOUT 5
    SET TRANSACTION ISOLATION LEVEL SERIALIZABLE
    SET @i = 4
    SET @i += 4
    THROW 50001, 'thrown', 1
    TRUNCATE TABLE dbo.t
    UPDATE dbo.t SET n = 3
    UPDATE t SET n += 1 FROM dbo.t AS t WHERE t.n = 10
    USE spare
    WAITFOR (RECEIVE TOP (1) status FROM dbo.q1), TIMEOUT 10
    WAITFOR (GET CONVERSATION GROUP @g FROM dbo.q)
    WAITFOR DELAY '00:00:01'
    WHILE @i < 3 BEGIN SET @i += 1 PRINT @i IF @i = 2 BREAK END
    WHILE @i < 3 SET @i = @i + 1
    WITH w AS (SELECT n FROM dbo.t) SELECT * FROM w
""".strip().splitlines()
STATEMENTS = [text.strip() for text in STATEMENTS]

# "SEND, RECEIVE, GET and MOVE CONVERSATION GROUP, THROW, WITH, DISABLE and ENABLE TRIGGER: the preceding statement must end with a semicolon."
NEEDS_SEMICOLON = ("SEND", "RECEIVE", "GET", "MOVE", "THROW", "WITH", "DISABLE", "ENABLE")
SECOND = [text for text in STATEMENTS if not text.startswith(("(", *NEEDS_SEMICOLON))]
ALONE_IN_A_BATCH = (
    "CREATE SCHEMA",
    *(
        f"{verb} {kind}"
        for verb in ("CREATE", "ALTER", "CREATE OR ALTER")
        for kind in ("FUNCTION", "PROC", "TRIGGER", "VIEW")
    ),
)
ONLY_IN_A_LOOP = ("BREAK", "CONTINUE")
# Nothing to configure, to wait for or to go back to, and options of databases that change nothing here.
WITHOUT_EFFECT = (
    "ALTER TABLE dbo.watched CHECK CONSTRAINT",
    "CHECKPOINT",
    "RECONFIGURE",
    "RETURN",
    "REVERT",
    "WAITFOR DELAY",
    "DBCC TRACEOFF",
    "DECLARE",
    "ALTER DATABASE db SET ",
)
WITH_EFFECT = ("DISABLE_BROKER", "NEW_BROKER", "ERROR_BROKER_CONVERSATIONS", "HONOR_BROKER_PRIORITY")

EFFECTIVE = [
    text for text in STATEMENTS if not text.startswith(WITHOUT_EFFECT) or any(word in text for word in WITH_EFFECT)
]


def outcome(text: str) -> Any:
    """All that a batch of these statements changes, and all that it returns."""
    side = World().side("Here")
    for statement in SETUP:
        side.run(statement)
    results = side.results(f"{PRELUDE} {text}\n; SELECT @i, @h, @g; SELECT * FROM @t")
    state = list(_state(side))
    side.results("IF XACT_STATE() <> 0 COMMIT")
    side.world.run_for(1)
    sets = [([column.name for column in columns], rows) for columns, rows in results.sets]
    messages = [(message.number, message.text) for message in results.messages]
    return sets, results.counts, messages, state, sorted(side.store.rows.items(), key=repr)


def _state(side: Side) -> Iterator[Any]:
    session = side.session
    yield session.options, session.tran_count, session.savepoints, session.database.name, session.trace_flags
    yield session.bulk is not None, len(session.impersonated)
    yield [(name, cursor.is_open, cursor.position) for name, cursor in session.cursors.items()]
    queues = side.engine.databases["db"].catalog.queues
    yield [(queue.name, queue.depth) for queue in queues.values()]


def test_every_statement_is_among_them():
    missing = [
        " ".join(words)
        for words in GRAMMAR
        if not any(f"{text} ".startswith(" ".join(words)) for text in STATEMENTS)
        and not " ".join(words).startswith(ALONE_IN_A_BATCH + ONLY_IN_A_LOOP)
    ]
    assert missing == []


@pytest.fixture(scope="module")
def untouched() -> Any:
    return outcome("")


@pytest.mark.parametrize("text", EFFECTIVE)
def test_each_of_them_has_an_effect(text, untouched):
    assert outcome(text) != untouched


def parsed(text: str) -> list[Any]:
    """The statements of a batch in a form that can be compared."""
    return [_comparable(statement) for statement in parse(text)]


def _comparable(node: Any) -> Any:
    """A definition's functions are compared by their code and by what they enclose."""
    if isinstance(node, FunctionType):
        return node.__code__, [_comparable(cell.cell_contents) for cell in node.__closure__ or ()]
    if is_dataclass(node):
        return type(node), [_comparable(getattr(node, field.name)) for field in fields(node)]
    if isinstance(node, list | tuple):
        return [_comparable(each) for each in node]
    return {key: _comparable(each) for key, each in node.items()} if isinstance(node, dict) else node


@pytest.mark.parametrize("text", STATEMENTS)
def test_no_statement_swallows_the_one_after_it(text):
    insert = "INSERT dbo.t (n) VALUES (99)"
    assert parsed(f"{text} {insert}") == parsed(f"{text}; {insert}") == parsed(text) + parsed(insert)


@settings(max_examples=share(500))
@given(st.sampled_from(STATEMENTS), st.sampled_from(SECOND), st.sampled_from([" ", "\n", " /* ; */ ", "\n-- ;\n"]))
def test_two_statements_are_the_same_two_without_a_semicolon(first, second, between):
    assert parsed(f"{first}{between}{second}") == parsed(f"{first};{between}{second}")


@settings(max_examples=share(200))
@given(st.sampled_from(STATEMENTS), st.sampled_from([text for text in STATEMENTS if text.startswith(NEEDS_SEMICOLON)]))
def test_without_the_semicolon_it_needs_a_statement_is_itself_or_refused(first, second):
    """SQL Server's parser takes it where nothing else can stand: behind a condition, a value, a closing parenthesis."""
    try:
        joined = parsed(f"{first} {second}")
    except SqlServerError:
        return
    assert joined == parsed(first) + parsed(second)
