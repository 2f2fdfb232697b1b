/*
Purpose:   drops a login, then removes it from the ledger.
Called by: harness lab clean, and an opening that failed, on a user's own servers.
Assumes:   the ledger lists it, its user in master was dropped, and nobody is signed in with it.
           If it does not exist, only its row in the ledger is removed.
Variables: Database (name of the side's database), Name (name of the login)
*/
USE [master];
GO

IF EXISTS (SELECT 1 FROM sys.server_principals WHERE name = N'$(Name)')
    DROP LOGIN [$(Name)];
GO

DELETE FROM [$(Database)].dbo.harness_ledger
WHERE class = N'login' AND name = N'$(Name)'
    AND NOT EXISTS (SELECT 1 FROM sys.server_principals WHERE name = N'$(Name)');
GO
