/*
Purpose:   the public part of this side's dialog certificate, for import_dialog_certificate.sql on the other side.
Called by: the lab with dialog security, on every instance.
Assumes:   dialog_certificate.sql has run; NULL otherwise.
Variables: Database (name of the side's database), LocalName (name of this side in the lab)
Columns:   certificate_binary (varbinary(4000); written as 0x... it is the other side's CertificateBinary)
*/
USE [$(Database)];
GO

SET NOCOUNT ON;
SELECT CAST(CERTENCODED(CERT_ID(N'$(LocalName)_Dialog')) AS varbinary(4000)) AS certificate_binary;
GO
