/*
Purpose:   lets test clients call the two send procedures, and nothing else.
Called by: the lab, on every initiator, after client_login.sql, send_message.sql and
           send_message_on_new_dialog.sql.
Assumes:   user and procedures exist. No right on the queue: the procedures execute as their owner.
Variables: Database (name of the initiator's database),
           Prefix (begins the name of every object outside the lab's databases; may be empty)
*/
USE [$(Database)];
GO

GRANT EXECUTE ON OBJECT::dbo.SendMessage TO [$(Prefix)Client];
GO

GRANT EXECUTE ON OBJECT::dbo.SendMessageOnNewDialog TO [$(Prefix)Client];
GO
