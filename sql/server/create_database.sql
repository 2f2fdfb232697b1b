/*
Purpose:   creates the database of one side on a user's own server, and marks it as made by the harness.
Called by: the harness on a user's own servers, once per instance, before common/database.sql.
Assumes:   the database is absent. One batch, so that there is hardly a moment in which it exists without its mark;
           an extended property cannot be had outside of a database.
Variables: Database (name of the side's database)
*/
USE [master];
GO

CREATE DATABASE [$(Database)];

-- A statement that fails does not end the batch, and its error is the one to be told.
IF DB_ID(N'$(Database)') IS NOT NULL
    EXECUTE (N'USE [$(Database)]; EXECUTE sys.sp_addextendedproperty @name = N''service_broker_harness'', @value = N''made'';');
GO
