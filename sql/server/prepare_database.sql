/*
Purpose:   creates and marks the database of one side, for a login that may not create databases. The harness fills it,
           and empties it again instead of dropping it.
Called by: an administrator, once per instance, before minimal_rights.sql; not needed if the login may create databases.
Assumes:   everything in a database with this mark may be removed: never mark one that contains anything else.
Variables: Database (name of the side's database), Login (the login of the harness)
*/
USE [master];
GO

IF DB_ID(N'$(Database)') IS NULL
    CREATE DATABASE [$(Database)];
GO

-- Activation, EXECUTE AS OWNER and deliveries run as the owner. An account of a domain, as which an administrator often signs in,
-- is not found where the service may not ask the domain: Msg 15404. So sa owns it, whatever its name is here.
DECLARE @statement nvarchar(max) =
    N'ALTER AUTHORIZATION ON DATABASE::' + QUOTENAME(N'$(Database)') + N' TO ' + QUOTENAME(SUSER_SNAME(0x01)) + N';';
EXECUTE (@statement);
GO

USE [$(Database)];
GO

IF NOT EXISTS (SELECT 1 FROM sys.extended_properties WHERE class = 0 AND name = N'service_broker_harness')
    EXECUTE sys.sp_addextendedproperty @name = N'service_broker_harness', @value = N'prepared';
GO

IF USER_ID(N'$(Login)') IS NULL
    CREATE USER [$(Login)] FOR LOGIN [$(Login)];
GO

ALTER ROLE [db_owner] ADD MEMBER [$(Login)];
GO
