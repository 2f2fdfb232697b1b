-- A trigger that tells inserts, updates and deletes apart, a dialog kept by the database's id, and an activated writer.
IF  EXISTS (SELECT * FROM sys.services WHERE name = N'Sender')
  DROP SERVICE [Sender]
IF OBJECT_ID('dbo.Audit', 'U') IS NOT NULL
  DROP TABLE Audit
GO
CREATE MESSAGE TYPE [Change] AUTHORIZATION [dbo] VALIDATION = WELL_FORMED_XML
CREATE CONTRACT [Changes] AUTHORIZATION [dbo] ([Change] SENT BY INITIATOR)
CREATE QUEUE [dbo].[SendQueue] WITH STATUS = ON , RETENTION = OFF , POISON_MESSAGE_HANDLING (STATUS = ON)  ON [PRIMARY]
CREATE QUEUE [dbo].[WriteQueue] WITH STATUS = ON , RETENTION = OFF , POISON_MESSAGE_HANDLING (STATUS = ON)  ON [PRIMARY]
CREATE SERVICE [Sender]  AUTHORIZATION [dbo]  ON QUEUE [dbo].[SendQueue] ([Changes])
CREATE SERVICE [Writer]  AUTHORIZATION [dbo]  ON QUEUE [dbo].[WriteQueue] ([Changes])
GO
CREATE TABLE Watched (
  Col1 INT,
  Col2 INT,
  Col3 VARCHAR(100),
  PRIMARY KEY(Col1, Col2)
)
CREATE TABLE Audit (
  [AuditID] INT IDENTITY(1,1) PRIMARY KEY,
  [DateAudited] [datetime] NOT NULL DEFAULT (getdate()),
  [Body] nvarchar(max) NULL
)
CREATE TABLE dbo.Dialogs (DbId INT NOT NULL, DialogId UNIQUEIDENTIFIER NOT NULL)
GO
CREATE PROCEDURE dbo.usp_SendChange
(
    @body nvarchar(max)
)
AS
BEGIN
    BEGIN TRY
        DECLARE @dlgId UNIQUEIDENTIFIER, @exists BIT
        SELECT @exists = 1
        SELECT  @dlgId = DialogId
        FROM    dbo.Dialogs AD
        WHERE   AD.DbId = DB_ID()
        IF @dlgId IS NULL
        BEGIN
            SELECT @exists = 0
        END
        IF @exists = 0
        BEGIN
            BEGIN DIALOG @dlgId
            FROM SERVICE    [Sender]
            TO SERVICE      'Writer',
                            'CURRENT DATABASE'
            ON CONTRACT     [Changes]
            WITH ENCRYPTION = OFF;
            INSERT INTO dbo.Dialogs(DbId, DialogId)
            SELECT  DB_ID(), @dlgId
        END
        ;SEND ON CONVERSATION @dlgId
        MESSAGE TYPE [Change] (@body)
    END TRY
    BEGIN CATCH
        INSERT INTO Audit (Body)
        SELECT  CONCAT(COALESCE(ERROR_PROCEDURE(), ''), ERROR_LINE(), ERROR_NUMBER(), ERROR_MESSAGE())
    END CATCH
END
GO
CREATE TRIGGER dbo.trgWatched
ON Watched
AFTER INSERT, UPDATE, DELETE
AS
    SET NOCOUNT ON
    DECLARE @body nvarchar(max)
    DECLARE @kind CHAR(1)
    -- after delete statement
    IF NOT EXISTS (SELECT * FROM inserted)
    BEGIN
        SELECT  @kind = 'D', @body = (SELECT CONCAT('<d n="', COUNT(*), '"/>') FROM deleted)
    END
    ELSE IF NOT EXISTS (SELECT * FROM deleted)
        SELECT  @kind = 'I', @body = (SELECT CONCAT('<i n="', COUNT(*), '"/>') FROM inserted)
    ELSE
        SELECT  @kind = 'U', @body = (SELECT TOP 1 CONCAT('<u from="', d.Col3, '" to="', i.Col3, '"/>') FROM inserted i JOIN deleted AS d ON d.Col1 = i.Col1 AND d.Col2 = i.Col2)
    EXEC dbo.usp_SendChange @body
GO
CREATE PROCEDURE dbo.usp_Write
AS
BEGIN
    DECLARE @body nvarchar(max)
    WHILE(1=1)
    BEGIN
        BEGIN TRANSACTION
        BEGIN TRY
            ;RECEIVE top(1)
                    @body    = message_body
            FROM    dbo.WriteQueue
            IF @@ROWCOUNT = 0
            BEGIN
                IF @@TRANCOUNT > 0
                BEGIN
                    ROLLBACK;
                END
                BREAK;
            END
            INSERT INTO Audit (Body) SELECT @body
            IF @@TRANCOUNT > 0
            BEGIN
                COMMIT;
            END
        END TRY
        BEGIN CATCH
            IF @@TRANCOUNT > 0
            BEGIN
                ROLLBACK;
            END
            BREAK;
        END CATCH
    END
END
GO
ALTER QUEUE dbo.WriteQueue WITH ACTIVATION (PROCEDURE_NAME = dbo.usp_Write, MAX_QUEUE_READERS = 1, EXECUTE AS OWNER, STATUS = ON)
GO
INSERT Watched VALUES (1, 1, 'a'), (1, 2, 'b')
UPDATE Watched SET Col3 = 'c' WHERE Col2 = 2
DELETE FROM Watched
GO
WAITFOR DELAY '00:00:01'
IF (SELECT COUNT(*) FROM Audit) <> 3 OR NOT EXISTS (SELECT * FROM Audit WHERE AuditID = 2 AND Body = N'<u from="b" to="c"/>') THROW 50000, 'not audited', 1
GO
