/*
Purpose:   delayed durability for all transactions: a commit does not wait for the log, and the latest ones are lost when the
           server stops. Since SQL Server 2014.
Called by: the lab, on all instances, after common/database.sql, which sets the option that the paper's workload has.
Assumes:   the database exists.
Variables: Database (name of the side's database)
*/
USE [master];
GO

ALTER DATABASE [$(Database)] SET DELAYED_DURABILITY = FORCED;
GO

USE [$(Database)];
GO
