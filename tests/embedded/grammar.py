"""Batches made from the grammar of everything that `tsql.statements` knows, with values at the edge of every type.

`Batches(seed).batch(number)` depends on nothing but the two numbers. A template is text with `{name}` for a part, and
`«a|b|»` for a choice. `STATEMENTS` has a template for the words with which each registered statement begins; a test
compares it with the register, so a new statement needs a line here. One batch in eight is damaged: words are left out,
repeated, swapped or replaced.
"""

import random
import re

from harness.embedded.tsql import statements  # noqa: F401  registers the statements
from harness.embedded.tsql.catalog import VIEWS
from harness.embedded.tsql.translation.functions import FUNCTIONS

DEPTH_MAX = 4  # of templates in templates; below it a part is a constant or a name

STATEMENTS = {
    "ALTER AUTHORIZATION": "ON «DATABASE :: {database}|SERVICE :: {name}» TO {principal}",
    "ALTER BROKER PRIORITY": "{name} FOR CONVERSATION SET ({priority})",
    "ALTER DATABASE": (
        "«{database}|CURRENT» «SET «ENABLE_BROKER|DISABLE_BROKER|NEW_BROKER|ERROR_BROKER_CONVERSATIONS|TRUSTWORTHY "
        "{on_off}|RECOVERY SIMPLE|COMPATIBILITY_LEVEL = {int}|{name} {on_off}»« WITH ROLLBACK IMMEDIATE|»|ADD FILE "
        "({file})|ADD LOG FILE ({file})|MODIFY FILE ({file})»"
    ),
    "ALTER ENDPOINT": "{name} «STATE = STARTED|STATE = STOPPED|FOR SERVICE_BROKER ({endpoint})»",
    "ALTER LOGIN": "{principal} «ENABLE|DISABLE|WITH PASSWORD = {string}|WITH DEFAULT_DATABASE = {database}»",
    "ALTER MESSAGE TYPE": "{name} VALIDATION = «NONE|EMPTY|WELL_FORMED_XML|{name}»",
    "ALTER PROC": "{procedure}",
    "ALTER PROCEDURE": "{procedure}",
    "ALTER TRIGGER": "{trigger}",
    "ALTER QUEUE": "{object} «WITH {queue}|REBUILD|REBUILD WITH (MAXDOP = 2)|REORGANIZE»",
    "ALTER REMOTE SERVICE BINDING": "{name} WITH «USER = {principal}|ANONYMOUS = {on_off}»",
    "ALTER ROLE": "«db_owner|db_datareader|{name}» «ADD|DROP» MEMBER {principal}",
    "ALTER ROUTE": "{name} WITH {route}",
    "ALTER SERVER ROLE": "«sysadmin|processadmin|{name}» «ADD|DROP» MEMBER {principal}",
    "ALTER SERVICE": "{name} «ON QUEUE {object}|(«ADD|DROP» CONTRACT {name})»",
    "ALTER TABLE": (
        "{object} «ADD «{columns}|DEFAULT {expression} FOR {name}|{name} {type} DEFAULT {expression} WITH VALUES|CHECK "
        "({condition})|FOREIGN KEY ({name}) REFERENCES {object} ({name})»|DROP CONSTRAINT {name}|CHECK CONSTRAINT ALL|ALTER COLUMN "
        "{name} {type}« NOT NULL|»|«ENABLE|DISABLE» TRIGGER ALL»"
    ),
    "ALTER USER": "{principal} WITH LOGIN = {principal}",
    "BEGIN": "{statement}; {statement}; END",
    "BEGIN CONVERSATION TIMER": "({handle}) TIMEOUT = {expression}",
    "BEGIN DIALOG": (
        "« CONVERSATION|» {variable} FROM SERVICE {name} TO SERVICE {string}«, {string}|, 'CURRENT DATABASE'|»"
        "« ON CONTRACT {name}|»« WITH «RELATED_CONVERSATION = {handle}, |RELATED_CONVERSATION_GROUP = {handle}, |»"
        "«LIFETIME = {expression}, |»ENCRYPTION = {on_off}|»"
    ),
    "BEGIN TRAN": "«{name}|{variable}|»",
    "BEGIN TRANSACTION": "«{name}|{variable}|»",
    "BEGIN TRY": "{statement}; {statement}; END TRY BEGIN CATCH {statement}; END CATCH",
    "BREAK": "",
    "CHECKPOINT": "«{int}|»",
    "CLOSE": "«GLOBAL |»{name}",
    "COMMIT": "«TRAN|TRANSACTION {name}|WORK|TRAN {variable}|»",
    "CONTINUE": "",
    "CREATE BROKER PRIORITY": "{name} FOR CONVERSATION SET ({priority})",
    "CREATE CERTIFICATE": (
        "{name} «AUTHORIZATION {principal} |»«ENCRYPTION BY PASSWORD = {string} |»WITH SUBJECT = {string}"
        "«, START_DATE = {string}|»«, EXPIRY_DATE = {string}|»« ACTIVE FOR BEGIN_DIALOG = {on_off}|»"
        "«|; CREATE CERTIFICATE {name} FROM BINARY = {binary}|; CREATE CERTIFICATE {name} FROM FILE = {string} WITH "
        "PRIVATE KEY (FILE = {string}, DECRYPTION BY PASSWORD = {string})»"
    ),
    "CREATE CONTRACT": "{name} ({name} SENT BY «INITIATOR|TARGET|ANY», [DEFAULT] SENT BY ANY)",
    "CREATE DATABASE": "{database}« COLLATE Latin1_General_BIN2|»",
    "CREATE ENDPOINT": (
        "{name} STATE = «STARTED|STOPPED|DISABLED» AS TCP (LISTENER_PORT = {port}«, LISTENER_IP = ALL|, LISTENER_IP = "
        "(127.0.0.1)|, LISTENER_IP = ({string})|») FOR SERVICE_BROKER ({endpoint})"
    ),
    "CREATE EVENT NOTIFICATION": (
        "{name} ON «QUEUE {object}|DATABASE|SERVER»« WITH FAN_IN|» FOR «QUEUE_ACTIVATION|BROKER_QUEUE_DISABLED|"
        "CREATE_TABLE, DROP_TABLE|AUDIT_LOGIN|DDL_EVENTS» TO SERVICE {string}, "
        "«{string}|'current database'»"
    ),
    "CREATE LOGIN": "{principal} WITH PASSWORD = {string}«, DEFAULT_DATABASE = {database}|»",
    "(": "{query}«| UNION {query}») «UNION|INTERSECT|EXCEPT» {query}",
    "ADD SIGNATURE": "TO «OBJECT::|»{object} BY CERTIFICATE {name}« WITH PASSWORD = {string}|»",
    "BACKUP MASTER KEY": "TO FILE = {string} ENCRYPTION BY PASSWORD = {string}",
    "RESTORE MASTER KEY": "FROM FILE = {string} DECRYPTION BY PASSWORD = {string} ENCRYPTION BY PASSWORD = {string}« FORCE|»",
    "BACKUP CERTIFICATE": (
        "{name} TO FILE = {string}« WITH PRIVATE KEY (FILE = {string}, ENCRYPTION BY PASSWORD = {string})| WITH PRIVATE "
        "KEY (FILE = {string}, DECRYPTION BY PASSWORD = {string}, ENCRYPTION BY PASSWORD = {string})|»"
    ),
    "ALTER CERTIFICATE": "{name} «WITH ACTIVE FOR BEGIN_DIALOG = {on_off}|REMOVE PRIVATE KEY»",
    "ALTER MASTER KEY": "«ADD|DROP» ENCRYPTION BY SERVICE MASTER KEY",
    "CLOSE MASTER KEY": "",
    "OPEN MASTER KEY": "DECRYPTION BY PASSWORD = {string}",
    "CREATE MASTER KEY": "« ENCRYPTION BY PASSWORD = {string}|»",
    "CREATE XML SCHEMA COLLECTION": "{object} AS {expression}",
    "DROP XML SCHEMA COLLECTION": "{object}",
    "CREATE MESSAGE TYPE": "{name}« AUTHORIZATION {principal}|»« VALIDATION = «NONE|EMPTY|WELL_FORMED_XML»|»",
    "CREATE OR ALTER PROC": "{procedure}",
    "CREATE OR ALTER PROCEDURE": "{procedure}",
    "CREATE OR ALTER TRIGGER": "{trigger}",
    "CREATE PROC": "{procedure}",
    "CREATE PROCEDURE": "{procedure}",
    "CREATE TRIGGER": "{trigger}",
    **dict.fromkeys(
        ("CREATE INDEX", "CREATE UNIQUE INDEX", "CREATE CLUSTERED INDEX", "CREATE UNIQUE NONCLUSTERED INDEX"),
        "{name} ON {object} ({name})« INCLUDE ({name})|»",
    ),
    "CREATE NONCLUSTERED INDEX": "{name} ON {object} ({name} DESC, {name}) WHERE {condition}",
    "CREATE UNIQUE CLUSTERED INDEX": "{name} ON {object} ({name}) WITH (FILLFACTOR = {int}) ON [PRIMARY]",
    **dict.fromkeys(("ALTER FUNCTION", "CREATE FUNCTION", "CREATE OR ALTER FUNCTION"), "{user_function}"),
    "CREATE TYPE": "dbo.«ty|{bare}» «AS TABLE ({columns})|FROM {type}»",
    "DROP TYPE": "«IF EXISTS |»dbo.ty",
    "DROP FUNCTION": "«IF EXISTS |»{object}",
    **dict.fromkeys(("ALTER VIEW", "CREATE VIEW", "CREATE OR ALTER VIEW"), "{object}« ({name})|» AS {query}"),
    "CREATE QUEUE": "{object}« WITH {queue}|»« ON [PRIMARY]|»",
    "CREATE REMOTE SERVICE BINDING": "{name} TO SERVICE {string} WITH USER = {principal}«, ANONYMOUS = {on_off}|»",
    "CREATE ROUTE": "{name}« AUTHORIZATION {principal}|» WITH {route}",
    "CREATE SCHEMA": "{name}« AUTHORIZATION {principal}|»",
    "CREATE SERVICE": "{name}« AUTHORIZATION {principal}|» ON QUEUE {object}« ({name})| ([DEFAULT])|»",
    "CREATE TABLE": "{object} ({columns})",
    "CREATE USER": "{principal}« FOR LOGIN {principal}| FROM CERTIFICATE {name}| WITHOUT LOGIN|»« WITH DEFAULT_SCHEMA = {name}|»",
    "DBCC": (
        "«TRACEON ({int}, -1)|TRACEOFF ({int})|TRACESTATUS (-1)|PAGE ({string}, {int}, {int}, {int}) WITH "
        "TABLERESULTS|CHECKDB|PAGE ({int})»"
    ),
    "DEALLOCATE": "«GLOBAL |»{name}",
    "DECLARE": "{name} CURSOR «LOCAL|GLOBAL|STATIC|LOCAL FAST_FORWARD|» FOR {query}",
    "DECLARE @": "{fresh} «{type}«| = {expression}»|TABLE ({columns})»",
    "DELETE": "«TOP ({expression}) |»«FROM |»{target}« OUTPUT deleted.*|»« WHERE {condition}|»",
    "DENY": "{permission} TO {principal}",
    "DROP BROKER PRIORITY": "{name}",
    "DROP CERTIFICATE": "{name}",
    "DROP CONTRACT": "{name}",
    "DROP DATABASE": "«IF EXISTS |»{database}",
    "DROP ENDPOINT": "{name}",
    "DROP EVENT NOTIFICATION": "{name} ON «QUEUE {object}|DATABASE|SERVER»",
    "DROP INDEX": "«IF EXISTS |»{name} ON {object}",
    "DROP VIEW": "«IF EXISTS |»{object}",
    "DROP LOGIN": "{principal}",
    "DROP MASTER KEY": "",
    "DROP MESSAGE TYPE": "{name}",
    "DROP PROC": "«IF EXISTS |»{object}",
    "DROP PROCEDURE": "«IF EXISTS |»{object}, {object}",
    "DROP QUEUE": "{object}",
    "DROP REMOTE SERVICE BINDING": "{name}",
    "DROP ROUTE": "{name}",
    "DROP SCHEMA": "«IF EXISTS |»{name}",
    "DROP SERVICE": "{name}",
    "DROP SIGNATURE": "FROM {object} BY CERTIFICATE {name}",
    "DISABLE TRIGGER": "«{object}|ALL» ON {object}",
    "DROP TABLE": "«IF EXISTS |»{object}",
    "DROP TRIGGER": "«IF EXISTS |»{object}, {object}",
    "ENABLE TRIGGER": "«{object}, {object}|ALL» ON «{object}|DATABASE»",
    "DROP USER": "«IF EXISTS |»{principal}",
    "END CONVERSATION": "{handle}« WITH ERROR = {expression} DESCRIPTION = {expression}| WITH CLEANUP|»",
    "EXEC": "{call}",
    "EXEC (": "{text})",
    "EXEC AS": "USER = {string}",
    "EXECUTE": "{call}",
    "EXECUTE (": "{text})",
    "EXECUTE AS": "USER = «'dbo'|'u1'|{string}»",
    "FETCH": "«NEXT FROM |FROM |»{name}« INTO {variable}, {variable}| INTO {variable}|»",
    "GET CONVERSATION GROUP": "{variable} FROM {object}",
    "GRANT": "{permission} TO {principal}",
    "IF": "{condition} {statement}« ELSE {statement}|»",
    "INSERT": (
        "«INTO |»{target}« (a)| (a, b)|»« OUTPUT inserted.*| OUTPUT inserted.a INTO @t|» «VALUES ({expression})|VALUES "
        "({expression}, {expression}), (DEFAULT, {expression})|DEFAULT VALUES|{query}|EXEC ({text})»"
    ),
    "INSERT BULK": "{object} (a {type}, b {type}« COLLATE {name}|»)« WITH (KEEP_NULLS, FIRE_TRIGGERS)|»",
    "MOVE CONVERSATION": "{handle} TO {handle}",
    "OPEN": "«GLOBAL |»{name}",
    "PRINT": "{expression}",
    "RAISERROR": "({expression}, {int}, {int}«, {expression}|, {expression}, {expression}|»)« WITH LOG| WITH NOWAIT|»",
    "RECEIVE": (
        "«TOP ({expression}) |»«*|message_body, {expression} AS x|{variable} = message_body|conversation_handle» FROM "
        "{object}« INTO @t|»« WHERE conversation_handle = {handle}| WHERE conversation_group_id = {handle}|»"
    ),
    "RECONFIGURE": "« WITH OVERRIDE|»",
    "RETURN": "«{expression}|»",
    "REVERT": "",
    "REVOKE": "{permission} FROM {principal}",
    "ROLLBACK": "«TRAN|TRANSACTION {name}|WORK|TRAN {variable}|»",
    "SAVE": "TRAN «{name}|{variable}»",
    "SELECT": "{select}«| INTO {object} FROM {source}|»",
    "SEND ON CONVERSATION": "«{handle}|({handle}, {handle})»« MESSAGE TYPE {name}|»« ({expression})|»",
    "SET": (
        "«NOCOUNT|XACT_ABORT|ANSI_NULLS|ARITHABORT|IMPLICIT_TRANSACTIONS|FMTONLY|NOEXEC» {on_off}«|; SET NOEXEC OFF; "
        "SET FMTONLY OFF»|SET LOCK_TIMEOUT {int}|SET ROWCOUNT {int}|SET TRANSACTION ISOLATION LEVEL «READ "
        "COMMITTED|SERIALIZABLE|SNAPSHOT»"
    ),
    "SET @": "{bare} «=|+=|-=|*=|/=|%=» {expression}",
    "THROW": "«{expression}, {expression}, {int}|»",
    "TRUNCATE TABLE": "{object}",
    "UPDATE": (
        "«TOP ({expression}) |»{target} SET «|{variable} = »a «=|+=|-=|*=|/=|%=» {expression}«, b = {expression}|»«, {variable} = {expression}|»« OUTPUT "
        "inserted.a, deleted.*|»« WHERE {condition}|»"
    ),
    "USE": "{database}",
    "WAITFOR (": "RECEIVE * FROM {object}), TIMEOUT {int}",
    "WAITFOR DELAY": "«'00:00:00.001'|{expression}»",
    "WHILE": "{condition} BEGIN {statement}; BREAK; END",
    "WITH": (
        "«c (x) AS (SELECT {expression}) SELECT * FROM c WHERE x = {expression}|c AS (SELECT «*|TOP (2) a, b|a AS b|{int} AS "
        "b» FROM {target}« WHERE {condition}|») «DELETE c« WHERE {condition}|»|UPDATE c SET b = {expression}»»"
    ),
}

