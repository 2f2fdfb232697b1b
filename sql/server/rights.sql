/*
Purpose:   the rights that the harness needs on an instance, whether the login has them, and how to grant them.
Called by: the harness on a user's own servers, before it creates anything; also by hand.
Assumes:   nothing; sysadmin has all rights. minimal_rights.sql grants all that are needed.
Variables: Database (name of the side's database)
Columns:   permission, needed_for, is_held (int; 1 held, 0 not held), is_required (int; 0: the sweep is possible
           without it), remedy (the statement that grants it; it ends in the quoted name of the login)
*/
SELECT
    N'CREATE ANY DATABASE' AS permission,
    N'the database $(Database)' AS needed_for,
    HAS_PERMS_BY_NAME(NULL, NULL, N'CREATE ANY DATABASE') AS is_held,
    1 AS is_required,
    N'USE [master]; GRANT CREATE ANY DATABASE TO ' + QUOTENAME(SUSER_SNAME()) + N';' AS remedy
WHERE DB_ID(N'$(Database)') IS NULL
UNION ALL
SELECT
    N'CONTROL on the database $(Database)',
    N'everything in it',
    COALESCE(HAS_PERMS_BY_NAME(N'$(Database)', N'DATABASE', N'CONTROL'), 0),
    1,
    N'USE ' + QUOTENAME(N'$(Database)') + N'; ALTER ROLE [db_owner] ADD MEMBER ' + QUOTENAME(SUSER_SNAME()) + N';'
WHERE DB_ID(N'$(Database)') IS NOT NULL
UNION ALL
SELECT
    N'CONTROL on the database master',
    N'the master key, certificates and users by which instances know each other',
    HAS_PERMS_BY_NAME(N'master', N'DATABASE', N'CONTROL'),
    1,
    N'USE [master]; GRANT CONTROL ON DATABASE::[master] TO ' + QUOTENAME(SUSER_SNAME()) + N';'
UNION ALL
SELECT
    N'ALTER ANY LOGIN',
    N'the logins of the other instances and of the test clients',
    HAS_PERMS_BY_NAME(NULL, NULL, N'ALTER ANY LOGIN'),
    1,
    N'USE [master]; GRANT ALTER ANY LOGIN TO ' + QUOTENAME(SUSER_SNAME()) + N';'
UNION ALL
SELECT
    N'CREATE ENDPOINT',
    N'the Service Broker endpoint',
    HAS_PERMS_BY_NAME(NULL, NULL, N'CREATE ENDPOINT'),
    1,
    N'USE [master]; GRANT CREATE ENDPOINT TO ' + QUOTENAME(SUSER_SNAME()) + N';'
UNION ALL
SELECT
    N'VIEW ANY DEFINITION',
    N'seeing endpoints and logins of others, which are never touched',
    HAS_PERMS_BY_NAME(NULL, NULL, N'VIEW ANY DEFINITION'),
    1,
    N'USE [master]; GRANT VIEW ANY DEFINITION TO ' + QUOTENAME(SUSER_SNAME()) + N';'
UNION ALL
SELECT
    N'VIEW SERVER STATE',
    N'waits, counters and sessions while it measures',
    HAS_PERMS_BY_NAME(NULL, NULL, N'VIEW SERVER STATE'),
    1,
    N'USE [master]; GRANT VIEW SERVER STATE TO ' + QUOTENAME(SUSER_SNAME()) + N';'
UNION ALL
SELECT
    N'sysadmin',
    N'the pages of the dialogs, which only the dedicated administrator connection shows',
    IS_SRVROLEMEMBER(N'sysadmin'),
    0,
    N'ALTER SERVER ROLE [sysadmin] ADD MEMBER ' + QUOTENAME(SUSER_SNAME()) + N';';
GO
