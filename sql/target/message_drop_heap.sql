/*
Purpose:   message_drop.sql without a primary key: a heap, into which several readers insert at different places. id still
           follows the order of the messages on each dialog.
Called by: the lab instead of message_drop.sql, on the target, where the workload says tables = "heap".
Assumes:   the database exists, and the table does not exist with a key (drop_tables.sql).
Variables: Database (name of the target's database)
*/
USE [$(Database)];
GO

IF OBJECT_ID(N'dbo.messageDrop', N'U') IS NOT NULL
    SET NOEXEC ON;
GO

CREATE TABLE dbo.messageDrop
(
    id bigint IDENTITY(1, 1) NOT NULL,
    messageVal varbinary(2000) NULL,
    -- A statement has one value: all messages of one RECEIVE have the time at which their INSERT began.
    processed_at datetime2(7) NOT NULL CONSTRAINT DF_messageDrop_processed_at DEFAULT SYSUTCDATETIME()
);
GO

SET NOEXEC OFF;
GO
