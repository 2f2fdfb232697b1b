/*
Purpose:   the target's queue with its activation.
Called by: the lab once, on the target, after the workload's scripts. A second run sets the procedure and the number
           of readers, and turns on a queue that five rollbacks have disabled.
Assumes:   the activation procedure exists.
Variables: Database (name of the target's database),
           ActivationProcedure (dbo.SRPerf_Queue_LabTest in the paper),
           MaxQueueReaders (readers at once; 16 in the paper: two per core of its servers),
           Queue (this side's queue, with its schema)
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

-- In a string, because parsers expect names and numbers and find variables before sqlcmd has replaced them.
EXECUTE (N'ALTER QUEUE $(Queue)
    WITH STATUS = ON,
    ACTIVATION (
        STATUS = ON,
        PROCEDURE_NAME = $(ActivationProcedure),
        MAX_QUEUE_READERS = $(MaxQueueReaders),
        EXECUTE AS OWNER
    );');
GO
