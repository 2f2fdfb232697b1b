/*
Purpose:   the public part of the endpoint's certificate, for import_endpoint_certificate.sql on the other side.
Called by: the lab, on every instance. It needs no file, so containers need no common folder.
Assumes:   endpoint_certificate.sql has run; NULL otherwise.
Variables: LocalName (name of this side in the lab),
           Prefix (begins the name of every object outside the lab's databases; may be empty)
Columns:   certificate_binary (varbinary(4000); written as 0x... it is the other side's CertificateBinary)
*/
USE [master];
GO

SET NOCOUNT ON;
SELECT CAST(CERTENCODED(CERT_ID(N'$(Prefix)$(LocalName)_Endpoint')) AS varbinary(4000)) AS certificate_binary;
GO
