/*
Purpose:   lets messages gather in the target's queue: the paper's batch processing, in which "messages queue up during the
           trading day and are processed in batch at night after the target's queue reader is activated".
Called by: harness techniques, before the clients of a step start that processes in batch. activation.sql turns activation on
           again after they have stopped.
Assumes:   no reader runs: "Altering the activation status from ON to OFF stops the broker from activating instances of the
           stored procedure, but does not stop instances of the stored procedure that are currently running." And
           "changing the activation status from OFF to ON immediately activates the activation stored procedure" (ALTER
           QUEUE, Remarks).
           The queue's own STATUS stays ON. With OFF "no messages can be added to the queue": they would wait in
           transmission queues instead, and be sent again and again, up to a minute apart.
Variables: Database (name of the target's database), Queue (this side's queue, with its schema)
*/
USE [$(Database)];
GO

-- In a string, because parsers expect a name and find a variable before sqlcmd has replaced it.
EXECUTE (N'ALTER QUEUE $(Queue) WITH ACTIVATION (STATUS = OFF);');
GO
