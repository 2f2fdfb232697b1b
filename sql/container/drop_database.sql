/*
Purpose:   removes the database of one side, with its conversations, queues and messages, whoever uses it.
Called by: the lab, where containers that were left running have one of an earlier lab.
Assumes:   sysadmin; an instance of the lab's own. Running it again changes nothing.
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