# Half of the statements are of these, which do more than the catalog's.
OFTEN = (
    "SELECT",
    "SELECT",
    "PRINT",
    "SET @",
    "INSERT",
    "UPDATE",
    "DELETE",
    "IF",
    "EXEC",
    "RECEIVE",
    "SEND ON CONVERSATION",
)

# Parts: the first template of each is short, for where parts are nested too deeply.
PARTS = {
    "statement": ("PRINT {edge}", "{any}", "{any}", "{any}"),
    "expression": ("{edge}", "{number}", "{number}", "{words}", "{words}", "{anything}", "{function}"),
    # Of integers, of texts, and of any type: most of these are errors, which end a batch early
    "number": (
        *("{integer}", "{integer}", "@i", "@n", "@i", "({number})", "-{number}", "~{number}", "LEN({words})"),
        *("{number} {operator} {number}", "{number} {operator} {number}", "TRY_CAST({anything} AS {type})"),
        *("CASE WHEN {condition} THEN {number} ELSE {number} END", "ISNULL({number}, {number})", "DATALENGTH({words})"),
        *(
            "dbo.f({number})",
            "(SELECT {number})",
            "(SELECT COUNT(*) FROM {source})",
            "IIF({condition}, {number}, {number})",
            "@@ROWCOUNT",
        ),
        *(
            "DATEDIFF(day, @d, GETDATE())",
            "OBJECT_ID({string})",
            "CHARINDEX({words}, {words})",
            "@@TRANCOUNT",
            "@@SPID",
        ),
    ),
    "words": (
        *("{string}", "@s", "@s", "{words} + {words}", "LEFT({words}, {number})", "REPLICATE({words}, {number})"),
        *("SUBSTRING({words}, {number}, {number})", "CAST({number} AS nvarchar(20))", "UPPER({words})", "NULL"),
        *("REPLACE({words}, {words}, {words})", "CONCAT({words}, {number})", "QUOTENAME({words})", "DB_NAME()"),
        *("CONCAT_WS({words}, {expression}, {expression})", "CHOOSE({number}, {expression}, {expression})"),
        *("HASHBYTES({words}, {expression})", "POWER({expression}, {number})", "SQRT({number})", "NCHAR({expression})"),
        *("ASCII({expression})", "UNICODE({expression})"),
        *("CONVERT(varchar(30), @d, 121)", "CASE {number} WHEN {number} THEN {words} END", "CAST(@b AS varchar(max))"),
    ),
    "anything": (
        *(
            "{edge}",
            "{variable}",
            "({expression})",
            "-{expression}",
            "@d + {number}",
            "@d",
            "@b",
            "@h",
            "@v",
            "NEWID()",
        ),
        *("{expression} {operator} {expression}", "CAST({number} AS {type})", "CAST({expression} AS {type})"),
        *(
            "CONVERT({type}, {expression}, {int})",
            "{function}",
            "{function}",
            "{function}",
            "(SELECT {aggregate} FROM {source})",
        ),
        *("CASE WHEN {condition} THEN {expression} ELSE {expression} END", "{words} COLLATE Latin1_General_BIN2"),
        *("@@ERROR", "@@VERSION", "@@nothing", "DATEADD(day, {number}, @d)", "SERVERPROPERTY({words})"),
    ),
    "condition": (
        *("1 = 1", "{number} {comparison} {number}", "{words} {comparison} {words}", "{number} {comparison} {number}"),
        *("{expression} {comparison} {expression}", "{number} BETWEEN {number} AND {number}", "{words} LIKE {words}"),
        *("{expression} IS NULL", "{expression} IS NOT NULL", "NOT {condition}", "{condition} AND {condition}"),
        *(
            "{condition} OR {condition}",
            "{expression} «|NOT »BETWEEN {expression} AND {expression}",
            "({condition})",
            "UPDATE(x)",
        ),
        *("{expression} «|NOT »IN ({expression}, {expression})", "{expression} IN ({query})", "EXISTS ({query})"),
        *("{expression} «|NOT »LIKE {expression}", "{expression} LIKE {string} ESCAPE '!'"),
    ),
    "operator": ("+", "-", "*", "/", "%", "&", "|", "^"),
    "comparison": ("=", "<>", "!=", "<", "<=", ">", ">=", "!<"),
    "aggregate": (
        *(
            "COUNT(*)",
            "SUM({number})",
            "MAX({words})",
            "SUM({expression})",
            "MAX({expression})",
            "MIN({expression})",
            "STRING_AGG({expression}, {words})",
            "COUNT(DISTINCT {expression})",
        ),
        *("COUNT_BIG({expression})", "SUM(x)", "MAX(x)", "«ROW_NUMBER|DENSE_RANK|RANK»() OVER (ORDER BY {expression})"),
        "SUM({expression}) OVER (PARTITION BY {expression})",
    ),
    "select": (
        *("{expression}", "{expression}, {expression} AS {name}", "{variable} = {expression}", "* FROM {source}"),
        *("TOP ({expression}) {expression} AS x FROM {source} ORDER BY {expression}", "DISTINCT x FROM {source}"),
        *("x, {aggregate} FROM {source} GROUP BY x HAVING {condition}", "* FROM {source} WHERE {condition}"),
        *("{expression} UNION «|ALL »SELECT {expression}", "{expression} EXCEPT SELECT {expression}"),
        *(
            "{expression} AS x ORDER BY {edge}",
            "* FROM {source} AS p «|LEFT |CROSS |FULL »JOIN {source} AS q ON {condition}",
        ),
        *("x FROM {source} ORDER BY x OFFSET {int} ROWS FETCH NEXT {int} ROWS ONLY", "{aggregate} FROM {source}"),
        "{variable} = x FROM {source}",
    ),
    "query": ("SELECT {edge}", "SELECT {select}", "SELECT {select}", "SELECT {select}{format}"),
    "format": (
        *(" FOR XML AUTO", " FOR XML PATH({string}), ROOT", " FOR JSON PATH", " FOR JSON AUTO, INCLUDE_NULL_VALUES"),
        " FOR JSON PATH, WITHOUT_ARRAY_WRAPPER",
    ),
    "source": (
        *(
            "(VALUES ({integer}), ({integer})) AS v (x)",
            "(VALUES ({number}), ({number})) AS v (x)",
            "{object}",
            "dbo.t1",
        ),
        *("(VALUES ({expression}), ({expression})) AS v (x)", "(SELECT {number} AS x UNION SELECT 2) AS d", "dbo.t1"),
        *("(SELECT {expression} AS x) AS d", "{view}", "{view}", "@t", "sys.dm_io_virtual_file_stats({int}, {int})"),
        "sys.dm_db_page_info({expression}, {int}, {int}, {string})",
        *(
            "OPENJSON({expression}« , {string}|»)« WITH (x {type}« {string}|»)|»",
            "STRING_SPLIT({expression}, {string})",
            "dbo.g({expression}) AS g",
            "dbo.h() AS h",
        ),
        "{source} «CROSS|OUTER» APPLY («SELECT {expression} AS y|VALUES ({expression})|{query}») AS a (y)",
    ),
    "target": ("@t", "@t", "{object}", "{object}", "{view}"),
    "handle": ("{variable}", "@h", "@h", "@h", "NEWID()", "{edge}"),
    "variable": ("@v", "@i", "@s", "@b", "@d", "@h", "@n"),
    "bare": ("v", "i", "s", "b", "d", "h", "n"),
    "fresh": ("w", "x", "y", "v"),
    "name": ("n1", "n2", "n1", "n2", "s1", "q1", "[n 4]", "[]]]", '"n5"', "{odd_name}"),
    "odd_name": ("[{long}]", "N\u00e9\U0001f600", "[a\0b]", "n3"),
    "object": (
        *("dbo.t1", "dbo.q1", "t1", "q1", "dbo.p1", "p1", "t1", "q1", "d1.dbo.t1", "dbo.[n 4]", "#t1", "{odd_object}"),
    ),
    "odd_object": ("nowhere.dbo.t1", "a.b.c.d", "dbo.n1", "t2", "tempdb..#t1", "##t1", "sysobjects"),
    "database": ("d1", "d2", "d1", "master", "msdb", "{name}"),
    "principal": ("u1", "u2", "sa", "dbo", "public", "{name}"),
    "port": ("0", "{int}", "99999", "-1"),
    "on_off": ("ON", "OFF", "ON", "OFF", "{name}"),
    "columns": (
        *("a int", "a {type}, b {type}", "a {type} NOT NULL, b {type} NULL", "a int IDENTITY PRIMARY KEY, b {type}"),
        *("a {type} DEFAULT {expression}, b {type} UNIQUE", "a int IDENTITY({int}, {int})", "a int, a int"),
        "a {type}, b {type}, CONSTRAINT c PRIMARY KEY (a)",
        *("a {type} CHECK ({condition}), b {type}", "a int PRIMARY KEY, b int REFERENCES {object} (a)"),
        "a int, b {type}, INDEX i (b), CHECK (a «<|>|=» {integer})",
    ),
    "priority": (
        "PRIORITY_LEVEL = {int}",
        "CONTRACT_NAME = «{name}|ANY», LOCAL_SERVICE_NAME = «{name}|ANY», REMOTE_SERVICE_NAME = «{string}|ANY»",
    ),
    "queue": (
        *("STATUS = {on_off}", "RETENTION = {on_off}, POISON_MESSAGE_HANDLING (STATUS = {on_off})"),
        "ACTIVATION (STATUS = {on_off}, PROCEDURE_NAME = {object}, MAX_QUEUE_READERS = {int}, EXECUTE AS «OWNER|SELF|'dbo'»)",
        "ACTIVATION (DROP)",
    ),
    "route": (
        *("ADDRESS = 'LOCAL'", "ADDRESS = {string}", "SERVICE_NAME = {string}, ADDRESS = 'TCP://127.0.0.1:1'"),
        "SERVICE_NAME = {string}, BROKER_INSTANCE = {string}, LIFETIME = {int}, ADDRESS = 'TRANSPORT'",
    ),
    "endpoint": (
        *("AUTHENTICATION = WINDOWS", "ENCRYPTION = «DISABLED|SUPPORTED»", "MESSAGE_FORWARDING = «ENABLED|DISABLED»"),
        "AUTHENTICATION = CERTIFICATE {name}, MESSAGE_FORWARD_SIZE = {int}",
    ),
    "file": (
        "NAME = {name}",
        "NAME = {name}, FILENAME = {string}, SIZE = {int}MB",
        "NAME = {name}, FILEGROWTH = {int}%",
    ),
    "permission": (
        *("SELECT ON {object}", "EXECUTE ON OBJECT :: {object}", "SEND ON SERVICE :: {name}", "CONTROL"),
        *("ALTER ON ROUTE :: {name}", "VIEW SERVER STATE", "CREATE QUEUE", "{name}", "CONNECT ON ENDPOINT :: {name}"),
        "AUTHENTICATE",
    ),
    "user_function": (
        "dbo.f (@a int) RETURNS {type} AS BEGIN RETURN {expression} END",
        "dbo.g (@a {type} = {expression}) RETURNS TABLE AS RETURN ({query})",
        "dbo.h () RETURNS @r TABLE (a {type}) WITH SCHEMABINDING AS BEGIN INSERT @r VALUES ({expression}) RETURN END",
        "dbo.f (@a int) RETURNS int AS BEGIN {statement} RETURN dbo.f(@a - 1) END",
    ),
    "trigger": (
        "dbo.tr ON {object} AFTER «INSERT|UPDATE, DELETE» AS {statement}",
        "dbo.instead ON {object} INSTEAD OF «INSERT|UPDATE, DELETE» AS {statement}",
        "dbo.tr ON {object} WITH EXECUTE AS «OWNER|SELF|{string}» FOR INSERT, UPDATE, DELETE AS {statement}; {statement}",
        "tr ON «{object}|DATABASE» «AFTER|INSTEAD OF» INSERT AS SELECT {expression} FROM inserted; {statement}",
    ),
    "procedure": (
        *(
            "dbo.p1 AS SELECT 1",
            "dbo.p1 AS {statement}; {statement}",
            "p1 @a {type} = {edge}, @c int OUTPUT AS SET @c = @a",
        ),
        *(
            "dbo.p1 WITH EXECUTE AS «OWNER|SELF|'u1'» AS BEGIN {statement}; RETURN {expression}; END",
            "{object} AS {statement}",
        ),
        "p1 AS BEGIN TRAN; DECLARE @r varbinary(max); RECEIVE @r = message_body FROM dbo.q1; {statement}; COMMIT",
    ),
    "call": (
        *(
            "dbo.p1",
            "p1 {edge}, {variable} OUTPUT",
            "@i = p1 @a = {edge}",
            "@s",
            "{procedure_name}",
            "{procedure_name}",
        ),
        *("{procedure_name} {edge}", "{procedure_name} {edge}, {edge}", "sp_executesql {edge}, N'@p {type}', {edge}"),
        *("sp_executesql N'SELECT @p + 1', N'@p {type}', {edge}", "sp_executesql @s, {variable}, {variable} OUTPUT"),
        "sp_configure {edge}, {edge}",
    ),
    "text": ("{string}", "N'SELECT 1'", "@s", "{variable} + {variable}", "'DECLARE @a int = {int}; SELECT @a + 1'"),
}

