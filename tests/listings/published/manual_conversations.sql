-- The examples of the manual's pages on BEGIN DIALOG, SEND, RECEIVE, GET CONVERSATION GROUP, MOVE and END CONVERSATION.
CREATE MESSAGE TYPE [//Example/Submit] VALIDATION = WELL_FORMED_XML ;
CREATE CONTRACT [//Example/Submission]
    ( [//Example/Submit]
          SENT BY INITIATOR, [DEFAULT] SENT BY ANY) ;
CREATE QUEUE ClientQueue; CREATE QUEUE ExpenseQueue;
CREATE SERVICE [//Example/Client] ON QUEUE ClientQueue;
CREATE SERVICE [//Example/Expenses] ON QUEUE ExpenseQueue ([//Example/Submission]);
CREATE MASTER KEY ENCRYPTION BY PASSWORD = 'Str0ng!';
GO
DECLARE @h UNIQUEIDENTIFIER ;
BEGIN DIALOG CONVERSATION @h
   FROM SERVICE [//Example/Client]
   TO SERVICE '//Example/Expenses'
   ON CONTRACT [//Example/Submission] ;
SEND ON CONVERSATION @h
    MESSAGE TYPE [//Example/Submit]
    ('<ExpenseReport/>') ;
DECLARE @existing UNIQUEIDENTIFIER = @h, @group UNIQUEIDENTIFIER, @other UNIQUEIDENTIFIER
BEGIN DIALOG CONVERSATION @h
   FROM SERVICE [//Example/Client]
   TO SERVICE '//Example/Expenses'
   ON CONTRACT [//Example/Submission]
   WITH LIFETIME = 60 ;
SELECT @group = conversation_group_id FROM sys.conversation_endpoints WHERE conversation_handle = @h
BEGIN DIALOG CONVERSATION @other
   FROM SERVICE [//Example/Client]
   TO SERVICE '//Example/Expenses',
              'a326e034-d4cf-4e8b-8d98-4d7e1926c904'
   ON CONTRACT [//Example/Submission] ;
END CONVERSATION @other WITH CLEANUP
BEGIN DIALOG CONVERSATION @other
   FROM SERVICE [//Example/Client]
   TO SERVICE '//Example/Expenses'
   ON CONTRACT [//Example/Submission]
   WITH RELATED_CONVERSATION_GROUP = @group ;
BEGIN DIALOG CONVERSATION @other
   FROM SERVICE [//Example/Client]
   TO SERVICE '//Example/Expenses'
   ON CONTRACT [//Example/Submission]
   WITH RELATED_CONVERSATION = @existing,
   LIFETIME = 600, ENCRYPTION = OFF ;
BEGIN CONVERSATION TIMER (@other)
TIMEOUT = 120 ;
MOVE CONVERSATION @other TO @group ;
IF (SELECT COUNT(*) FROM sys.conversation_endpoints WHERE conversation_group_id = @group) <> 3 THROW 50000, 'not three in the group', 1 ;
SEND ON CONVERSATION (@existing, @h, @other)
    MESSAGE TYPE [//Example/Submit]
    ('<ExpenseReport/>') ;
BEGIN TRY
    SET @group = NEWID() ;
    MOVE CONVERSATION @other TO @group ;
END TRY
BEGIN CATCH
    IF ERROR_NUMBER() <> 8436 THROW -- 'The conversation group "%.*ls" is not found.'
END CATCH
GO
DECLARE @h UNIQUEIDENTIFIER = (SELECT TOP 1 conversation_handle FROM ExpenseQueue), @group UNIQUEIDENTIFIER, @v1 int;
DECLARE @messages TABLE(
     service_instance_id UNIQUEIDENTIFIER,
     handle UNIQUEIDENTIFIER,
     message_sequence_number BIGINT,
     service_name NVARCHAR(512),
     service_contract_name NVARCHAR(256),
     message_type_name NVARCHAR(256),
     validation NCHAR,
     message_body VARBINARY(MAX)) ;
RECEIVE TOP (1)
    conversation_group_id,
    conversation_handle,
    message_sequence_number,
    service_name,
    service_contract_name,
    message_type_name,
    validation,
    message_body
FROM ExpenseQueue
INTO @messages ;
RECEIVE TOP (1) *
FROM ExpenseQueue
WHERE conversation_handle = @h ;
WAITFOR (
    GET CONVERSATION GROUP @group
    FROM ExpenseQueue ),
TIMEOUT 60000 ;
WAITFOR
(RECEIVE message_type_name,
    CASE
        WHEN validation = 'X' THEN CAST(message_body as NVARCHAR(max))
        ELSE NULL
    END AS message_body
    FROM ExpenseQueue
    WHERE conversation_group_id = @group ),
TIMEOUT 60000 ;
GET CONVERSATION GROUP @group
FROM db.dbo.ExpenseQueue ;
WAITFOR (
    RECEIVE TOP(1) @v1 = 10
    FROM ExpenseQueue) ;
WAITFOR (
    RECEIVE *
    FROM ExpenseQueue ),
TIMEOUT 6000 ;
IF @v1 <> 10 OR (SELECT COUNT(*) FROM @messages) <> 1 OR EXISTS (SELECT * FROM ExpenseQueue) THROW 50000, 'messages are left', 1
DECLARE @error INT,
        @text NVARCHAR(100) ;
BEGIN TRANSACTION ;
SET @error = 8134 ;
IF (@error <> 0)
  BEGIN
      ROLLBACK TRANSACTION ;
      SET @text = N'An error has occurred.' ;
      END CONVERSATION @h
      WITH ERROR = @error DESCRIPTION = @text ;
  END
ELSE
COMMIT TRANSACTION ;
GO
