/*
Purpose:   dbo.GroupDialogs puts the dialogs that @threads clients use with @dialog_ratio into conversation groups of
           @per_group: the first @per_group clients share a group, and so on. SEND locks the group of its conversation
           until the transaction ends, so the clients of a group send one after another.
Called by: the lab, before each cell of a workload whose dialogs share groups.
Assumes:   dbo.CreateDialogs has begun the dialogs, each in a group of its own, and nobody uses them meanwhile. They are
           moved, not begun WITH RELATED_CONVERSATION_GROUP, because one pool serves all dialog ratios and clients, and
           only those decide which dialogs are used. Moving a conversation needs its ownership, or db_owner.
Variables: Database (name of the initiator's database)
*/
USE [$(Database)];
GO

CREATE OR ALTER PROCEDURE dbo.GroupDialogs
    @dialog_ratio int,
    @threads int,
    @per_group int
AS
BEGIN
    SET NOCOUNT ON;
    SET XACT_ABORT ON;

    DECLARE @thread int = 0;
    DECLARE @handle uniqueidentifier;
    DECLARE @group uniqueidentifier;
    DECLARE @groups int;

    BEGIN TRANSACTION;
    WHILE @thread < @threads
    BEGIN
        SET @handle = (SELECT d.handle FROM dbo.dialogs AS d WHERE d.id = (@thread + 1) * @dialog_ratio);

        IF @thread % @per_group = 0
            SET @group = (
                SELECT e.conversation_group_id
                FROM sys.conversation_endpoints AS e
                WHERE e.conversation_handle = @handle
            );
        ELSE
            MOVE CONVERSATION @handle TO @group;

        SET @thread = @thread + 1;
    END;
    COMMIT TRANSACTION;

    -- The first dialog of a group may have been moved for an earlier cell. If two of them met then, their groups are one.
    SELECT @groups = COUNT(DISTINCT e.conversation_group_id)
    FROM dbo.dialogs AS d
    INNER JOIN sys.conversation_endpoints AS e ON e.conversation_handle = d.handle
    WHERE d.id <= @threads * @dialog_ratio AND d.id % @dialog_ratio = 0;

    IF @groups <> (@threads + @per_group - 1) / @per_group
        RAISERROR (N'The dialogs in use are in %d conversation groups: begin a new pool.', 16, 1, @groups);
END;
GO
