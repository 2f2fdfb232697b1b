/*
Purpose:   receives one probe message and sends it back.
Called by: the doctor, on the target, until all initiators' messages have arrived or the time is up.
Assumes:   probe_service.sql has run.
Variables: Database (name of the target's database), TimeoutMs (how long to wait, in ms)
Columns:   message_type_name (DEFAULT for a probe), message_text (the initiator's LocalName, or an error's XML);
           no row if nothing arrived
*/
USE [$(Database)];
GO

SET NOCOUNT ON;
DECLARE @handle uniqueidentifier;
DECLARE @type nvarchar(256);
DECLARE @body varbinary(max);
DECLARE @timeout_ms int = $(TimeoutMs);

WAITFOR
(
    RECEIVE TOP (1)
        @handle = conversation_handle,
        @type = message_type_name,
        @body = message_body
    FROM dbo.MySSBLabProbeQueue
), TIMEOUT @timeout_ms;

IF @type = N'DEFAULT'
BEGIN
    SEND ON CONVERSATION @handle MESSAGE TYPE [DEFAULT] (@body);
END;

SELECT @type AS message_type_name, CAST(@body AS nvarchar(4000)) AS message_text
WHERE @type IS NOT NULL;
GO
