/*
Purpose:   ends the target's side of conversations that the lab began, with their messages, without notifying the other
           side.
Called by: the lab, on a target whose database existed before, instead of reset/broker.sql, before
           and after reset/dialogs.sql.
Assumes:   the ids are those of reset/dialog_ids.sql on the initiators. Other conversations are left alone.
Variables: Database (name of the target's database), ConversationIds (each in apostrophes, separated by commas)
*/
USE [$(Database)];
GO

SET NOCOUNT ON;
DECLARE @handle uniqueidentifier;

DECLARE conversations CURSOR LOCAL STATIC FOR
    SELECT e.conversation_handle
    FROM sys.conversation_endpoints AS e
    WHERE e.is_initiator = 0 AND e.conversation_id IN ($(ConversationIds));

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
