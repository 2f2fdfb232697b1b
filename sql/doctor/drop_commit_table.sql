/*
Purpose:   removes the table of single commits.
Called by: the doctor, on every instance, after doctor/commit.sql.
Assumes:   nothing: a table that does not exist is skipped.
Variables: Database (name of the side's database)
*/
USE [$(Database)];
GO

DROP TABLE IF EXISTS dbo.doctorCommits;
GO
