/*
Purpose:   drops an object of a database that existed before the lab, then removes it from the ledger.
Called by: harness lab clean, and an opening that failed, on a user's own servers.
Assumes:   the ledger lists it, and what depends on it was dropped.
           If it does not exist, only its row in the ledger is removed.
Variables: Database (name of the side's database), Class (as DROP writes it: QUEUE, MESSAGE TYPE, ...),
           Name (name of the object in brackets, with its schema if it has one),
           Exists (1 or 0)
*/
USE [$(Database)];
GO

-- Readers of a queue that is off end. In strings, because parsers expect keywords and names in place of variables.
IF N'$(Exists)' = N'1' AND N'$(Class)' = N'QUEUE'
    EXECUTE (N'ALTER QUEUE $(Name) WITH STATUS = OFF;');
GO

IF N'$(Exists)' = N'1'
    EXECUTE (N'DROP $(Class) $(Name);');
GO

DELETE FROM dbo.harness_ledger WHERE class = N'$(Class)' AND name = N'$(Name)';
GO
