/*
Purpose:   the certificate that secures this side's dialogs. It belongs to dbo because dbo owns the service: dialog
           security requires a certificate of the service's owner. (db_owner may give objects to dbo.)
Called by: the lab with dialog security, on every instance, after master_key.sql for the lab's database.
Assumes:   see endpoint_certificate.sql for the choice of dates.
Variables: Database (name of the side's database), LocalName (name of this side in the lab)
*/
USE [$(Database)];
GO

IF EXISTS (SELECT 1 FROM sys.certificates WHERE name = N'$(LocalName)_Dialog')
    SET NOEXEC ON;
GO

CREATE CERTIFICATE [$(LocalName)_Dialog] AUTHORIZATION [dbo]
    WITH SUBJECT = N'Dialogs of $(LocalName)',
    START_DATE = N'20200101',
    EXPIRY_DATE = N'20491231'
    ACTIVE FOR BEGIN_DIALOG = ON;
GO

SET NOEXEC OFF;
GO
