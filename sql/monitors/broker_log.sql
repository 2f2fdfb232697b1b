/*
Purpose:   what the instance's error log says of other servers that it has refused.
Called by: harness monitors, now and then, where it looks at more than one server: the clue may stand at the other side.
Assumes:   VIEW ANY ERROR LOG on the server (SQL Server 2022), before that membership in securityadmin. The log's language
           is English: message 28047 is looked for by its words.
Variables: none
Columns:   LogDate (datetime, local time), ProcessInfo, Text
*/
EXECUTE sys.sp_readerrorlog 0, 1, N'Service Broker login attempt';
GO
