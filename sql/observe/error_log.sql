/*
Purpose:   the instance's current error log.
Called by: the sweep, before it closes a lab; it keeps the entries that were written since the lab opened.
Assumes:   VIEW ANY ERROR LOG on the server (SQL Server 2022), before that membership in securityadmin. The log begins
           anew when the instance starts.
           https://learn.microsoft.com/sql/relational-databases/system-stored-procedures/sp-readerrorlog-transact-sql
Variables: none
Columns:   LogDate (datetime, local time), ProcessInfo, Text
*/
EXECUTE sys.sp_readerrorlog 0, 1;
