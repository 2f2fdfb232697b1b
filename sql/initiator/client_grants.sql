/*
Purpose:   what a test client may do: call the send procedure, and nothing else.
Called by: the lab, on every initiator, after client_login.sql and send_message.sql.
Assumes:   user and procedure exist. No right on the queue: dbo.SendMessage executes as its owner.
Variables: Database (name of the initiator's database),
           Prefix (begins the name of every object outside the lab's databases; may be empty)
*/
USE [$(Database)];
GO

GRANT EXECUTE ON OBJECT::dbo.SendMessage TO [$(Prefix)Client];
GO
