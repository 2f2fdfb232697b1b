/*
Purpose:   marks a database that exists already as one in which the harness keeps a ledger. Only what the ledger lists
           is the harness's.
Called by: the harness on a user's own servers, before ledger.sql.
Assumes:   the database has no other mark.
Variables: Database (name of the side's database)
*/
USE [$(Database)];
GO

IF NOT EXISTS (SELECT 1 FROM sys.extended_properties WHERE class = 0 AND name = N'service_broker_harness')
    EXECUTE sys.sp_addextendedproperty @name = N'service_broker_harness', @value = N'existing';
GO
