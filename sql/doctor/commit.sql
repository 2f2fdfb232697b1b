/*
Purpose:   one commit of one row: it returns when the log's disk has the row.
Called by: the doctor, on every instance, 100 times on one connection (10 on the embedded broker); it times each call.
Assumes:   doctor/commit_table.sql was run. Each statement is a transaction of its own (autocommit), without delayed
           durability: "Fully durable transaction commits are synchronous and report a commit as successful and return
           control to the client only after the log records for the transaction are written to disk" (Control
           Transaction Durability).
Variables: none
*/
INSERT INTO dbo.doctorCommits (filler) VALUES (0x00);
GO
