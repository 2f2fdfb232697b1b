/*
Purpose:   what the ledger lists.
Called by: the harness on a user's own servers, before it creates or removes anything; anybody who wants to know.
Assumes:   ledger.sql has run.
Variables: Database (name of the side's database)
Columns:   class, name, created_at (datetime2, UTC; when it was listed, just before it was created)
*/
USE [$(Database)];
GO

SELECT l.class, l.name, l.created_at
FROM dbo.harness_ledger AS l
ORDER BY l.class, l.name;
GO
