/*
Purpose:   whether this side's queue retains messages: those sent and those received then stay in it until their
           conversation ends.
Called by: the lab once per side, after its queue. Not needed for OFF on a new database.
Assumes:   the queue exists. It holds for messages from now on. RECEIVE never returns a retained message.
Variables: Database (name of the side's database), Queue (this side's queue, with its schema), Retention (ON or OFF)
*/
USE [$(Database)];
GO

-- In a string, because parsers expect ON or OFF and find the variable before sqlcmd has replaced it.
EXECUTE (N'ALTER QUEUE $(Queue) WITH RETENTION = $(Retention);');
GO
