/*
Purpose:   the certificate with which this instance's endpoint shows other instances who it is.
Called by: the lab, on every instance, after master_key.sql for master.
Assumes:   START_DATE lies in the past on purpose: clocks differ, and a certificate that is not valid yet on the
           other side refuses every connection. The default expiry of one year would end the lab one day. Whoever runs
           this owns the certificate: its owner means nothing here, and nobody but db_owner of master is needed.
Variables: LocalName (name of this side in the lab: Target, Initiator1, ...),
           Prefix (begins the name of every object outside the lab's databases; may be empty)
*/
USE [master];
GO

IF EXISTS (SELECT 1 FROM sys.certificates WHERE name = N'$(Prefix)$(LocalName)_Endpoint')
    SET NOEXEC ON;
GO

CREATE CERTIFICATE [$(Prefix)$(LocalName)_Endpoint]
    WITH SUBJECT = N'Endpoint of $(LocalName)',
    START_DATE = N'20200101',
    EXPIRY_DATE = N'20491231';
GO

SET NOEXEC OFF;
GO
