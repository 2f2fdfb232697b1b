/*
Purpose:   names the user whose certificate secures the dialogs to the target's service: full dialog security.
Called by: the lab with dialog security, on every initiator. The target begins no dialogs and needs none.
Assumes:   dialog_user.sql has created the user. An older binding of this name is replaced. With a binding dialogs are
           encrypted even if they began with Encryption = OFF.
Variables: Database (name of the initiator's database), RemoteName (name of the target in the lab),
           TargetService (name of the target's service)
*/
USE [$(Database)];
GO

IF EXISTS (SELECT 1 FROM sys.remote_service_bindings WHERE name = N'Test_$(RemoteName)')
    DROP REMOTE SERVICE BINDING [Test_$(RemoteName)];
GO

CREATE REMOTE SERVICE BINDING [Test_$(RemoteName)] AUTHORIZATION [dbo]
    TO SERVICE N'$(TargetService)'
    WITH USER = [Proxy:User_$(RemoteName)],
    ANONYMOUS = OFF;
GO
