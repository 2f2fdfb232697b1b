/*
Purpose:   what a RECEIVE would take first from a queue, of how many conversation groups the messages are, and the first
           Error message among them.
Called by: harness monitors, for queues whose messages stay or become more.
Assumes:   SELECT permission on the queue. It takes no locks, and looks at no more than Limit ready messages. A message of
           a group that somebody has locked is one of them.
Variables: Queue (with its schema, in brackets), Limit (bigint)
Columns:   message_type_name, message_sequence_number (bigint), conversation_handle (uniqueidentifier), conversation_groups
           (int), error_body (varbinary: XML in UTF-16; NULL without an Error message). No row without a ready message.
*/
SELECT
    f.message_type_name,
    f.message_sequence_number,
    f.conversation_handle,
    (
        SELECT COUNT(DISTINCT g.conversation_group_id)
        FROM (SELECT TOP ($(Limit)) m.conversation_group_id FROM $(Queue) AS m WITH (NOLOCK) WHERE m.status = 1) AS g
    ) AS conversation_groups,
    (
        SELECT TOP (1) e.message_body
        FROM
        (
            SELECT TOP ($(Limit)) m.message_type_name, m.message_body
            FROM $(Queue) AS m WITH (NOLOCK)
            WHERE m.status = 1
        ) AS e
        WHERE e.message_type_name = N'http://schemas.microsoft.com/SQL/ServiceBroker/Error'
    ) AS error_body
FROM
(
    SELECT TOP (1) m.message_type_name, m.message_sequence_number, m.conversation_handle
    FROM $(Queue) AS m WITH (NOLOCK)
    WHERE m.status = 1
        AND m.priority = (SELECT MAX(p.priority) FROM $(Queue) AS p WITH (NOLOCK) WHERE p.status = 1)
    ORDER BY m.queuing_order
) AS f;
GO
