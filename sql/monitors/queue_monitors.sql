/*
Purpose:   the queue monitors of all databases, with the number of readers that each has launched and that run.
Called by: harness monitors, at every look.
Assumes:   VIEW SERVER STATE, from SQL Server 2022 on VIEW SERVER PERFORMANCE STATE. The manual does not say in which
           time zone the two moments are, so the instance's time is returned in both.
           https://learn.microsoft.com/sql/relational-databases/system-dynamic-management-views/sys-dm-broker-queue-monitors-transact-sql
Variables: none
Columns:   database_id (int), queue_id (int), state, tasks_waiting (int: sessions inside RECEIVE), readers (int),
           last_empty_rowset_time, last_activated_time, local_time, utc_time (all datetime)
*/
SELECT
    m.database_id,
    m.queue_id,
    m.state,
    m.tasks_waiting,
    COALESCE(t.readers, 0) AS readers,
    m.last_empty_rowset_time,
    m.last_activated_time,
    GETDATE() AS local_time,
    GETUTCDATE() AS utc_time
FROM sys.dm_broker_queue_monitors AS m
LEFT JOIN
(
    SELECT a.database_id, a.queue_id, COUNT(*) AS readers
    FROM sys.dm_broker_activated_tasks AS a
    GROUP BY a.database_id, a.queue_id
) AS t ON t.database_id = m.database_id AND t.queue_id = m.queue_id;
GO
