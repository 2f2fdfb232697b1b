/*
Purpose:   removes the activation procedure of a queue, so that it can have an event notification in its place. The
           procedure itself stays, and readers that run go on.
Called by: harness techniques, before a step with readers outside the server; an administrator, before notification.sql.
Assumes:   the queue exists. ALTER QUEUE ... WITH ACTIVATION (...) brings the procedure back, once the event notification is
           dropped.
Variables: Database (name of the database), Queue (the queue that is watched, with its schema)
*/
USE [$(Database)];
GO

-- In a string, because parsers expect a name and find a variable before sqlcmd has replaced it.
EXECUTE (N'ALTER QUEUE $(Queue) WITH ACTIVATION (DROP);');
GO
