/*
Purpose:   the paper's user-defined error table. Two columns distinguish three kinds of row:
             error_number given, message_type_name given: this message could not be processed and is stored here;
             error_number given, message_type_name NULL:  the whole RECEIVE had to be rolled back because of this
                                                          error; its messages are in the queue again;
             error_number NULL:                           an Error message with which the other side ended the dialog.
Called by: the lab once, on the target; filled by dbo.SRPerf_Queue_LabTest.
Assumes:   the database exists.
Variables: Database (name of the target's database)
*/
USE [$(Database)];
GO

IF OBJECT_ID(N'dbo.messageErrors', N'U') IS NOT NULL
    SET NOEXEC ON;
GO

CREATE TABLE dbo.messageErrors
(
    id bigint IDENTITY(1, 1) NOT NULL CONSTRAINT PK_messageErrors PRIMARY KEY,
    conversation_handle uniqueidentifier NULL,
    message_type_name nvarchar(256) NULL,
    message_body varbinary(max) NULL,
    error_number int NULL,
    error_message nvarchar(4000) NULL,
    failed_at datetime2(7) NOT NULL CONSTRAINT DF_messageErrors_failed_at DEFAULT SYSUTCDATETIME()
);
GO

SET NOEXEC OFF;
GO
