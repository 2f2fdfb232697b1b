/*
Purpose:   the target's queue, without activation.
Called by: the lab once, on the target, before the workload's procedures, which receive from it.
Assumes:   nothing of SQL Server's manual says whether a procedure can be created before the queue from which it receives,
           as it can before a table; so this file comes first, and target/activation.sql after the procedures.
Variables: Database (name of the target's database), Queue (this side's queue, with its schema)
*/
USE [$(Database)];
GO

IF EXISTS (SELECT 1 FROM sys.service_queues WHERE object_id = OBJECT_ID(N'$(Queue)'))
    SET NOEXEC ON;
GO

CREATE QUEUE $(Queue)
    WITH STATUS = ON
    ON [PRIMARY];
GO

SET NOEXEC OFF;
GO
