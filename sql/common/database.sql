/*
Purpose:   creates the database of one side if it does not exist, and turns its broker on.
Called by: the lab once per instance, before every other file.
Assumes:   the login may create databases; it becomes the owner, and must be one that SQL Server itself can
           resolve (sa will do), because activation runs as the owner. Running it again keeps the broker's guid.
Variables: Database (name of the side's database)
*/
USE [master];
GO

IF DB_ID(N'$(Database)') IS NULL
    CREATE DATABASE [$(Database)];
GO

-- The load writes far more log than data and nobody restores it, so the log is truncated at checkpoints.
ALTER DATABASE [$(Database)] SET RECOVERY SIMPLE;
GO

-- The broker of a new database is on, that of a restored or attached one is off. Needs an exclusive lock.
IF EXISTS (SELECT 1 FROM sys.databases WHERE name = N'$(Database)' AND is_broker_enabled = 0)
    ALTER DATABASE [$(Database)] SET ENABLE_BROKER WITH ROLLBACK IMMEDIATE;
GO
