-- A table of priorities of conversation groups, taken with READPAST and OUTPUT; and the broker's own priorities.
CREATE TABLE Bindings
(
    Front UNIQUEIDENTIFIER PRIMARY KEY,
    Back UNIQUEIDENTIFIER UNIQUE
)
CREATE TABLE Priority
(
    ConversationGroup UNIQUEIDENTIFIER UNIQUE,
    Priority TINYINT,
    EnqueueTime BIGINT IDENTITY,
    PRIMARY KEY CLUSTERED
    (
        Priority DESC,
        EnqueueTime ASC,
        ConversationGroup
    )
)
GO
CREATE PROCEDURE sp_Peer (
    @one UNIQUEIDENTIFIER,
    @out UNIQUEIDENTIFIER OUTPUT)
AS
SET NOCOUNT ON;
SELECT @out =
(
    SELECT
        Back
        FROM Bindings
        WHERE Front = @one

    UNION ALL

    SELECT Front
        FROM Bindings
        WHERE Back = @one
)
IF (@@ROWCOUNT = 0)
BEGIN
    SELECT @out = NULL;
END
GO
CREATE PROCEDURE sp_Dequeue
@ConversationGroup UNIQUEIDENTIFIER OUTPUT
AS
SET NOCOUNT ON;
BEGIN TRANSACTION;
DECLARE @cgt TABLE (ConversationGroup UNIQUEIDENTIFIER);
DELETE FROM Priority WITH (READPAST)
OUTPUT DELETED.ConversationGroup INTO @cgt
WHERE ConversationGroup =
(
    SELECT TOP (1) ConversationGroup
    FROM Priority WITH (READPAST)
    ORDER BY Priority DESC, EnqueueTime ASC
)
SELECT @ConversationGroup = ConversationGroup
FROM @cgt;
COMMIT;
GO
DECLARE @a uniqueidentifier = NEWID(), @b uniqueidentifier = NEWID(), @c uniqueidentifier = NEWID(), @out uniqueidentifier
INSERT INTO Priority (ConversationGroup, Priority) VALUES (@a, 3), (@b, 5), (@c, 5)
EXEC sp_Dequeue @out OUTPUT
IF @out <> @b THROW 50000, 'not the oldest of the highest', 1
INSERT Bindings VALUES (@a, @b)
EXEC sp_Peer @b, @out OUTPUT
IF @out <> @a THROW 50000, 'not the peer', 1
GO
ALTER DATABASE db SET HONOR_BROKER_PRIORITY ON;
CREATE CONTRACT Simple ([DEFAULT] SENT BY INITIATOR);
CREATE QUEUE AskQueue; CREATE QUEUE TargetQueue;
CREATE SERVICE Ask ON QUEUE AskQueue; CREATE SERVICE Target ON QUEUE TargetQueue (Simple, [DEFAULT]);
CREATE BROKER PRIORITY Back
    FOR CONVERSATION
    SET (CONTRACT_NAME = Simple,
         LOCAL_SERVICE_NAME = Target,
         REMOTE_SERVICE_NAME = N'Ask',
         PRIORITY_LEVEL = 3);
CREATE BROKER PRIORITY [//All]
    FOR CONVERSATION
    SET (CONTRACT_NAME = ANY,
         LOCAL_SERVICE_NAME = ANY,
         REMOTE_SERVICE_NAME = ANY,
         PRIORITY_LEVEL = 7);
CREATE BROKER PRIORITY Plain FOR CONVERSATION SET (CONTRACT_NAME = [DEFAULT], REMOTE_SERVICE_NAME = 'ANY', PRIORITY_LEVEL = DEFAULT)
ALTER BROKER PRIORITY Back
    FOR CONVERSATION
    SET (PRIORITY_LEVEL = 9);
SELECT p.name AS priority_name, c.name AS contract_name, s.name AS service_name, p.remote_service_name, p.priority
FROM sys.conversation_priorities AS p
    LEFT OUTER JOIN sys.service_contracts AS c
       ON p.service_contract_id = c.service_contract_id
    LEFT OUTER JOIN sys.services AS s
       ON p.local_service_id = s.service_id
ORDER BY priority_name, contract_name
DROP BROKER PRIORITY Plain
GO
DECLARE @h uniqueidentifier, @b nvarchar(9), @p tinyint;
BEGIN DIALOG @h FROM SERVICE Ask TO SERVICE 'Target' WITH ENCRYPTION = OFF;
SEND ON CONVERSATION @h (N'low');
BEGIN DIALOG @h FROM SERVICE Ask TO SERVICE 'Target' ON CONTRACT Simple WITH ENCRYPTION = OFF;
SEND ON CONVERSATION @h (N'high');
RECEIVE TOP (1) @b = message_body, @p = priority FROM TargetQueue
IF @b <> N'high' OR @p <> 9 THROW 50000, 'not the one of priority 9', 1
GO
