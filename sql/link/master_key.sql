/*
Purpose:   the database master key, which protects the private keys of this database's certificates and the session
           keys of its dialogs.
Called by: the lab, on every instance: for master (the endpoint's certificate) and, with dialog security, for the
           lab's database.
Assumes:   an existing key is left alone, whatever its password. The service master key opens it, so nobody needs
           the password again unless the database moves to another server.
Variables: Database (master, or name of the side's database),
           MasterKeyPassword (strong enough for the server's policy; no apostrophe in it)
*/
USE [$(Database)];
GO

IF EXISTS (SELECT 1 FROM sys.symmetric_keys WHERE name = N'##MS_DatabaseMasterKey##')
    SET NOEXEC ON;
GO

CREATE MASTER KEY ENCRYPTION BY PASSWORD = N'$(MasterKeyPassword)';
GO

SET NOEXEC OFF;
GO
