/*
Purpose:   removes the probe service with its queue, its procedure, its messages and its conversations. Nothing of the probe may
           remain: the dialogs of the next pool must be the only conversations.
Called by: the doctor, on every instance, before and after a probe, whatever its outcome.
Assumes:   nothing: objects that do not exist are skipped. The other side is not notified; it does the same.
Variables: Database (name of the side's database)
*/
USE [$(Database)];
GO

DECLARE @handle uniqueidentifier;

DECLARE conversations CURSOR LOCAL STATIC FOR
    SELECT e.conversation_handle
    FROM sys.conversation_endpoints AS e
    JOIN sys.services AS s ON s.service_id = e.service_id
    WHERE s.name = N'//MySSB.com/Lab/S_Probe';

OPEN conversations;
FETCH NEXT FROM conversations INTO @handle;

WHILE @@FETCH_STATUS = 0
BEGIN
    END CONVERSATION @handle WITH CLEANUP;
    FETCH NEXT FROM conversations INTO @handle;
END;

CLOSE conversations;
DEALLOCATE conversations;
GO

IF EXISTS (SELECT 1 FROM sys.services WHERE name = N'//MySSB.com/Lab/S_Probe')
    DROP SERVICE [//MySSB.com/Lab/S_Probe];
GO

IF EXISTS (SELECT 1 FROM sys.service_queues WHERE object_id = OBJECT_ID(N'dbo.MySSBLabProbeQueue'))
    DROP QUEUE [dbo].[MySSBLabProbeQueue];
GO

IF OBJECT_ID(N'dbo.MySSBLabProbeAnswer') IS NOT NULL
    DROP PROCEDURE [dbo].[MySSBLabProbeAnswer];
GO
