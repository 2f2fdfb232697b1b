/*
Purpose:   whose a database is: its mark, and whether it keeps a ledger.
Called by: the harness on a user's own servers, for a database that is there.
Assumes:   the login may enter the database.
Variables: Database (name of the side's database)
Columns:   mark (made: by the harness; prepared: by an administrator; NULL: not the harness's), has_ledger (int)
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
