-- A publisher sends what arrives to each subscriber of a cursor variable; a table that does not exist in a branch that does not run.
CREATE MESSAGE TYPE [Article] VALIDATION = NONE;
CREATE MESSAGE TYPE [Subscribe] VALIDATION = WELL_FORMED_XML;
CREATE CONTRACT [Publishing] ([Article] SENT BY INITIATOR)
CREATE CONTRACT [Subscribing]
(
    [Subscribe] SENT BY INITIATOR,
    [Article] SENT BY TARGET
)
CREATE QUEUE [PublisherQueue]
CREATE SERVICE [Publisher] ON QUEUE [PublisherQueue] ([Publishing], [Subscribing])
CREATE QUEUE SubscriberQueue;
CREATE SERVICE Subscriber ON QUEUE SubscriberQueue;
CREATE QUEUE AuthorQueue;
CREATE SERVICE Author ON QUEUE AuthorQueue;
CREATE TABLE Subscriptions (Subscriber UNIQUEIDENTIFIER NOT NULL PRIMARY KEY, Request NVARCHAR(MAX) NOT NULL)
GO
CREATE PROCEDURE sp_SendToAll
    @Article VARBINARY(MAX)
AS
BEGIN
    DECLARE @to UNIQUEIDENTIFIER;
    DECLARE @each CURSOR;
    SET @each = CURSOR LOCAL SCROLL FOR
        SELECT Subscriber
        FROM Subscriptions s;
    BEGIN TRANSACTION;
    OPEN @each;
    FETCH NEXT FROM @each
    INTO @to;
    WHILE (@@fetch_status = 0)
    BEGIN
        IF (@Article IS NOT NULL)
        BEGIN
            SEND ON CONVERSATION @to MESSAGE TYPE [Article] (@Article);
        END
        ELSE
        BEGIN
            SEND ON CONVERSATION @to MESSAGE TYPE [Article];
        END
        FETCH NEXT FROM @each
        INTO @to;
    END
    CLOSE @each;
    DEALLOCATE @each;
    COMMIT;
END
GO
CREATE PROCEDURE sp_Publisher
AS
BEGIN
    DECLARE @h UNIQUEIDENTIFIER, @body VARBINARY(MAX), @type SYSNAME;
    BEGIN TRANSACTION;
    WAITFOR
    (
        RECEIVE TOP(1) @h = conversation_handle, @body = message_body, @type = message_type_name FROM PublisherQueue
    ), TIMEOUT 1000;
    WHILE (@h IS NOT NULL)
    BEGIN
        IF (@type = 'Subscribe')
        BEGIN
            INSERT Subscriptions VALUES (@h, CAST(@body AS nvarchar(max)))
        END
        ELSE IF (@type = 'Article')
        BEGIN
            EXEC sp_SendToAll @body;
        END
        ELSE IF (@type IN (
            N'http://schemas.microsoft.com/SQL/ServiceBroker/Error',
            N'http://schemas.microsoft.com/SQL/ServiceBroker/EndDialog'))
        BEGIN
            END CONVERSATION @h;
            IF (EXISTS (SELECT * FROM Subscribers))
                DELETE FROM Subscriptions WHERE Subscriber = @h
        END
        ELSE
        BEGIN
            RAISERROR (N'Received unexpected message type: %s', 16, 1, @type);
            ROLLBACK;
            RETURN;
        END
        COMMIT;
        SELECT @h = NULL;
        BEGIN TRANSACTION;
        WAITFOR
        (
            RECEIVE TOP(1) @h = conversation_handle, @body = message_body, @type = message_type_name FROM PublisherQueue
        ), TIMEOUT 1000;
    END
    COMMIT;
END
GO
ALTER QUEUE PublisherQueue WITH ACTIVATION (STATUS = ON, MAX_QUEUE_READERS = 1, PROCEDURE_NAME = sp_Publisher, EXECUTE AS SELF)
GO
DECLARE @ch UNIQUEIDENTIFIER;
BEGIN DIALOG CONVERSATION @ch FROM SERVICE [Subscriber] TO SERVICE 'Publisher' ON CONTRACT [Subscribing] WITH ENCRYPTION = OFF;
SEND ON CONVERSATION @ch
MESSAGE TYPE [Subscribe]
(
    N'<?xml version="1.0"?>
    <Request xmlns="http://example/Subscribe">
        <Subject>One</Subject>
    </Request>'
);
GO 2
WAITFOR DELAY '00:00:01'
DECLARE @ch UNIQUEIDENTIFIER;
BEGIN DIALOG CONVERSATION @ch FROM SERVICE [Author] TO SERVICE 'Publisher' ON CONTRACT [Publishing] WITH ENCRYPTION = OFF;
SEND ON CONVERSATION @ch
MESSAGE TYPE [Article]
(
    N'An article'
);
SEND ON CONVERSATION @ch MESSAGE TYPE [Article];
GO
WAITFOR DELAY '00:00:01'
SELECT CAST (message_body AS NVARCHAR(MAX)), * FROM SubscriberQueue
IF @@ROWCOUNT <> 4 THROW 50000, 'not four articles', 1
GO
