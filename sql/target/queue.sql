/*
Purpose:   the target's queue with its activation.
Called by: the lab once, on the target, after receive_procedure.sql. A second run sets the number of readers and
           turns on a queue that five rollbacks have disabled.
Assumes:   the activation procedure exists.
Variables: Database (name of the target's database),
           MaxQueueReaders (readers at once; 16 in the paper: two per core of its servers)
*/
USE [$(Database)];
GO

IF EXISTS (SELECT 1 FROM sys.service_queues WHERE object_id = OBJECT_ID(N'dbo.MySSBLabTestQueue'))
    SET NOEXEC ON;
GO

CREATE QUEUE [dbo].[MySSBLabTestQueue]
    WITH STATUS = ON
    ON [PRIMARY];
GO

SET NOEXEC OFF;
GO

-- In a string, because parsers expect a number and find the variable's name before sqlcmd has replaced it.
EXECUTE (N'ALTER QUEUE [dbo].[MySSBLabTestQueue]
    WITH STATUS = ON,
    ACTIVATION (
        STATUS = ON,
        PROCEDURE_NAME = [dbo].[SRPerf_Queue_LabTest],
        MAX_QUEUE_READERS = $(MaxQueueReaders),
        EXECUTE AS OWNER
    );');
GO
