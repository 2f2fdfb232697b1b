/*
Purpose:   removes a login, then strikes it off the ledger.
Called by: harness lab clean, and an opening that failed, on a user's own servers.
Assumes:   the ledger lists it, its user in master is gone, and nobody is signed in with it.
           One that is gone already is only struck off.
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
