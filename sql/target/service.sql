/*
Purpose:   the service to which the dialogs lead. Its owner, dbo, owns the certificate that secures them.
Called by: the lab once, on the target, after queue.sql.
Assumes:   contract and queue exist.
Variables: Database (name of the target's database),
           Contract (name of the contract),
           Service (name of this side's service),
           Queue (this side's queue, with its schema)
*/
USE [$(Database)];
GO

IF EXISTS (SELECT 1 FROM sys.services WHERE name = N'$(Service)')
    SET NOEXEC ON;
GO

CREATE SERVICE [$(Service)] AUTHORIZATION [dbo]
    ON QUEUE $(Queue) ([$(Contract)]);
GO

SET NOEXEC OFF;
GO
