/*
Purpose:   dbo.WarmUpDialogs sends a text on @threads dialogs of the pool, those that clients use with @dialog_ratio, so
           that each has its row in sys.sysdercv of the target before the load begins; without parameters 50 bytes on
           all dialogs. In the text ${sequence} becomes the number of the message, from @first.
Called by: the lab, after dbo.CreateDialogs, once per dialog ratio.
Assumes:   the instances are linked, and dbo.dialogs has ids from 1 without a gap. The messages have no payload header,
           so no run's accounting counts them; reset/messages.sql removes them from the target once the transmission
           queue is empty.
Variables: Database (name of the initiator's database),
           MessageType (name of the message type)
*/
USE [$(Database)];
GO

CREATE OR ALTER PROCEDURE dbo.WarmUpDialogs
    @text nvarchar(max) = N'xxxxxxxxxxxxxxxxxxxxxxxxx',
    @dialog_ratio int = 1,
    @threads int = NULL,
    @first int = 0
AS
BEGIN
    SET NOCOUNT ON;
    SET XACT_ABORT ON;

    DECLARE @sent int;
    DECLARE @handle uniqueidentifier;

    SET @sent = 0;
    SET @threads = ISNULL(@threads, (SELECT COUNT(*) FROM dbo.dialogs));

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
