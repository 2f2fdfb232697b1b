/*
Purpose:   dbo.SRPerf_Queue_LabTest, the paper's activation procedure: receives up to 10,000 messages of one
           conversation group at a time, writes the first 2000 bytes of each to dbo.messageDrop and the count to
           dbo.receiveCount, all in one transaction, and ends after three seconds without a message. Both are the
           paper's; harness techniques runs the procedure with others too.
Called by: Service Broker, up to MAX_QUEUE_READERS at once (target/activation.sql).
Assumes:   the tables of target/. Errors are handled inside the transaction, hence XACT_ABORT OFF: with ON every
           error would doom it.
           "Never do a rollback", says the paper: five in a row disable the queue. An error that leaves the transaction
           committable (XACT_STATE() = 1) undoes its own statement only; then the messages are stored one by one, a bad
           one goes to dbo.messageErrors, and the rest is committed. After an error that dooms the transaction
           (XACT_STATE() = -1: deadlock victim, an error in a trigger, a failed conversion) only ROLLBACK is possible,
           not even to a savepoint; the messages return to the queue, and the error is recorded afterwards in a
           transaction of its own.
Variables: Database (name of the target's database),
           ReceiveTop (messages that one RECEIVE takes at most; 10000 in the paper),
           ReceiveTimeoutMs (how long a reader without messages stays, in ms; 3000 in the paper),
           StoreInOrder (1: with ORDER BY; 0: without, as the paper's own listing),
           MessageType (name of the message type),
           Queue (this side's queue, with its schema)
*/
USE [$(Database)];
GO

