/*
Purpose:   the number of messages in a queue that retains messages, without the retained ones.
Called by: the sampler, once a second, on every instance, in place of queue_depth.sql.
Assumes:   SELECT permission on the queue. Its metadata count retained messages too. So this reads the rows of status 1
           (ready) and 2 (a fragment or a predecessor is missing), with which the queue's indexes begin, and takes no
           locks. As in queue_depth.sql, a message being received is not counted.
Variables: Queue (this side's queue, with its schema)
Columns:   queue_name, messages (bigint)
*/
SELECT
    q.name AS queue_name,
    (SELECT COUNT_BIG(*) FROM $(Queue) AS m WITH (NOLOCK) WHERE m.status IN (1, 2)) AS messages
FROM sys.service_queues AS q
WHERE q.object_id = OBJECT_ID(N'$(Queue)');
