/*
Purpose:   ends the dialogs of the pool, with their messages, without notifying the other side, and forgets them.
Called by: the lab, on an initiator, instead of reset/broker.sql, where its database or the target's existed before.
Assumes:   reset/conversations.sql has ended the target's side. Conversations that the lab did not begin are left alone.
Variables: Database (name of the initiator's database)
*/
USE [$(Database)];
GO

IF OBJECT_ID(N'dbo.dialogs', N'U') IS NULL
    SET NOEXEC ON;
GO

SET NOCOUNT ON;
DECLARE @handle uniqueidentifier;

DECLARE conversations CURSOR LOCAL STATIC FOR
    SELECT e.conversation_handle
    FROM sys.conversation_endpoints AS e
    WHERE e.conversation_handle IN (SELECT d.handle FROM dbo.dialogs AS d);

OPEN conversations;
FETCH NEXT FROM conversations INTO @handle;

WHILE @@FETCH_STATUS = 0
BEGIN
    END CONVERSATION @handle WITH CLEANUP;
    FETCH NEXT FROM conversations INTO @handle;
END;

CLOSE conversations;
DEALLOCATE conversations;

TRUNCATE TABLE dbo.dialogs;
GO

SET NOEXEC OFF;
GO
