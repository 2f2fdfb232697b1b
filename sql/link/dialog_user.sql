/*
Purpose:   the user that represents the other side's service owner in this database.
Called by: the lab with dialog security, on every instance, once per other side: the target has one for each
           initiator.
Assumes:   the database exists. The user has no login: it only owns a certificate and holds a right.
Variables: Database (name of this side's database), RemoteName (name of the other side in the lab)
*/
USE [$(Database)];
GO

IF USER_ID(N'Proxy:User_$(RemoteName)') IS NOT NULL
    SET NOEXEC ON;
GO

CREATE USER [Proxy:User_$(RemoteName)] WITHOUT LOGIN;
GO

SET NOEXEC OFF;
GO
