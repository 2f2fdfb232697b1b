/*
Purpose:   the message type of the paper's workload; its body is binary and is not validated.
Called by: the lab once per side, after database.sql.
Assumes:   the database exists.
Variables: Database (name of the side's database),
           MessageType (name of the message type)
*/
USE [$(Database)];
GO

IF EXISTS (SELECT 1 FROM sys.service_message_types WHERE name = N'$(MessageType)')
    SET NOEXEC ON;
GO

CREATE MESSAGE TYPE [$(MessageType)] AUTHORIZATION [dbo]
    VALIDATION = NONE;
GO

SET NOEXEC OFF;
GO
