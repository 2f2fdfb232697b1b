-- Two loops that end conversations with cleanup: over the transmission queue, and over the endpoints.
CREATE QUEUE q; CREATE SERVICE s ON QUEUE q ([DEFAULT]);
GO
DECLARE @h uniqueidentifier;
BEGIN DIALOG @h FROM SERVICE s TO SERVICE 'nobody' WITH ENCRYPTION = OFF;
SEND ON CONVERSATION @h (0x01);
GO 3
WHILE (1=1)
BEGIN
    DECLARE @h UNIQUEIDENTIFIER;

    select TOP(1) @h = conversation_handle
        FROM [db].[sys].[transmission_queue];

    IF (@@ROWCOUNT = 0)
    BEGIN
        BREAK;
    END

    END CONVERSATION @h WITH CLEANUP
END
BEGIN DIALOG @h FROM SERVICE s TO SERVICE 's' WITH ENCRYPTION = OFF;
SEND ON CONVERSATION @h (0x01);
GO
DECLARE @h UNIQUEIDENTIFIER;
DECLARE each CURSOR FOR
SELECT conversation_handle FROM sys.conversation_endpoints;
OPEN each;
FETCH NEXT FROM each INTO @h;
WHILE @@FETCH_STATUS = 0
BEGIN
    END CONVERSATION @h WITH CLEANUP;
    FETCH NEXT FROM each INTO @h;
END
CLOSE each;
DEALLOCATE each;
IF EXISTS (SELECT * FROM sys.conversation_endpoints) OR EXISTS (SELECT * FROM q) THROW 50000, 'something is left', 1;
GO
