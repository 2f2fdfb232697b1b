/*
Purpose:   creates the database of one side on a user's own server, and marks it as created by the harness.
Called by: the harness on a user's own servers, once per instance, before common/database.sql.
Assumes:   the database does not exist. This is one batch, so that the database is without its mark for a moment only.
           The mark is an extended property, which needs an existing database.
Variables: Database (name of the side's database)
*/
USE [master];
GO

CREATE DATABASE [$(Database)];

-- A statement that fails does not end the batch, and its error is the one to report.
IF DB_ID(N'$(Database)') IS NOT NULL
    EXECUTE (N'USE [$(Database)]; EXECUTE sys.sp_addextendedproperty @name = N''service_broker_harness'', @value = N''made'';');
GO