TYPES = (
    *("bit", "tinyint", "smallint", "int", "bigint", "real", "float", "float(24)", "decimal", "decimal(38,38)"),
    *("decimal(38,0)", "numeric(5,2)", "money", "uniqueidentifier", "date", "time", "time(0)", "datetime"),
    *("smalldatetime", "datetime2", "datetime2(0)", "char", "char(8000)", "varchar(1)", "varchar(max)", "nchar(4000)"),
    *("nvarchar(10)", "nvarchar(max)", "binary(8000)", "varbinary(1)", "varbinary(max)", "sysname", "xml", "text"),
)
NO_TYPES = (
    "decimal(39)",
    "decimal((38,10))",
    "varchar(8001)",
    "varchar(0)",
    "time(8)",
    "int(3)",
    "nothing",
    "sql_variant",
)
# A type, and the edges of its values
TYPED = (
    *(
        ("tinyint", "0"),
        ("tinyint", "255"),
        ("smallint", "-32768"),
        ("smallint", "32767"),
        ("bit", "1"),
        ("int", "NULL"),
    ),
    *(("bigint", "9223372036854775807"), ("bigint", "-9223372036854775808"), ("float", "1.7976931348623157e308")),
    *(("float", "5e-324"), ("real", "3.4e38"), ("decimal(38,0)", "9" * 38), ("decimal(38,38)", "0." + "9" * 38)),
    *(("money", "922337203685477.5807"), ("uniqueidentifier", "NEWID()"), ("date", "'0001-01-01'"), ("xml", "'<a/>'")),
    *(("time", "'23:59:59.9999999'"), ("datetime", "'1753-01-01'"), ("datetime", "'9999-12-31 23:59:59.997'")),
    *(("smalldatetime", "'2079-06-06'"), ("datetime2", "'9999-12-31 23:59:59.9999999'"), ("char(8000)", "'x'")),
    *(("varchar(1)", "'x'"), ("varchar(max)", "REPLICATE('x', 8000)"), ("nchar(4000)", "N'\u00e9\U0001f600'")),
    *(
        ("nvarchar(10)", "N''"),
        ("nvarchar(max)", "NULL"),
        ("binary(8000)", "0x00"),
        ("varbinary(1)", "0xFF"),
        ("sysname", "N'x'"),
    ),
)

