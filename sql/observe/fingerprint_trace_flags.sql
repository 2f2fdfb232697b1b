/*
Purpose:   the trace flags that are on.
Called by: the sweep, when a lab opens, for the manifest.
Assumes:   nothing. No row if none is on.
Variables: none
Columns:   TraceFlag, Status, Global, Session
*/
DBCC TRACESTATUS (-1) WITH NO_INFOMSGS;
