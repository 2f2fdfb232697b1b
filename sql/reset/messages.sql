/*
Purpose:   empties the target's tables between cells.
Called by: the lab, on the target, when transmission queues and queue are empty.
Assumes:   no reader is in the middle of a transaction; TRUNCATE waits for one. Identities restart at 1.
Variables: Database (name of the target's database)
*/
USE [$(Database)];
GO

TRUNCATE TABLE dbo.messageDrop;
GO

TRUNCATE TABLE dbo.receiveCount;
GO

TRUNCATE TABLE dbo.messageErrors;
GO
