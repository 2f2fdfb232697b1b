/*
Purpose:   drops a certificate of master, then removes it from the ledger.
Called by: harness lab clean, and an opening that failed, on a user's own servers.
Assumes:   the ledger lists it, and the endpoint that used it was dropped.
           If it does not exist, only its row in the ledger is removed.
Variables: Database (name of the side's database), Name (name of the certificate)
*/
USE [master];
GO

IF EXISTS (SELECT 1 FROM sys.certificates WHERE name = N'$(Name)')
    DROP CERTIFICATE [$(Name)];
GO

DELETE FROM [$(Database)].dbo.harness_ledger
WHERE class = N'certificate' AND name = N'$(Name)'
    AND NOT EXISTS (SELECT 1 FROM sys.certificates WHERE name = N'$(Name)');
GO
