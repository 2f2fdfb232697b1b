/*
Purpose:   the activation of the target's queue. It turns the queue on too, if five rollbacks have disabled it.
Called by: the lab once, on the target, after the workload's procedures; again for another procedure or number of readers,
           and after a reset.
Assumes:   the queue and the activation procedure exist.
Variables: Database (name of the target's database),
           ActivationProcedure (dbo.SRPerf_Queue_LabTest in the paper),
           MaxQueueReaders (readers at once; 16 in the paper: two per core of its servers),
           Queue (this side's queue, with its schema)
*/
USE [$(Database)];
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
