/*
Purpose:   the contract of the paper's workload: both sides may send its one message type.
Called by: the lab once per side, after message_type.sql.
Assumes:   the message type exists.
Variables: Database (name of the side's database),
           MessageType (name of the message type),
           Contract (name of the contract)
*/
USE [$(Database)];
GO

IF EXISTS (SELECT 1 FROM sys.service_contracts WHERE name = N'$(Contract)')
    SET NOEXEC ON;
GO

CREATE CONTRACT [$(Contract)] AUTHORIZATION [dbo]
    ([$(MessageType)] SENT BY ANY);
GO

SET NOEXEC OFF;
GO
