/*
Purpose:   drops the master key of master if the ledger lists it and nothing needs it any more, and removes it from the ledger.
Called by: harness lab clean, and an opening that failed, on a user's own servers, after all certificates.
Assumes:   nothing. A key that others use by now remains; it leaves the ledger too.
Variables: Database (name of the side's database)
Columns:   name (of a certificate or asymmetric key that needs the master key, which therefore remains)
*/
USE [master];
GO

IF EXISTS (SELECT 1 FROM sys.symmetric_keys WHERE name = N'##MS_DatabaseMasterKey##')
    AND EXISTS (SELECT 1 FROM [$(Database)].dbo.harness_ledger WHERE class = N'master key')
    AND NOT EXISTS (SELECT 1 FROM sys.certificates WHERE pvt_key_encryption_type = 'MK')
    AND NOT EXISTS (SELECT 1 FROM sys.asymmetric_keys WHERE pvt_key_encryption_type = 'MK')
    DROP MASTER KEY;
GO

SELECT c.name FROM sys.certificates AS c WHERE c.pvt_key_encryption_type = 'MK'
UNION ALL
SELECT k.name FROM sys.asymmetric_keys AS k WHERE k.pvt_key_encryption_type = 'MK';
GO

DELETE FROM [$(Database)].dbo.harness_ledger WHERE class = N'master key';
GO