INTEGERS = (
    *("0", "1", "-1", "2", "10", "127", "255", "256", "-32768", "32767", "32768", "2147483647", "-2147483648"),
    *("2147483648", "9223372036854775807", "-9223372036854775808", "9223372036854775808", "9" * 38, "1" * 62),
)

EDGES = (
    *INTEGERS,
    *("NULL", "NULL", "0.0", "0.5", "-0.5", ".1", "9.99999", "922337203685477.5807", "-922337203685477.5808", "1e0"),
    *("1.7976931348623157e308", "-1e308", "5e-324", "1e999", "0." + "9" * 38, "9" * 38 + ".0", "1." + "0" * 60),
    *(
        "''",
        "N''",
        "' '",
        "'x'",
        "N'x'",
        "'0'",
        "'1'",
        "'-1'",
        "'2147483648'",
        "'1e5'",
        "'inf'",
        "'nan'",
        "'1_0'",
        "'\u0661'",
    ),
    *("N'\u00e9\U0001f600'", "'a\0b'", "''''", "'%'", "'[a-'", "'[z-a]'", "'%d %s'", "'{long}'", "'<a>'", "'true'"),
    *("0x", "0x0", "0x00", "0x7FFFFFFF", "0xFFFFFFFFFFFFFFFF", "0x{long_hexadecimal}"),
    *("'00000000-0000-0000-0000-000000000000'", "'FFFFFFFF-FFFF-FFFF-FFFF-FFFFFFFFFFFF'", "'{00000000'"),
    *(
        "'0001-01-01'",
        "'1753-01-01'",
        "'1752-12-31 23:59:59'",
        "'9999-12-31 23:59:59.9999999'",
        "'2079-06-06 23:59:59'",
    ),
    *("'1900-01-01'", "'2024-02-30'", "'2024-02-29T12:00:00'", "'23:59:59.9999999'", "'24:00'", "'00:00:00'"),
)

