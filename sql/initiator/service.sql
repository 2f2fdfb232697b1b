/*
Purpose:   the service from which dialogs begin. It has the name of the target's service, as in the paper; a
           dialog reaches the target because it names the target's broker instance.
Called by: the lab once per initiator, after queue.sql.
Assumes:   contract and queue exist.
Variables: Database (name of the initiator's database)
*/
USE [$(Database)];
GO

IF EXISTS (SELECT 1 FROM sys.services WHERE name = N'//MySSB.com/Lab/S_Test')
    SET NOEXEC ON;
GO

CREATE SERVICE [//MySSB.com/Lab/S_Test] AUTHORIZATION [dbo]
    ON QUEUE [dbo].[MySSBLabTestQueue] ([//MySSB.com/Lab/C_Test]);
GO

SET NOEXEC OFF;
GO
