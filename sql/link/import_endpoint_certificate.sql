/*
Purpose:   maps the other instance to its login: a connection with this certificate's private key is that login.
Called by: the lab, on every instance, once per other side, after endpoint_login.sql.
Assumes:   a certificate of that name is an older one of the same side and is replaced.
Variables: RemoteName (name of the other side in the lab),
           CertificateBinary (0x..., from the other side's export_endpoint_certificate.sql),
           Prefix (begins the name of every object outside the lab's databases; may be empty)
*/
USE [master];
GO

IF EXISTS (SELECT 1 FROM sys.certificates WHERE name = N'$(Prefix)$(RemoteName)_Endpoint')
    DROP CERTIFICATE [$(Prefix)$(RemoteName)_Endpoint];
GO

-- BINARY requires a literal. The statement is in a string only because Microsoft's script parser (ScriptDom), which
-- tools and editors use, does not know FROM BINARY.
EXECUTE (N'CREATE CERTIFICATE [$(Prefix)$(RemoteName)_Endpoint] AUTHORIZATION [$(Prefix)User_$(RemoteName)] FROM BINARY = $(CertificateBinary);');
GO
