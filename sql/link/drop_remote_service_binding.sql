/*
Purpose:   removes dialog security: with a binding to the target's service dialogs would be encrypted even if
           they were begun with Encryption = OFF.
Called by: the lab without dialog security, on every initiator.
Assumes:   users and certificates of an earlier link with dialog security may remain: nothing uses them.
Variables: Database (name of the initiator's database), RemoteName (name of the target in the lab)
*/
USE [$(Database)];
GO

IF EXISTS (SELECT 1 FROM sys.remote_service_bindings WHERE name = N'Test_$(RemoteName)')
    DROP REMOTE SERVICE BINDING [Test_$(RemoteName)];
GO
