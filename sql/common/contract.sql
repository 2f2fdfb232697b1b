/*
Purpose:   the contract of the paper's workload: both sides may send its one message type.
Called by: the lab once per side, after message_type.sql.
Assumes:   the message type exists.
Variables: Database (name of the side's database)
*/
USE [$(Database)];
GO

IF EXISTS (SELECT 1 FROM sys.service_contracts WHERE name = N'//MySSB.com/Lab/C_Test')
    SET NOEXEC ON;
GO

CREATE CONTRACT [//MySSB.com/Lab/C_Test] AUTHORIZATION [dbo]
    ([//MySSB.com/Lab/M_Test] SENT BY ANY);
GO

SET NOEXEC OFF;
GO
