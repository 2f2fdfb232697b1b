/*
Purpose:   starts the session of events_create.sql.
Called by: the sweep with --events.
Assumes:   ALTER ANY EVENT SESSION on the server; from SQL Server 2022 on ALTER ANY EVENT SESSION ENABLE suffices.
           https://learn.microsoft.com/sql/t-sql/statements/alter-event-session-transact-sql
Variables: Session (its name)
*/
ALTER EVENT SESSION [$(Session)] ON SERVER STATE = START;
