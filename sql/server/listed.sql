/*
Purpose:   the rows of the ledger.
Called by: the harness on a user's own servers, before it creates or removes anything; also by hand.
Assumes:   ledger.sql has run.
Variables: Database (name of the side's database)
Columns:   class, name, created_at (datetime2, UTC; when it was listed, just before its creation)
*/
USE [$(Database)];
GO

SELECT l.class, l.name, l.created_at
FROM dbo.harness_ledger AS l
ORDER BY l.class, l.name;
GO
