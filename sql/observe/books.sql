/*
Purpose:   what arrived, per initiator and thread, to be compared with what the clients sent: nothing is lost if
           distinct_sequences equals the number sent, nothing came twice if messages equals distinct_sequences,
           and the order was kept if out_of_order is 0.
Called by: the sweep, on the target, after a cell has drained.
Assumes:   a thread sends on one dialog and numbers its messages. Messages of other runs and those without a payload
           header, as the warm-up's, are not counted. Header: bytes 1-4 SSBH, 5-8 run, 9-10 initiator, 11-12 thread,
           17-24 sequence, 25-32 time of sending, all big-endian.
Variables: Run (number of the run in the payload header)
Columns:   initiator (int), thread (int), messages (bigint), distinct_sequences (bigint), min_sequence (bigint),
           max_sequence (bigint), out_of_order (bigint: messages that came after a later one)
*/
WITH drop_rows AS
(
    SELECT
        id,
        CAST(SUBSTRING(messageVal, 9, 2) AS int) AS initiator,
        CAST(SUBSTRING(messageVal, 11, 2) AS int) AS thread,
        CAST(SUBSTRING(messageVal, 17, 8) AS bigint) AS sequence
    FROM dbo.messageDrop
    WHERE SUBSTRING(messageVal, 1, 4) = 0x53534248
        AND CAST(SUBSTRING(messageVal, 5, 4) AS bigint) = $(Run)
),
ordered_rows AS
(
    SELECT
        initiator,
        thread,
        sequence,
        LAG(sequence) OVER (PARTITION BY initiator, thread ORDER BY id) AS previous_sequence
    FROM drop_rows
)
SELECT
    initiator,
    thread,
    COUNT_BIG(*) AS messages,
    COUNT_BIG(DISTINCT sequence) AS distinct_sequences,
    MIN(sequence) AS min_sequence,
    MAX(sequence) AS max_sequence,
    SUM(CAST(CASE WHEN sequence < previous_sequence THEN 1 ELSE 0 END AS bigint)) AS out_of_order
FROM ordered_rows
GROUP BY initiator, thread
ORDER BY initiator, thread;
