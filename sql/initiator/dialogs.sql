/*
Purpose:   the dialogs of a pool in the order in which they were begun. With dialog ratio r, client thread n sends on the
           dialog with id n x r.
Called by: the lab once per initiator; filled by dbo.CreateDialogs.
Assumes:   the database exists.
Variables: Database (name of the initiator's database)
*/
USE [$(Database)];
GO

IF OBJECT_ID(N'dbo.dialogs', N'U') IS NOT NULL
    SET NOEXEC ON;
GO

CREATE TABLE dbo.dialogs
(
    id int NOT NULL CONSTRAINT PK_dialogs PRIMARY KEY,
    handle uniqueidentifier NOT NULL
);
GO

SET NOEXEC OFF;
GO
