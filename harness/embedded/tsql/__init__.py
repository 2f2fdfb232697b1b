"""T-SQL as far as Service Broker applications use it.

Theory of operation. A batch goes through three hands. `syntax` cuts it into statements: sqlglot's tokenizer, our own
statement level (sqlglot knows no Service Broker and swallows what it does not know), sqlglot's parser for SELECTs and
expressions. `execution` compiles each statement to a closure; what can wait (COMMIT, SEND, RECEIVE, a lock) is a
generator of `runtime`, the rest a plain function. `queries` turns SELECTs and expressions into SQLite's SQL, with the
T-SQL type of every column inferred on the way. Compiled batches are kept by their text, procedures by their name,
plans until the catalog changes.

`statements.STATEMENTS` is the dialect in one table: how a statement begins, its parse function, its node, its compile
function. `queries.expressions.RENDERERS` and `queries.functions.FUNCTIONS` are the same for expressions,
`views.catalog` for catalog views and DMVs. What is in no table is an error that names the statement and its line,
never silence.

User tables, table variables and the rows of views lie in one SQLite database in memory (`sqlite`, `tables`); every
change of a user table is staged in the broker's transaction, so tables, conversations and messages commit together and
come back together after a crash. `instance` is what all sessions of an engine share, `session` one client, `rpc` what
drivers call, `activation` the queue readers.

Rules. A session reports errors to its `ResultSink`, with SQL Server's numbers, lines and procedure names; whether an
error ends its statement, the batch or the transaction is decided in `Frame.fail` alone. Reading a view changes
nothing. Names of tables and columns are resolved when a statement first runs. A sysadmin (sa) is asked for nothing;
what others may is `guard`'s business: plans know the objects they touch, `execution.gates` stand before the statements
that change the catalog, and `permissions` says which right follows from which.

What is not as in SQL Server. Readers see uncommitted rows of others; two transactions that change the same row do wait
for each other. Cursors are STATIC. No temporary tables, triggers, functions, views or indexes of the user's, no MERGE,
no APPLY, no xml type: errors all. Decimals are computed as floats. Text compares without regard to case, accents
excepted, whatever COLLATE a column was declared with.

Statements, by how they begin:

    ALTER AUTHORIZATION, ALTER BROKER PRIORITY, ALTER DATABASE, ALTER ENDPOINT, ALTER LOGIN, ALTER MESSAGE TYPE,
    ALTER PROC, ALTER PROCEDURE, ALTER QUEUE, ALTER REMOTE SERVICE BINDING, ALTER ROLE, ALTER ROUTE, ALTER SERVER
    ROLE, ALTER SERVICE, ALTER TABLE, ALTER USER, BEGIN, BEGIN CONVERSATION TIMER, BEGIN DIALOG, BEGIN TRAN, BEGIN
    TRANSACTION, BEGIN TRY, BREAK, CLOSE, COMMIT, CONTINUE, CREATE BROKER PRIORITY, CREATE CERTIFICATE, CREATE
    CLUSTERED INDEX, CREATE CONTRACT, CREATE DATABASE, CREATE ENDPOINT, CREATE EVENT NOTIFICATION, CREATE INDEX,
    CREATE LOGIN, CREATE MASTER KEY, CREATE MESSAGE TYPE, CREATE NONCLUSTERED INDEX, CREATE OR ALTER PROC, CREATE OR
    ALTER PROCEDURE, CREATE PROC, CREATE PROCEDURE, CREATE QUEUE, CREATE REMOTE SERVICE BINDING, CREATE ROUTE,
    CREATE SERVICE, CREATE TABLE, CREATE USER, DBCC, DEALLOCATE, DECLARE, DECLARE @, DELETE, DENY, DROP BROKER
    PRIORITY, DROP CERTIFICATE, DROP CONTRACT, DROP DATABASE, DROP ENDPOINT, DROP EVENT NOTIFICATION, DROP LOGIN,
    DROP MASTER KEY, DROP MESSAGE TYPE, DROP PROC, DROP PROCEDURE, DROP QUEUE, DROP REMOTE SERVICE BINDING, DROP
    ROUTE, DROP SERVICE, DROP TABLE, DROP USER, END CONVERSATION, EXEC, EXEC (, EXECUTE, EXECUTE (, FETCH, GET
    CONVERSATION GROUP, GRANT, IF, INSERT, MOVE CONVERSATION, OPEN, PRINT, RAISERROR, RECEIVE, RECONFIGURE, RETURN,
    REVOKE, ROLLBACK, SAVE, SELECT, SEND ON CONVERSATION, SET, SET @, THROW, TRUNCATE TABLE, UPDATE, USE, WAITFOR (,
    WAITFOR DELAY, WHILE, WITH.
"""
