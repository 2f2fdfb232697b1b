/*
Purpose:   dbo.WarmUpDialogsWith sends a text on @threads dialogs of the pool, those that clients use with @dialog_ratio,
           so that each has its row in sys.sysdercv of the target before the load begins; with the ratio 1 and as many
           threads as dialogs, on all. In the text ${sequence} becomes the number of the message, from @first.
Called by: the lab, after dbo.CreateDialogs, instead of dbo.WarmUpDialogs: where a workload's messages are texts, which
           the target's procedure must understand, in an application's database, and where dialogs that nobody uses are
           not warmed up. Then once per dialog ratio.
Assumes:   the instances are linked, and dbo.dialogs has ids from 1 without a gap.
Variables: Database (name of the initiator's database),
           MessageType (name of the message type)
*/
USE [$(Database)];
GO

CREATE OR ALTER PROCEDURE dbo.WarmUpDialogsWith
    @text nvarchar(max),
    @dialog_ratio int,
    @threads int,
    @first int
AS
BEGIN
    SET NOCOUNT ON;
    SET XACT_ABORT ON;

    DECLARE @sent int = 0;
    DECLARE @handle uniqueidentifier;

    BEGIN TRANSACTION;
    WHILE @sent < @threads
    BEGIN
        SET @handle = (SELECT d.handle FROM dbo.dialogs AS d WHERE d.id = (@sent + 1) * @dialog_ratio);

        SEND ON CONVERSATION @handle MESSAGE TYPE [$(MessageType)]
            (CAST(REPLACE(@text, N'${sequence}', CAST(@first + @sent AS nvarchar(10))) AS varbinary(max)));

        SET @sent = @sent + 1;
        IF @sent % 1000 = 0
        BEGIN
            COMMIT TRANSACTION;
            BEGIN TRANSACTION;
        END;
    END;
    COMMIT TRANSACTION;
END;
GO
