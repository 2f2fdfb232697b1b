/*
Purpose:   drops a user of master, then removes it from the ledger.
Called by: harness lab clean, and an opening that failed, on a user's own servers.
Assumes:   the ledger lists it, and its certificate was dropped.
           If it does not exist, only its row in the ledger is removed.
Variables: Database (name of the side's database), Name (name of the user)
*/
USE [master];
GO

IF EXISTS (SELECT 1 FROM sys.database_principals WHERE name = N'$(Name)')
    DROP USER [$(Name)];
GO

DELETE FROM [$(Database)].dbo.harness_ledger
WHERE class = N'user' AND name = N'$(Name)'
    AND NOT EXISTS (SELECT 1 FROM sys.database_principals WHERE name = N'$(Name)');
GO
