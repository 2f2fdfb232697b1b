/*
Purpose:   the service from which dialogs begin. It has the name of the target's service, as in the paper; a
           dialog reaches the target because it names the target's broker instance.
Called by: the lab once per initiator, after queue.sql.
Assumes:   contract and queue exist.
Variables: Database (name of the initiator's database),
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
