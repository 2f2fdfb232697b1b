-- An activated procedure leaves its database: signed with a certificate, whose user there has AUTHENTICATE.
CREATE DATABASE Logging
GO
USE Logging
GO
CREATE TABLE LoggingTable
(
	ID UNIQUEIDENTIFIER NOT NULL PRIMARY KEY,
	[Message] NVARCHAR(MAX) NOT NULL
)
GO
CREATE PROCEDURE LoggingProcedure
@Message NVARCHAR(MAX)
AS
	INSERT INTO LoggingTable (ID, [Message])
	VAlUES (NEWID(), @Message)
GO
USE db
GO
CREATE MESSAGE TYPE [//c04/RequestSessions] VALIDATION = EMPTY
CREATE MESSAGE TYPE [//c04/Sessions] VALIDATION = WELL_FORMED_XML;
CREATE CONTRACT [//c04/SessionsContract]
(
	[//c04/RequestSessions] SENT BY INITIATOR,
	[//c04/Sessions] SENT BY TARGET
);
CREATE QUEUE [TargetQueue]
CREATE SERVICE [TargetService] ON QUEUE [TargetQueue] ([//c04/SessionsContract])
CREATE QUEUE [InitiatorQueue]
CREATE SERVICE [InitiatorService] ON QUEUE [InitiatorQueue]
GO
CREATE PROCEDURE SessionsServiceProcedure
WITH EXECUTE AS OWNER
AS
BEGIN
	DECLARE @ch UNIQUEIDENTIFIER
	DECLARE @messagetypename SYSNAME;
	BEGIN TRY
		BEGIN TRANSACTION
		WAITFOR (
			RECEIVE TOP (1) @ch = conversation_handle, @messagetypename = message_type_name FROM TargetQueue
		), TIMEOUT 1000;
		IF (@@ROWCOUNT > 0)
		BEGIN
			IF (@messagetypename = '//c04/RequestSessions')
			BEGIN
				DECLARE @response XML;
				SELECT @response =
				(
					SELECT * FROM sys.dm_exec_sessions
					FOR XML PATH ('session'), TYPE
				);
				EXEC Logging.dbo.LoggingProcedure 'This is a test message for the logging database';
				SEND ON CONVERSATION @ch
				MESSAGE TYPE [//c04/Sessions] (@response);
				END CONVERSATION @ch;
			END
		END
		COMMIT TRANSACTION;
	END TRY
	BEGIN CATCH
		ROLLBACK TRANSACTION
	END CATCH
END
GO
ALTER QUEUE [TargetQueue]
WITH ACTIVATION
(
	STATUS = ON,
	MAX_QUEUE_READERS = 1,
	PROCEDURE_NAME = [SessionsServiceProcedure],
	EXECUTE AS OWNER
)
GO
CREATE CERTIFICATE SessionsCertificate
	ENCRYPTION BY PASSWORD = 'Password123'
	WITH SUBJECT = 'SessionsServiceProcedure Signing certificate'
GO
ADD SIGNATURE TO OBJECT::[SessionsServiceProcedure]
	BY CERTIFICATE [SessionsCertificate]
	WITH PASSWORD = 'Password123'
GO
ALTER CERTIFICATE [SessionsCertificate]
	REMOVE PRIVATE KEY
GO
-- In place of BACKUP CERTIFICATE and FROM FILE, for which this instance has no folder
DECLARE @create nvarchar(max) = N'CREATE CERTIFICATE SessionsCertificate FROM BINARY = '
	+ CONVERT(nvarchar(max), CERTENCODED(CERT_ID('SessionsCertificate')), 1)
EXEC (N'USE Logging; ' + @create)
EXEC (N'USE master; ' + @create)
GO
USE Logging
GO
CREATE USER [SessionsUser] FROM CERTIFICATE [SessionsCertificate]
GRANT AUTHENTICATE TO [SessionsUser]
GRANT EXECUTE ON [LoggingProcedure] TO [SessionsUser]
GO
USE master
GO
CREATE LOGIN [SessionsLogin] FROM CERTIFICATE [SessionsCertificate]
GRANT AUTHENTICATE SERVER TO [SessionsLogin]
GRANT VIEW SERVER STATE TO [SessionsLogin]
GO
USE db
GO
BEGIN TRANSACTION
DECLARE @ch UNIQUEIDENTIFIER;
BEGIN DIALOG CONVERSATION @ch
	FROM SERVICE [InitiatorService]
	TO SERVICE 'TargetService'
	ON CONTRACT [//c04/SessionsContract]
	WITH ENCRYPTION = OFF;
SEND ON CONVERSATION @ch MESSAGE TYPE [//c04/RequestSessions];
COMMIT TRANSACTION
GO
DECLARE @sessions xml
WAITFOR (RECEIVE TOP (1) @sessions = CAST(message_body AS XML) FROM InitiatorQueue), TIMEOUT 5000
IF ISNULL(@sessions.value('count(/session)', 'int'), 0) < 2 THROW 50000, 'the procedure sees its own session alone', 1
IF NOT EXISTS (SELECT * FROM Logging.dbo.LoggingTable) THROW 50000, 'nothing was logged', 1
IF NOT EXISTS (SELECT * FROM sys.crypt_properties WHERE major_id = OBJECT_ID('SessionsServiceProcedure')) THROW 50000, 'not signed', 1
