/*
Purpose:   removes all conversations and messages of this database, without notifying the other side, and gives the
           database a new broker instance.
Called by: the lab, on every instance, between pools, before dbo.CreateDialogs.
Assumes:   all sides are reset together. Every session in the database is rolled back and disconnected, the
           harness's own included. Afterwards run route.sql on every other side with the new broker instance.
           On an initiator the stored dialogs are invalid, because their conversations no longer exist.
Variables: Database (name of the side's database)
*/
USE [master];
GO

ALTER DATABASE [$(Database)] SET NEW_BROKER WITH ROLLBACK IMMEDIATE;
GO

USE [$(Database)];
GO

IF OBJECT_ID(N'dbo.dialogs', N'U') IS NOT NULL
    TRUNCATE TABLE dbo.dialogs;
GO
