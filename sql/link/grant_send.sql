/*
Purpose:   lets the other side send to this side's service.
Called by: the lab with dialog security, on every instance, once per other side, after dialog_user.sql. The
           initiator grants it too: messages that the target sends back, such as errors, need the right there.
Assumes:   service and user exist.
Variables: Database (name of this side's database), RemoteName (name of the other side in the lab),
           Service (name of this side's service)
*/
USE [$(Database)];
GO

GRANT SEND ON SERVICE::[$(Service)] TO [Proxy:User_$(RemoteName)];
GO
