/*
Purpose:   stops and drops the session of events_create.sql, where there is one.
Called by: the sweep with --events, before it creates the session, in case an earlier run was killed, and after it.
Assumes:   ALTER ANY EVENT SESSION on the server; from SQL Server 2022 on DROP ANY EVENT SESSION suffices.
           https://learn.microsoft.com/sql/t-sql/statements/drop-event-session-transact-sql
Variables: Session (its name)
*/
IF EXISTS (SELECT * FROM sys.server_event_sessions WHERE name = N'$(Session)')
    DROP EVENT SESSION [$(Session)] ON SERVER;
