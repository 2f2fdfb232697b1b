/*
Purpose:   gives a side's database to sa, whatever its name is here: activation and deliveries act as the owner, and of an
           administrator's domain account the service may not be able to ask the domain (Msg 15404).
Called by: an administrator who creates a lab by script (harness doctor --script), after create_database.sql.
Assumes:   sysadmin.
Variables: Database (name of the side's database)
*/
USE [master];
GO

DECLARE @statement nvarchar(max) =
    N'ALTER AUTHORIZATION ON DATABASE::' + QUOTENAME(N'$(Database)') + N' TO ' + QUOTENAME(SUSER_SNAME(0x01)) + N';';
EXECUTE (@statement);
GO
