/*
Purpose:   the objects on this instance with which the harness could collide: its database, objects of master and of the
           server whose names begin with the prefix, all endpoints that listen, the master key of master.
Called by: the harness on a user's own servers, before it creates or removes anything.
Assumes:   VIEW ANY DEFINITION; without it endpoints and logins of others are not visible.
Variables: Database (name of the side's database), Prefix (begins the name of every object outside the lab's databases)
Columns:   class (database, endpoint, login, user, certificate, master key), name, detail (of an endpoint its
           type_desc), port (of an endpoint)
*/
USE [master];
GO

SELECT
    N'database' AS class,
    d.name,
    CAST(NULL AS nvarchar(60)) AS detail,
    CAST(NULL AS int) AS port
FROM sys.databases AS d
WHERE d.name = N'$(Database)'
UNION ALL
SELECT N'endpoint', e.name, e.type_desc, e.port
FROM sys.tcp_endpoints AS e
UNION ALL
SELECT N'login', p.name, NULL, NULL
FROM sys.server_principals AS p
WHERE LEFT(p.name, LEN(N'$(Prefix)')) = N'$(Prefix)'
UNION ALL
SELECT N'user', p.name, NULL, NULL
FROM sys.database_principals AS p
WHERE LEFT(p.name, LEN(N'$(Prefix)')) = N'$(Prefix)'
UNION ALL
SELECT N'certificate', c.name, NULL, NULL
FROM sys.certificates AS c
WHERE LEFT(c.name, LEN(N'$(Prefix)')) = N'$(Prefix)'
UNION ALL
SELECT N'master key', k.name, NULL, NULL
FROM sys.symmetric_keys AS k
WHERE k.name = N'##MS_DatabaseMasterKey##';
GO
