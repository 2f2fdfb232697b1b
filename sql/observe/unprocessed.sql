/*
Purpose:   the messages that the target has not processed, exactly: those in its queue, and those whose RECEIVE is not
           committed yet.
Called by: the lab, on the target, where messages are counted: after the clients have stopped, when the transmission queues
           are empty and the queue looks empty by its metadata.
Assumes:   no READPAST and no NOLOCK: they would pass over the rows that a reader has received and not committed. The
           plain SELECT waits for the locks of these rows, or sees them as they were (READ_COMMITTED_SNAPSHOT). If the
           reader rolls back, the rows are counted. The lab sets LOCK_TIMEOUT, and asks again after error 1222.
Variables: Queue (the target's queue, with its schema)
Columns:   messages (bigint)
*/
SELECT COUNT_BIG(*) AS messages
FROM $(Queue);
