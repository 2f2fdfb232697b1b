/*
Purpose:   the table for the first 2000 bytes of each message. id follows the order of the messages on each
           dialog.
Called by: the lab once, on the target; filled by dbo.SRPerf_Queue_LabTest.
Assumes:   the database exists.
Variables: Database (name of the target's database)
*/
USE [$(Database)];
GO

IF OBJECT_ID(N'dbo.messageDrop', N'U') IS NOT NULL
    SET NOEXEC ON;
GO

CREATE TABLE dbo.messageDrop
(
    id bigint IDENTITY(1, 1) NOT NULL CONSTRAINT PK_messageDrop PRIMARY KEY,
    messageVal varbinary(2000) NULL,
    -- A statement has one value: all messages of one RECEIVE have the time at which their INSERT began.
    processed_at datetime2(7) NOT NULL CONSTRAINT DF_messageDrop_processed_at DEFAULT SYSUTCDATETIME()
);
GO

SET NOEXEC OFF;
GO
