/*
Purpose:   secures dialogs to the probe service in the same way as those to the lab's service.
Called by: the doctor, on an initiator whose database has a binding for the lab's service.
Assumes:   the user is the one of that binding.
Variables: Database (name of the initiator's database), RemoteName (name of the target in the lab),
           BindingUser (name of the user), Anonymous (ON or OFF)
*/
USE [$(Database)];
GO

-- In a string, because parsers expect a keyword in place of the variable.
EXECUTE (N'CREATE REMOTE SERVICE BINDING [Probe_$(RemoteName)] AUTHORIZATION [dbo]
    TO SERVICE N''//MySSB.com/Lab/S_Probe''
    WITH USER = [$(BindingUser)],
    ANONYMOUS = $(Anonymous);');
GO