SYSTEM_PROCEDURES = (
    *("sp_execute", "sp_executesql", "sp_prepare", "sp_prepexec", "sp_unprepare", "sp_configure"),
    *("sp_addextendedproperty", "sp_dropextendedproperty", "sp_datatype_info", "sp_who", "sys.sp_datatype_info_100"),
)

PREFACE = (
    "DECLARE @v {typed}, @i int = {integer}, @s nvarchar(max) = {string}, @b varbinary(max) = {binary}, "
    "@d datetime = '2024-01-01', @h uniqueidentifier, @n bigint; DECLARE @t TABLE (a {type}, b {type}); "
)
# What the statements refer to; most of it survives none of them for long.
SETUP = (
    "IF DB_ID('d1') IS NULL CREATE DATABASE d1",
    "USE d1",
    "CREATE TABLE dbo.t1 (a int, b nvarchar(20)); INSERT dbo.t1 VALUES (1, N'x'), (2147483647, NULL)",
    "CREATE QUEUE dbo.q1",
    "CREATE SERVICE s1 ON QUEUE dbo.q1 ([DEFAULT])",
    "CREATE OR ALTER PROCEDURE dbo.p1 @a int = 1, @b int = 2 OUTPUT AS SET @b = @a + 1; RETURN @b",
)
DIALOG = (
    "BEGIN DIALOG @h FROM SERVICE s1 TO SERVICE 's1' WITH ENCRYPTION = OFF; "
    "SEND ON CONVERSATION @h MESSAGE TYPE [DEFAULT] ({words}); "
)

