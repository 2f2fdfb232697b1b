/*
Purpose:   one row for every RECEIVE that returned messages: how many, when, and the reader's session.
Called by: the lab once, on the target; filled by dbo.SRPerf_Queue_LabTest.
Assumes:   the database exists.
Variables: Database (name of the target's database)
*/
USE [$(Database)];
GO

IF OBJECT_ID(N'dbo.receiveCount', N'U') IS NOT NULL
    SET NOEXEC ON;
GO

CREATE TABLE dbo.receiveCount
(
    id bigint IDENTITY(1, 1) NOT NULL CONSTRAINT PK_receiveCount PRIMARY KEY,
    messages int NOT NULL,
    received_at datetime2(7) NOT NULL CONSTRAINT DF_receiveCount_received_at DEFAULT SYSUTCDATETIME(),
    session_id int NOT NULL
);
GO

SET NOEXEC OFF;
GO
