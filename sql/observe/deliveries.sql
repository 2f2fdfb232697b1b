/*
Purpose:   every message of a run with the moments of sending and processing, in the order of processing.
Called by: the sweep, on the target, after a cell has drained.
Assumes:   sent_at_ns is the client's clock, processed_at_ns the target's, set when the INSERT of its RECEIVE began:
           doctor/clock.sql says how far it is from this machine's. datetime2 counts in 100 ns.
Variables: Run (number of the run in the payload header)
Columns:   initiator (int), thread (int), sequence (bigint), sent_at_ns (bigint), processed_at_ns (bigint);
           both ns since 1970-01-01 UTC
*/
SELECT
    CAST(SUBSTRING(messageVal, 9, 2) AS int) AS initiator,
    CAST(SUBSTRING(messageVal, 11, 2) AS int) AS thread,
    CAST(SUBSTRING(messageVal, 17, 8) AS bigint) AS sequence,
    CAST(SUBSTRING(messageVal, 25, 8) AS bigint) AS sent_at_ns,
    DATEDIFF_BIG(NANOSECOND, CAST(N'1970-01-01T00:00:00' AS datetime2(7)), processed_at) AS processed_at_ns
FROM dbo.messageDrop
WHERE SUBSTRING(messageVal, 1, 8) = 0x53534248 + CAST(CAST($(Run) AS bigint) AS binary(4))
ORDER BY id;
