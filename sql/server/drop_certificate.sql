/*
Purpose:   removes a certificate of master, then strikes it off the ledger.
Called by: harness lab clean, and an opening that failed, on a user's own servers.
Assumes:   the ledger lists it, and the endpoint that used it is gone.
           One that is gone already is only struck off.
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
