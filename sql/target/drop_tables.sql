/*
Purpose:   drops the tables of messages and of their counts if they are stored in another way than the workload says. "A
           heap is a table without a clustered index" (Heaps); a primary key is clustered by default.
Called by: the lab, on the target, before the files that create these tables, in a database that the harness created.
Assumes:   nobody uses the tables, and no message in them is needed. sys.indexes has a row of type HEAP or CLUSTERED for
           every table.
Variables: Database (name of the target's database), Tables (HEAP or CLUSTERED)
*/
USE [$(Database)];
GO

IF EXISTS
(
    SELECT 1
    FROM sys.indexes AS i
    WHERE i.object_id = OBJECT_ID(N'dbo.messageDrop')
        AND i.type_desc IN (N'HEAP', N'CLUSTERED')
        AND i.type_desc <> N'$(Tables)'
)
BEGIN
    DROP TABLE dbo.messageDrop;
    DROP TABLE dbo.receiveCount;
END;
GO
