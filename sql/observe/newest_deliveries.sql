/*
Purpose:   how long the messages that the target has just processed were on their way.
Called by: the looks of `harness ui`, each second, on the target.
Assumes:   dbo.messageDrop with its primary key: the newest 500 rows are read from its end, without locks, so a RECEIVE
           that is rolled back may be among them. A latency is from the client's clock to the target's, set when the
           INSERT of its RECEIVE began: meaningful on one machine or with synchronised clocks.
Variables: none
Columns:   latency_ns (bigint); at most 500 rows, of messages processed in the last second
*/
SELECT
    DATEDIFF_BIG(NANOSECOND, CAST(N'1970-01-01T00:00:00' AS datetime2(7)), d.processed_at)
        - CAST(SUBSTRING(d.messageVal, 25, 8) AS bigint) AS latency_ns
FROM
(
    SELECT TOP (500) messageVal, processed_at
    FROM dbo.messageDrop WITH (NOLOCK)
    ORDER BY id DESC
) AS d
WHERE SUBSTRING(d.messageVal, 1, 4) = 0x53534248
    AND d.processed_at > DATEADD(MILLISECOND, -1000, SYSUTCDATETIME());
