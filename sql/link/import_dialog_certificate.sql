/*
Purpose:   lets this database verify the other side's dialogs and encrypt session keys for it.
Called by: the lab with dialog security, on every instance, once per other side, after dialog_user.sql.
Assumes:   a certificate of that name is an older one of the same side and is replaced.
Variables: Database (name of this side's database), RemoteName (name of the other side in the lab),
           CertificateBinary (0x..., from the other side's export_dialog_certificate.sql)
*/
USE [$(Database)];
GO

IF EXISTS (SELECT 1 FROM sys.certificates WHERE name = N'$(RemoteName)_Dialog')
    DROP CERTIFICATE [$(RemoteName)_Dialog];
GO

-- BINARY requires a literal. The statement is in a string only because Microsoft's script parser (ScriptDom), which
-- tools and editors use, does not know FROM BINARY.
EXECUTE (N'CREATE CERTIFICATE [$(RemoteName)_Dialog] AUTHORIZATION [Proxy:User_$(RemoteName)] FROM BINARY = $(CertificateBinary);');
GO
