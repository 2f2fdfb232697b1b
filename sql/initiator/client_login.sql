/*
Purpose:   the login of the test clients and its user in the initiator's database.
Called by: the lab, on every initiator, before the workload's scripts, which grant it their procedure.
Assumes:   the login may create and alter logins. An existing login gets the new password; an existing user is mapped
           to the login, which may have been dropped and created again since.
Variables: Database (name of the initiator's database), ClientPassword (the login's password; no apostrophe in it),
           Prefix (begins the name of every object outside the lab's databases; may be empty)
*/
USE [master];
GO

IF SUSER_ID(N'$(Prefix)Client') IS NULL
    CREATE LOGIN [$(Prefix)Client] WITH PASSWORD = N'$(ClientPassword)';
ELSE
    ALTER LOGIN [$(Prefix)Client] WITH PASSWORD = N'$(ClientPassword)';
GO

USE [$(Database)];
GO

IF USER_ID(N'$(Prefix)Client') IS NULL
    CREATE USER [$(Prefix)Client] FOR LOGIN [$(Prefix)Client];
ELSE
    ALTER USER [$(Prefix)Client] WITH LOGIN = [$(Prefix)Client];
GO
