/*
Purpose:   the login of the test clients and its user in the initiator's database. Optional: clients that sign in
           as the database's owner need neither.
Called by: the administrator of a lab with logins of its own, once per initiator.
Assumes:   the login may create logins. An existing login keeps its password.
Variables: Database (name of the initiator's database), ClientLogin (name of login and user),
           ClientPassword (its password; no apostrophe in it)
*/
USE [master];
GO

IF SUSER_ID(N'$(ClientLogin)') IS NOT NULL
    SET NOEXEC ON;
GO

CREATE LOGIN [$(ClientLogin)] WITH PASSWORD = N'$(ClientPassword)';
GO

SET NOEXEC OFF;
GO

USE [$(Database)];
GO

IF USER_ID(N'$(ClientLogin)') IS NOT NULL
    SET NOEXEC ON;
GO

CREATE USER [$(ClientLogin)] FOR LOGIN [$(ClientLogin)];
GO

SET NOEXEC OFF;
GO
