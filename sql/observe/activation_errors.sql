/*
Purpose:   what the instance's error log says of the activation procedures of the lab's queue: errors that ended them.
Called by: the lab, on the target, when its queue is disabled or nobody receives.
Assumes:   VIEW ANY ERROR LOG on the server (SQL Server 2022), before that membership in securityadmin; without it the
           lab names the log instead of the error. The log's language is English, as event 9724 is looked for by its
           words.
Variables: Database (name of the target's database),
           Queue (the target's queue, with its schema, without brackets)
Columns:   LogDate (datetime), ProcessInfo, Text
*/
EXECUTE sys.sp_readerrorlog 0, 1, N'activated proc', N'$(Database).$(Queue)';
