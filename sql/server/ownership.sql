/*
Purpose:   who owns a database: its mark, and whether it contains a ledger.
Called by: the harness on a user's own servers, for an existing database.
Assumes:   the login may use the database.
Variables: Database (name of the side's database)
Columns:   mark (made: by the harness; prepared: by an administrator; existing: there
           before; NULL: not the harness's), has_ledger (int)
*/
USE [$(Database)];
GO

SELECT
    (
        SELECT CAST(p.value AS nvarchar(60))
        FROM sys.extended_properties AS p
        WHERE p.class = 0 AND p.name = N'service_broker_harness'
    ) AS mark,
    CASE WHEN OBJECT_ID(N'dbo.harness_ledger', N'U') IS NULL THEN 0 ELSE 1 END AS has_ledger;
GO
