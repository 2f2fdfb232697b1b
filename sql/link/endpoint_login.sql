/*
Purpose:   the login that represents the other instance on this one, and its user in master, which will own the other
           instance's certificate.
Called by: the lab, on every instance, once per other side: the target has one for each initiator.
Assumes:   nobody signs in with this login, but it must have a password. An existing login is left alone.
Variables: RemoteName (name of the other side in the lab), LoginPassword (no apostrophe in it),
           Prefix (begins the name of every object outside the lab's databases; may be empty)
*/
USE [master];
GO

IF SUSER_ID(N'$(Prefix)User_$(RemoteName)') IS NOT NULL
    SET NOEXEC ON;
GO

CREATE LOGIN [$(Prefix)User_$(RemoteName)] WITH PASSWORD = N'$(LoginPassword)';
GO

SET NOEXEC OFF;
GO

IF USER_ID(N'$(Prefix)User_$(RemoteName)') IS NOT NULL
    SET NOEXEC ON;
GO

CREATE USER [$(Prefix)User_$(RemoteName)] FOR LOGIN [$(Prefix)User_$(RemoteName)];
GO

SET NOEXEC OFF;
GO
