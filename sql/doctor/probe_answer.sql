/*
Purpose:   a procedure that sends each probe message back, activated by the probe's queue as the lab's own procedure is
           (target/activation.sql): so the probe also finds a server that cannot activate as the database's owner.
Called by: the doctor, on the target, after probe_service.sql.
Assumes:   the procedure does not exist.
Variables: Database (name of the target's database)
*/
USE [$(Database)];
GO

CREATE PROCEDURE dbo.MySSBLabProbeAnswer
AS
BEGIN
    SET NOCOUNT ON;
    DECLARE @handle uniqueidentifier;
    DECLARE @type nvarchar(256);
    DECLARE @body varbinary(max);

    WHILE 1 = 1
    BEGIN
        SET @handle = NULL;

        RECEIVE TOP (1)
            @handle = conversation_handle,
            @type = message_type_name,
            @body = message_body
        FROM dbo.MySSBLabProbeQueue;

        IF @handle IS NULL
            RETURN;

        IF @type = N'DEFAULT'
            SEND ON CONVERSATION @handle MESSAGE TYPE [DEFAULT] (@body);
    END;
END;
GO

ALTER QUEUE [dbo].[MySSBLabProbeQueue]
    WITH ACTIVATION
    (
        STATUS = ON,
        PROCEDURE_NAME = dbo.MySSBLabProbeAnswer,
        MAX_QUEUE_READERS = 1,
        EXECUTE AS OWNER
    );
GO