CREATE OR ALTER PROCEDURE dbo.SRPerf_Queue_LabTest
AS
BEGIN
    SET NOCOUNT ON;
    SET XACT_ABORT OFF;

    DECLARE @receive table
    (
        conversation_handle uniqueidentifier NOT NULL,
        message_sequence_number bigint NOT NULL,
        message_type_name nvarchar(256) NOT NULL,
        message_body varbinary(max) NULL
    );
    -- A variable, because parsers expect a number after TIMEOUT and find a name before sqlcmd has replaced it.
    DECLARE @timeout_ms int = $(ReceiveTimeoutMs);
    DECLARE @messages int;
    DECLARE @stored int;
    DECLARE @one_by_one bit;
    DECLARE @roll_back bit;
    DECLARE @handle uniqueidentifier;
    DECLARE @type nvarchar(256);
    DECLARE @body varbinary(max);
    DECLARE @error_number int;
    DECLARE @error_message nvarchar(4000);

    WHILE 1 = 1
    BEGIN
        SET @stored = 0;
        SET @one_by_one = 0;
        SET @roll_back = 0;

        BEGIN TRANSACTION;

        WAITFOR
        (
            RECEIVE TOP ($(ReceiveTop))
                conversation_handle,
                message_sequence_number,
                message_type_name,
                message_body
            FROM $(Queue)
            INTO @receive
        ), TIMEOUT @timeout_ms;

        SET @messages = @@ROWCOUNT;

        -- Nothing arrived within the timeout. A RECEIVE that failed because the queue has been disabled has no rows
        -- either: the procedure ends instead of repeating the error.
        IF @messages = 0
        BEGIN
            COMMIT TRANSACTION;
            BREAK;
        END;

        INSERT INTO dbo.receiveCount (messages, received_at, session_id)
        VALUES (@messages, SYSUTCDATETIME(), @@SPID);

        BEGIN TRY
            IF $(StoreInOrder) = 1
                -- The identity follows the ORDER BY, in whatever order the rows are stored.
                INSERT INTO dbo.messageDrop (messageVal)
                SELECT CAST(r.message_body AS varbinary(2000))
                FROM @receive AS r
                WHERE r.message_type_name = N'$(MessageType)'
                ORDER BY r.conversation_handle, r.message_sequence_number;
            ELSE
                -- No sort of rows of 2,000 bytes, and no memory granted for it. RECEIVE returns messages of a conversation
                -- in their order, into a table variable without a key, which is read as it was filled; nothing documents
                -- the latter. "INSERT queries that use SELECT with ORDER BY to populate rows guarantees how identity
                -- values are computed" (Microsoft, "Ordering guarantees in SQL Server"): without it SQL Server may number
                -- them otherwise. The harness looks, and messages stored out of order fail the cell.
                INSERT INTO dbo.messageDrop (messageVal)
                SELECT CAST(r.message_body AS varbinary(2000))
                FROM @receive AS r
                WHERE r.message_type_name = N'$(MessageType)';

            SET @stored = @@ROWCOUNT;
        END TRY
        BEGIN CATCH
            SET @error_number = ERROR_NUMBER();
            SET @error_message = ERROR_MESSAGE();
            IF XACT_STATE() = 1
                SET @one_by_one = 1;
            ELSE
                SET @roll_back = 1;
        END CATCH;

        IF @one_by_one = 1
        BEGIN
            DECLARE received CURSOR LOCAL STATIC FOR
                SELECT r.conversation_handle, r.message_type_name, r.message_body
                FROM @receive AS r
                WHERE r.message_type_name = N'$(MessageType)'
                ORDER BY r.conversation_handle, r.message_sequence_number;

            OPEN received;
            FETCH NEXT FROM received INTO @handle, @type, @body;

            WHILE @@FETCH_STATUS = 0 AND @roll_back = 0
            BEGIN
                BEGIN TRY
                    INSERT INTO dbo.messageDrop (messageVal) VALUES (CAST(@body AS varbinary(2000)));
                    SET @stored = @stored + 1;
                END TRY
                BEGIN CATCH
                    SET @error_number = ERROR_NUMBER();
                    SET @error_message = ERROR_MESSAGE();
                    IF XACT_STATE() <> 1
                        SET @roll_back = 1;

                    -- A message that neither table takes must not be lost: all return to the queue.
                    IF @roll_back = 0
                    BEGIN
                        BEGIN TRY
                            INSERT INTO dbo.messageErrors
                                (conversation_handle, message_type_name, message_body, error_number, error_message)
                            VALUES (@handle, @type, @body, @error_number, @error_message);
                        END TRY
                        BEGIN CATCH
                            SET @roll_back = 1;
                        END CATCH;
                    END;
                END CATCH;

                FETCH NEXT FROM received INTO @handle, @type, @body;
            END;

            CLOSE received;
            DEALLOCATE received;
        END;

        -- The table variable outlives the rollback, so the error's row can still name a conversation. The procedure
        -- ends, and the queue monitor starts it again. Five such rollbacks in a row disable the queue.
        IF @roll_back = 1
        BEGIN
            IF @@TRANCOUNT > 0
                ROLLBACK TRANSACTION;

            SELECT TOP (1) @handle = r.conversation_handle FROM @receive AS r;

            INSERT INTO dbo.messageErrors
                (conversation_handle, message_type_name, message_body, error_number, error_message)
            VALUES (@handle, NULL, NULL, @error_number, @error_message);

            RETURN;
        END;

        -- Some were not the workload's messages: the other side, or its broker, has ended the dialog. End it here too,
        -- or its endpoint would remain for ever.
        IF @stored < @messages
        BEGIN
            INSERT INTO dbo.messageErrors
                (conversation_handle, message_type_name, message_body, error_number, error_message)
            SELECT r.conversation_handle, r.message_type_name, r.message_body, NULL,
                N'The other side ended the conversation with an error.'
            FROM @receive AS r
            WHERE r.message_type_name = N'http://schemas.microsoft.com/SQL/ServiceBroker/Error';

            DELETE FROM @receive
            WHERE message_type_name NOT IN
                (N'http://schemas.microsoft.com/SQL/ServiceBroker/Error',
                 N'http://schemas.microsoft.com/SQL/ServiceBroker/EndDialog');

            WHILE EXISTS (SELECT 1 FROM @receive AS r)
            BEGIN
                SELECT TOP (1) @handle = r.conversation_handle FROM @receive AS r;

                END CONVERSATION @handle;

                DELETE FROM @receive WHERE conversation_handle = @handle;
            END;
        END;

        DELETE FROM @receive;

        COMMIT TRANSACTION;
    END;
END;
GO
