/*
Purpose:   the states of this database's queue monitors: INACTIVE, NOTIFIED or RECEIVES_OCCURRING.
Called by: the sampler, once a second, on every instance; no row on an initiator, whose queue has no activation.
Assumes:   VIEW SERVER STATE.
Variables: none
Columns:   queue_name, state, tasks_waiting (int: sessions inside RECEIVE), last_empty_rowset_time (datetime),
           last_activated_time (datetime)
*/
SELECT q.name AS queue_name, m.state, m.tasks_waiting, m.last_empty_rowset_time, m.last_activated_time
FROM sys.dm_broker_queue_monitors AS m
JOIN sys.service_queues AS q ON q.object_id = m.queue_id
WHERE m.database_id = DB_ID()
ORDER BY q.name;
