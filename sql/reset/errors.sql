/*
Purpose:   empties the target's error table between cells.
Called by: the lab, on the target, where messages are counted, instead of reset/messages.sql: there are no other tables.
Assumes:   no reader is in the middle of a transaction; TRUNCATE waits for one.
Variables: Database (name of the target's database)
*/
USE [$(Database)];
GO

TRUNCATE TABLE dbo.messageErrors;
GO