_PART = re.compile(r"\{([a-z_]+)\}")
_CHOICE = re.compile("«([^«»]*)»")
_WORD = re.compile(r"\s+|'(?:[^']|'')*'|\[[^\]]*\]|\w+|.", re.DOTALL)
_DATE_PARTS = ("year", "day", "week", "nanosecond", "ms", "nothing")


class Batches:
    """The batches of a seed."""

    def __init__(self, seed: int) -> None:
        self.seed = seed

    def batch(self, number: int) -> str:
        return _Maker(random.Random(f"{self.seed}/{number}")).batch()


class _Maker:
    def __init__(self, source: random.Random) -> None:
        self._random = source

    def batch(self) -> str:
        statements_ = "; ".join(self._statement(0) for _ in range(self._random.choice((1, 1, 1, 2))))
        if re.match(r"(CREATE|ALTER)( OR ALTER)? PROC", statements_):
            return statements_
        dialog = self._made(DIALOG, DEPTH_MAX) if self._random.random() < 0.3 else ""
        text = self._made(PREFACE, DEPTH_MAX) + dialog + statements_
        return self._damaged(text) if self._random.random() < 0.125 else text

    def _statement(self, depth: int) -> str:
        words = self._random.choice(OFTEN if self._random.random() < 0.5 else tuple(STATEMENTS))
        joined = words if words.endswith("@") else words + " "
        return joined + self._made(STATEMENTS[words], depth)

    def _made(self, template: str, depth: int) -> str:
        while (choice := _CHOICE.search(template)) is not None:
            chosen = self._random.choice(choice[1].split("|"))
            template = template[: choice.start()] + chosen + template[choice.end() :]
        return _PART.sub(lambda part: self._part(part[1], depth + 1), template)

    def _part(self, name: str, depth: int) -> str:  # noqa: PLR0911
        pick = self._random.choice
        if name == "any":
            return self._statement(depth)
        if name == "function":
            return self._function(depth) if depth < DEPTH_MAX else "GETDATE()"
        if name == "edge":
            return self._made(pick(EDGES), depth)
        if name == "typed":
            return " = ".join(pick(TYPED))
        if name == "type" and self._random.random() < 0.03:
            return pick(NO_TYPES)
        if name == "string":
            return (
                pick(("N'", "'")) + pick(("s1", "x", "", "LOCAL", "TCP://a:1", "x" * 300, "SELECT 1", "@p int")) + "'"
            )
        simple = {
            "int": INTEGERS,
            "integer": INTEGERS[:12],
            "binary": ("0x", "0x00", "0x3082", "NULL"),
            "type": TYPES,
            "view": tuple(f"sys.{view}" for view in VIEWS),
            "procedure_name": SYSTEM_PROCEDURES,
            "long": ("x" * 129, "y" * 4001, "z" * 9000),
            "long_hexadecimal": ("00" * 8001, "F" * 999),
        }
        if name in simple:
            return pick(simple[name])
        templates = PARTS[name]
        return self._made(templates[0] if depth >= DEPTH_MAX else pick(templates), depth)

    def _function(self, depth: int) -> str:
        name = self._random.choice(tuple(FUNCTIONS))
        function = FUNCTIONS[name]
        count = self._random.randint(function.least, min(function.most, function.least + 2))
        arguments = [self._part("expression", depth + 1) for _ in range(count)]
        if function.takes_word and arguments:
            arguments[0] = self._random.choice(_DATE_PARTS)
        if function.takes_condition and arguments:
            arguments[0] = self._part("condition", depth + 1)
        return f"{name}({', '.join(arguments)})"

    def _damaged(self, text: str) -> str:
        words = _WORD.findall(text)
        for _ in range(self._random.randint(1, 3)):
            at, other = self._random.randrange(len(words)), self._random.randrange(len(words))
            damage = self._random.randrange(4)
            if damage == 0:
                words[at] = ""
            elif damage == 1:
                words[at] *= 2
            elif damage == 2:
                words[at], words[other] = words[other], words[at]
            else:
                words[at] = self._random.choice((*"()[],;'\"@.", "SELECT", "END", "\0", "\ud800", "--", "/*"))
        return "".join(words)
