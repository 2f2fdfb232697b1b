/*
Purpose:   every RECEIVE that returned messages, in order.
Called by: the sweep, on the target, after a cell has drained.
Assumes:   reset/messages.sql ran before the cell: the rows name no run. Messages of all types count.
Variables: none
Columns:   received_at_ns (bigint, ns since 1970-01-01 UTC), messages (int), session_id (int)
*/
SELECT
    DATEDIFF_BIG(NANOSECOND, CAST(N'1970-01-01T00:00:00' AS datetime2(7)), received_at) AS received_at_ns,
    messages,
    session_id
FROM dbo.receiveCount
ORDER BY id;
