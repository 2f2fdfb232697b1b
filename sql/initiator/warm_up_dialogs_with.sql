/*
Purpose:   dbo.WarmUpDialogsWith sends a text on every dialog of the pool, and on no other conversation of the database,
           so that each has its row in sys.sysdercv of the target before the load begins. In the text ${sequence} becomes
           the number of the message, from 0.
Called by: the lab, once per pool, after dbo.CreateDialogs, instead of dbo.WarmUpDialogs: where a workload's messages
           are texts, which the target's procedure must understand, and in an application's database.
Assumes:   the instances are linked, and dbo.dialogs has ids from 1 without a gap.
Variables: Database (name of the initiator's database),
           MessageType (name of the message type)
*/
USE [$(Database)];
GO

CREATE OR ALTER PROCEDURE dbo.WarmUpDialogsWith
    @text nvarchar(max)
AS
BEGIN
    SET NOCOUNT ON;
    SET XACT_ABORT ON;

    DECLARE @sent int = 0;
    DECLARE @dialogs int = (SELECT COUNT(*) FROM dbo.dialogs);
    DECLARE @handle uniqueidentifier;

    BEGIN TRANSACTION;
    WHILE @sent < @dialogs
    BEGIN
        SET @handle = (SELECT d.handle FROM dbo.dialogs AS d WHERE d.id = @sent + 1);

        SEND ON CONVERSATION @handle MESSAGE TYPE [$(MessageType)]
            (CAST(REPLACE(@text, N'${sequence}', CAST(@sent AS nvarchar(10))) AS varbinary(max)));

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
