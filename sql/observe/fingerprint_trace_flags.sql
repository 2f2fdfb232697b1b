/*
Purpose:   the trace flags that are on.
Called by: the sweep, when a lab opens, for the manifest; the doctor, on every instance from SQL Server 2017 on.
Assumes:   nothing. No row if none is on. Flag 3979 leaves it to Linux to flush the log:
           https://learn.microsoft.com/sql/linux/sql-server-linux-performance-best-practices
Variables: none
Columns:   TraceFlag, Status, Global, Session
*/
DBCC TRACESTATUS (-1) WITH NO_INFOMSGS;
