/*
Purpose:   the service to which the dialogs lead. Its owner, dbo, owns the certificate that secures them.
Called by: the lab once, on the target, after queue.sql.
Assumes:   contract and queue exist.
Variables: Database (name of the target's database)
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
