/*
Purpose:   the messages of a queue by status, and how old the oldest one is.
Called by: harness monitors, when it begins and now and then, for queues with messages.
Assumes:   SELECT permission on the queue. It takes no locks, and reads at most Limit rows of each status: the queue's
           clustered index begins with the status. The first ready row by priority and queuing order, with which its
           other index begins, is the oldest of the lowest priority, which waits longest.
Variables: Queue (with its schema, in brackets), Limit (bigint)
Columns:   status (0 received and retained, 1 ready, 2 not complete, 3 sent and retained), messages (bigint, at most
           Limit), oldest_s (int: its age in seconds; NULL where no row of that status is looked at for it)
*/
SELECT
    1 AS status,
    (SELECT COUNT_BIG(*) FROM (SELECT TOP ($(Limit)) m.status FROM $(Queue) AS m WITH (NOLOCK) WHERE m.status = 1) AS c)
        AS messages,
    (
        SELECT DATEDIFF(SECOND, o.message_enqueue_time, GETUTCDATE())
        FROM
        (
            SELECT TOP (1) m.message_enqueue_time
            FROM $(Queue) AS m WITH (NOLOCK)
            WHERE m.status = 1
            ORDER BY m.priority, m.queuing_order
        ) AS o
    ) AS oldest_s
UNION ALL
SELECT c.status, COUNT_BIG(*) AS messages, MAX(DATEDIFF(SECOND, c.message_enqueue_time, GETUTCDATE())) AS oldest_s
FROM (SELECT TOP ($(Limit)) m.status, m.message_enqueue_time FROM $(Queue) AS m WITH (NOLOCK) WHERE m.status = 0) AS c
GROUP BY c.status
UNION ALL
SELECT c.status, COUNT_BIG(*) AS messages, MAX(DATEDIFF(SECOND, c.message_enqueue_time, GETUTCDATE())) AS oldest_s
FROM (SELECT TOP ($(Limit)) m.status, m.message_enqueue_time FROM $(Queue) AS m WITH (NOLOCK) WHERE m.status = 2) AS c
GROUP BY c.status
UNION ALL
SELECT c.status, COUNT_BIG(*) AS messages, MAX(DATEDIFF(SECOND, c.message_enqueue_time, GETUTCDATE())) AS oldest_s
FROM (SELECT TOP ($(Limit)) m.status, m.message_enqueue_time FROM $(Queue) AS m WITH (NOLOCK) WHERE m.status = 3) AS c
GROUP BY c.status;
GO
