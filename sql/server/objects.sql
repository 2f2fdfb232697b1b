/*
Purpose:   the objects of a database with which the lab's could collide, and those that it uses as they are.
Called by: the harness on a user's own servers, for a database that lab.toml names as existing_database.
Assumes:   VIEW DEFINITION in the database.
Variables: Database (name of the side's database)
Columns:   class (as DROP writes it: MESSAGE TYPE, PROCEDURE, ...), schema_name (NULL where it has none), name
*/
USE [$(Database)];
GO

SET NOCOUNT ON;
-- Names of services, contracts and message types have a binary collation, so one UNION cannot hold other names too.
DECLARE @objects table (class nvarchar(30) NOT NULL, schema_name nvarchar(128) NULL, name nvarchar(128) NOT NULL);

INSERT INTO @objects (class, name)
SELECT N'MESSAGE TYPE', m.name FROM sys.service_message_types AS m;

INSERT INTO @objects (class, name)
SELECT N'CONTRACT', c.name FROM sys.service_contracts AS c;

INSERT INTO @objects (class, name)
SELECT N'SERVICE', s.name FROM sys.services AS s;

INSERT INTO @objects (class, name)
SELECT N'ROUTE', r.name FROM sys.routes AS r;

INSERT INTO @objects (class, name)
SELECT N'REMOTE SERVICE BINDING', b.name FROM sys.remote_service_bindings AS b;

INSERT INTO @objects (class, name)
SELECT N'CERTIFICATE', c.name FROM sys.certificates AS c;

INSERT INTO @objects (class, name)
SELECT N'USER', p.name FROM sys.database_principals AS p;

INSERT INTO @objects (class, schema_name, name)
SELECT N'QUEUE', SCHEMA_NAME(q.schema_id), q.name FROM sys.service_queues AS q;

INSERT INTO @objects (class, schema_name, name)
SELECT
    CASE
        WHEN o.type = 'P' THEN N'PROCEDURE'
        WHEN o.type = 'U' THEN N'TABLE'
        WHEN o.type = 'V' THEN N'VIEW'
        WHEN o.type = 'TR' THEN N'TRIGGER'
        WHEN o.type = 'SN' THEN N'SYNONYM'
        WHEN o.type = 'SO' THEN N'SEQUENCE'
        ELSE N'FUNCTION'
    END,
    SCHEMA_NAME(o.schema_id),
    o.name
FROM sys.objects AS o
WHERE o.is_ms_shipped = 0 AND o.type IN ('P', 'U', 'V', 'TR', 'SN', 'SO', 'FN', 'IF', 'TF');

INSERT INTO @objects (class, schema_name, name)
SELECT N'TYPE', SCHEMA_NAME(t.schema_id), t.name FROM sys.types AS t WHERE t.is_user_defined = 1;

SELECT o.class, o.schema_name, o.name FROM @objects AS o;
GO
