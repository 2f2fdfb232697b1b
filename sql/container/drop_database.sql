/*
Purpose:   drops the database of one side, with its conversations, queues and messages, even if it is in use.
Called by: the lab, if containers that kept running have the database of an earlier lab.
Assumes:   sysadmin; an instance that only the lab uses. Running it again changes nothing.
Variables: Database (name of the side's database)
*/
USE [master];
GO

IF DB_ID(N'$(Database)') IS NOT NULL
    ALTER DATABASE [$(Database)] SET SINGLE_USER WITH ROLLBACK IMMEDIATE;
GO

IF DB_ID(N'$(Database)') IS NOT NULL
    DROP DATABASE [$(Database)];
GO
