/*
Purpose:   row versions, as many applications have them: changed rows are versioned in tempdb.
Called by: the lab, on all instances, after common/database.sql, which sets the option that the paper's workload has.
Assumes:   the database exists.
Variables: Database (name of the side's database)
*/
USE [master];
GO

ALTER DATABASE [$(Database)] SET READ_COMMITTED_SNAPSHOT ON WITH ROLLBACK IMMEDIATE;
GO

USE [$(Database)];
GO
