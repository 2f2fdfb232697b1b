/*
Purpose:   what the session of events_create.sql has kept.
Called by: the sweep with --events, while the session runs: its ring buffer ends with it.
Assumes:   VIEW SERVER STATE, from SQL Server 2022 on VIEW SERVER PERFORMANCE STATE.
           https://learn.microsoft.com/sql/relational-databases/system-dynamic-management-views/sys-dm-xe-session-targets-transact-sql
Variables: Session (its name)
Columns:   target_data (XML as text: RingBufferTarget with totalEventsProcessed, and its events)
*/
SELECT targets.target_data
FROM sys.dm_xe_sessions AS sessions
    INNER JOIN sys.dm_xe_session_targets AS targets ON targets.event_session_address = sessions.address
WHERE sessions.name = N'$(Session)' AND targets.target_name = N'ring_buffer';
