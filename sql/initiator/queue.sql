/*
Purpose:   the initiator's queue. It should stay empty: the target does not answer, so a message here is an
           Error or EndDialog of the broker.
Called by: the lab once per initiator.
Assumes:   the database exists. A second run turns a disabled queue on again and changes nothing else.
Variables: Database (name of the initiator's database),
           Queue (this side's queue, with its schema)
*/
USE [$(Database)];
GO

IF EXISTS (SELECT 1 FROM sys.service_queues WHERE object_id = OBJECT_ID(N'$(Queue)'))
    SET NOEXEC ON;
GO

CREATE QUEUE $(Queue)
    WITH STATUS = ON, RETENTION = OFF
    ON [PRIMARY];
GO

SET NOEXEC OFF;
GO

ALTER QUEUE $(Queue) WITH STATUS = ON;
GO
