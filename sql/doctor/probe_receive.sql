/*
Purpose:   receives a message that has come back to an initiator.
Called by: the doctor, on an initiator, until something has arrived or the time is up.
Assumes:   probe_send.sql has run.
Variables: Database (name of the initiator's database), TimeoutMs (how long to wait, in ms)
Columns:   message_type_name (DEFAULT for the answer), message_text (the LocalName, or an error's XML); no row if
           nothing arrived
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

SELECT @type AS message_type_name, CAST(@body AS nvarchar(4000)) AS message_text
WHERE @type IS NOT NULL;
GO
