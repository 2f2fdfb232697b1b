/*
Purpose:   receive_count.sql without a primary key: a heap.
Called by: the lab instead of receive_count.sql, on the target, where the workload says tables = "heap".
Assumes:   the database exists, and the table does not exist with a key (drop_tables.sql).
Variables: Database (name of the target's database)
*/
USE [$(Database)];
GO

IF OBJECT_ID(N'dbo.receiveCount', N'U') IS NOT NULL
    SET NOEXEC ON;
GO

CREATE TABLE dbo.receiveCount
(
    id bigint IDENTITY(1, 1) NOT NULL,
    messages int NOT NULL,
    received_at datetime2(7) NOT NULL CONSTRAINT DF_receiveCount_received_at DEFAULT SYSUTCDATETIME(),
    session_id int NOT NULL
);
GO

SET NOEXEC OFF;
GO
