/*
Purpose:   removes ledger and mark from a database that existed before the lab.
Called by: harness lab clean, and an opening that failed, on a user's own servers, as the last step on an instance.
Assumes:   everything that the ledger listed was dropped.
Variables: Database (name of the side's database)
*/
USE [$(Database)];
GO

IF OBJECT_ID(N'dbo.harness_ledger', N'U') IS NOT NULL
    DROP TABLE dbo.harness_ledger;
GO

IF EXISTS (SELECT 1 FROM sys.extended_properties WHERE class = 0 AND name = N'service_broker_harness')
    EXECUTE sys.sp_dropextendedproperty @name = N'service_broker_harness';
GO
