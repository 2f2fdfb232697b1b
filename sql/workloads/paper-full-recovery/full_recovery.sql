/*
Purpose:   the recovery model of production, FULL: log records stay until they are backed up. Until the first full backup SQL
           Server still truncates the log as under SIMPLE.
Called by: the lab, on all instances, after common/database.sql, which sets the option that the paper's workload has.
Assumes:   the database exists.
Variables: Database (name of the side's database)
*/
USE [master];
GO

ALTER DATABASE [$(Database)] SET RECOVERY FULL;
GO

USE [$(Database)];
GO
