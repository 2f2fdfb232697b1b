/*
Purpose:   revokes what dialogs without security need: afterwards only the other sides of the lab may send.
Called by: the lab with dialog security, on every instance.
Assumes:   the service exists. Without an earlier grant_send_public.sql nothing happens.
Variables: Database (name of this side's database),
           Service (name of this side's service)
*/
USE [$(Database)];
GO

REVOKE SEND ON SERVICE::[$(Service)] FROM [public];
GO
