/*
Purpose:   lets everybody who may connect send to the service, which only dialogs without security need.
Called by: the lab without dialog security, on every instance: its dialogs begin with Encryption = OFF and without
           remote_service_binding.sql. A lab as in the paper does not run it.
Assumes:   the service exists.
Variables: Database (name of this side's database),
           Service (name of this side's service)
*/
USE [$(Database)];
GO

GRANT SEND ON SERVICE::[$(Service)] TO [public];
GO
