/*
Purpose:   drops the Service Broker endpoint, then removes it from the ledger.
Called by: harness lab clean, and an opening that failed, on a user's own servers.
Assumes:   the ledger lists it. Its grants are dropped with it.
           If it does not exist, only its row in the ledger is removed.
Variables: Database (name of the side's database), Name (name of the endpoint)
*/
USE [master];
GO

IF EXISTS (SELECT 1 FROM sys.endpoints WHERE name = N'$(Name)')
    DROP ENDPOINT [$(Name)];
GO

DELETE FROM [$(Database)].dbo.harness_ledger
WHERE class = N'endpoint' AND name = N'$(Name)'
    AND NOT EXISTS (SELECT 1 FROM sys.endpoints WHERE name = N'$(Name)');
GO
