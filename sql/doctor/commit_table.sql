/*
Purpose:   a table for single commits, which show how long the log's disk takes for one.
Called by: the doctor, on every instance, before doctor/commit.sql.
Assumes:   the lab's database exists.
Variables: Database (name of the side's database)
*/
USE [$(Database)];
GO

IF OBJECT_ID(N'dbo.doctorCommits', N'U') IS NOT NULL
    SET NOEXEC ON;
GO

CREATE TABLE dbo.doctorCommits
(
    id bigint IDENTITY(1, 1) NOT NULL CONSTRAINT PK_doctorCommits PRIMARY KEY,
    filler binary(100) NOT NULL
);
GO

SET NOEXEC OFF;
GO
