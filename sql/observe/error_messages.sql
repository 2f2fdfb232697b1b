/*
Purpose:   the Error messages in an initiator's queue: the target, or a broker, has ended these conversations by an error,
           with the messages in them that were not received.
Called by: the sweep, on each initiator, after a cell has drained, where messages are counted: any row fails the cell.
Assumes:   the initiator's procedures leave them in the queue. NOLOCK, because clients may receive from it.
Variables: Queue (this side's queue, with its schema)
Columns:   message_body (varbinary; XML in UTF-16), errors (bigint)
*/
SELECT message_body, COUNT_BIG(*) AS errors
FROM $(Queue) WITH (NOLOCK)
WHERE message_type_name = N'http://schemas.microsoft.com/SQL/ServiceBroker/Error'
GROUP BY message_body
ORDER BY errors DESC;
