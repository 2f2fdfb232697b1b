/*
Purpose:   lets the other side send to the service of this one.
Called by: the lab with dialog security, on every instance, once per other side, after dialog_user.sql. The
           initiator grants it too: what the target sends back, if only an error, needs the right there.
Assumes:   service and user exist.
Variables: Database (name of this side's database), RemoteName (name of the other side in the lab)
*/
USE [$(Database)];
GO

GRANT SEND ON SERVICE::[//MySSB.com/Lab/S_Test] TO [Proxy:User_$(RemoteName)];
GO
