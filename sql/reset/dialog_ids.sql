/*
Purpose:   the conversations of the pool's dialogs, which have the same ids at the target.
Called by: the lab, on an initiator, before reset/conversations.sql at the target and reset/dialogs.sql here.
Assumes:   no table of dialogs, no rows: no result set at all.
Variables: Database (name of the initiator's database)
Columns:   conversation_id (uniqueidentifier)
*/
USE [$(Database)];
GO

IF OBJECT_ID(N'dbo.dialogs', N'U') IS NOT NULL
    SELECT e.conversation_id
    FROM sys.conversation_endpoints AS e
    WHERE e.conversation_handle IN (SELECT d.handle FROM dbo.dialogs AS d);
GO
