/*
Purpose:   the certificate with which this instance's endpoint identifies itself to other instances.
Called by: the lab, on every instance, after master_key.sql for master.
Assumes:   START_DATE lies in the past on purpose: clocks differ, and the other side refuses every connection while
           the certificate is not valid there yet. With the default expiry the lab would stop working after a year. The
           login that runs this owns the certificate. The owner does not matter here; db_owner of master suffices.
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
