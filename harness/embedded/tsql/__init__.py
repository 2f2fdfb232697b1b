"""T-SQL as far as Service Broker applications use it.

Theory of operation. `text` cuts a batch into tokens; sqlglot parses SELECTs and expressions, and nothing else, because
it knows no Service Broker and swallows what it does not know. `statements` has one module for each family of
statements: their grammar, permission checks and what they do. A compiled statement is a *step*, a closure: a
generator of `runtime` if it can wait (COMMIT, SEND, RECEIVE, a lock), else a plain function. `translation` turns
SELECTs and expressions into SQLite's SQL and infers the T-SQL type of every column. Compiled batches are kept by their
text, procedures by their name, plans until the catalog changes.

Each module of `statements` registers what it defines (`statements.registry`). `translation.renderer.RENDERERS` and
`translation.functions.FUNCTIONS` are the tables of expressions and functions, `catalog` has that of
catalog views and DMVs. What is in no table is an error that names the statement and its line.

Layers, from the top; an import may only point down:

    requests      batches and procedure calls of clients, activated procedures
    statements    what each statement is
    translation   queries and expressions for SQLite
    catalog       views and DMVs
    session       sessions, frames (one run of a batch or procedure), steps, result sets
    instance      what all sessions of an engine share
    permissions   who may do what
    storage       user tables in SQLite, types and conversions
    text          tokens, parser, expressions

User tables, table variables and the rows of views lie in one SQLite database in memory. Every change of a user table
is staged in the broker's transaction, so tables, conversations and messages commit together and are recovered
together.

Rules. A session reports errors to its `ResultSink`, with SQL Server's numbers, lines and procedure names. `Frame.fail`
alone decides whether an error ends its statement, the batch or the transaction. Reading a view changes nothing, but
that a transaction which looks for its own messages gets them delivered. Names of tables and columns are resolved when a
statement first runs. A sysadmin passes every check. For others a plan knows the objects it uses, a statement that
changes the catalog checks rights first, and `permissions` knows which right implies which.

Differences from SQL Server. READ COMMITTED is that of row versions: a reader never waits, and sees the rows as they are
committed (`storage.tables.committed`); a change waits for the transaction that has changed the row. Cursors are STATIC.
Foreign keys do not wait for other transactions (`statements.rules`); SELECT INTO makes no IDENTITY column; CHECKSUM and
RAND give other numbers. There is no MERGE, no changes go through views, and only tables have triggers: errors all.
Decimals have 15 digits. Text compares without regard to case but with regard to accents (`storage.collation`).

"As others have measured" means on SQL Server 2022 and 2025, in the folder reference/ or docs/ of
https://github.com/mirek/msduck; no machine of the project has had a SQL Server.

Statements, by how they begin:

    (, ADD SIGNATURE, ALTER AUTHORIZATION, ALTER BROKER PRIORITY, ALTER CERTIFICATE, ALTER DATABASE, ALTER ENDPOINT,
    ALTER FUNCTION, ALTER LOGIN, ALTER MASTER KEY, ALTER MESSAGE TYPE, ALTER PROC, ALTER PROCEDURE, ALTER QUEUE, ALTER
    REMOTE SERVICE BINDING, ALTER ROLE, ALTER ROUTE, ALTER SERVER ROLE, ALTER SERVICE, ALTER TABLE, ALTER TRIGGER, ALTER
    USER, ALTER VIEW, BACKUP CERTIFICATE, BACKUP MASTER KEY, BEGIN, BEGIN CONVERSATION TIMER, BEGIN DIALOG, BEGIN TRAN,
    BEGIN TRANSACTION, BEGIN TRY, BREAK, CHECKPOINT, CLOSE, CLOSE MASTER KEY, COMMIT, CONTINUE, CREATE BROKER PRIORITY,
    CREATE CERTIFICATE, CREATE CLUSTERED INDEX, CREATE CONTRACT, CREATE DATABASE, CREATE ENDPOINT, CREATE EVENT
    NOTIFICATION, CREATE FUNCTION, CREATE INDEX, CREATE LOGIN, CREATE MASTER KEY, CREATE MESSAGE TYPE, CREATE
    NONCLUSTERED INDEX, CREATE OR ALTER FUNCTION, CREATE OR ALTER PROC, CREATE OR ALTER PROCEDURE, CREATE OR ALTER
    TRIGGER, CREATE OR ALTER VIEW, CREATE PROC, CREATE PROCEDURE, CREATE QUEUE, CREATE REMOTE SERVICE BINDING, CREATE
    ROUTE, CREATE SCHEMA, CREATE SERVICE, CREATE TABLE, CREATE TRIGGER, CREATE TYPE, CREATE UNIQUE CLUSTERED INDEX,
    CREATE UNIQUE INDEX, CREATE UNIQUE NONCLUSTERED INDEX, CREATE USER, CREATE VIEW, CREATE XML SCHEMA COLLECTION, DBCC,
    DEALLOCATE, DECLARE, DECLARE @, DELETE, DENY, DISABLE TRIGGER, DROP BROKER PRIORITY, DROP CERTIFICATE, DROP
    CONTRACT, DROP DATABASE, DROP ENDPOINT, DROP EVENT NOTIFICATION, DROP FUNCTION, DROP INDEX, DROP LOGIN, DROP MASTER
    KEY, DROP MESSAGE TYPE, DROP PROC, DROP PROCEDURE, DROP QUEUE, DROP REMOTE SERVICE BINDING, DROP ROUTE, DROP SCHEMA,
    DROP SERVICE, DROP SIGNATURE, DROP TABLE, DROP TRIGGER, DROP TYPE, DROP USER, DROP VIEW, DROP XML SCHEMA COLLECTION,
    ENABLE TRIGGER, END CONVERSATION, EXEC, EXEC (, EXEC AS, EXECUTE, EXECUTE (, EXECUTE AS, FETCH, GET CONVERSATION
    GROUP, GRANT, IF, INSERT, INSERT BULK, MOVE CONVERSATION, OPEN, OPEN MASTER KEY, PRINT, RAISERROR, RECEIVE,
    RECONFIGURE, RESTORE MASTER KEY, RETURN, REVERT, REVOKE, ROLLBACK, SAVE, SELECT, SEND ON CONVERSATION, SET, SET @,
    THROW, TRUNCATE TABLE, UPDATE, USE, WAITFOR (, WAITFOR DELAY, WHILE, WITH.
"""
