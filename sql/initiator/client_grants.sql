/*
Purpose:   what a test client needs and no more: it reads its dialog and calls the send procedure.
Called by: the administrator, after client_login.sql and send_message.sql.
Assumes:   user, queue, table and procedure exist.
Variables: Database (name of the initiator's database), ClientLogin (name of the client's user)
*/
USE [$(Database)];
GO

GRANT SELECT ON OBJECT::dbo.dialogs TO [$(ClientLogin)];
GO

GRANT EXECUTE ON OBJECT::dbo.SendMessage TO [$(ClientLogin)];
GO

-- "To send a message, the current user must have RECEIVE permission on the queue of every service that sends."
GRANT RECEIVE ON OBJECT::dbo.MySSBLabTestQueue TO [$(ClientLogin)];
GO
