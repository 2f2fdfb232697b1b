/*
Purpose:   how many messages this side has sent on the conversations that it has begun and that still exist.
Called by: the sweep, on each initiator, before a cell and after it has drained, where messages are counted and dialogs are
           begun before the cell: the difference is what the clients' calls have sent.
Assumes:   nothing else sends meanwhile. It reads all endpoints, so do not run it every second. send_sequence is "the next
           message number in the send sequence", from 0.
Variables: none
Columns:   messages (bigint; NULL without a conversation)
*/
SELECT SUM(send_sequence) AS messages
FROM sys.conversation_endpoints
WHERE is_initiator = 1;
