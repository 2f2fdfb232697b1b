/*
Purpose:   what the activation procedure wrote to the error table, by kind.
Called by: the sweep, on the target, after a cell has drained: any row fails the cell.
Assumes:   reset/messages.sql ran before the cell. target/message_errors.sql describes the kinds.
Variables: none
Columns:   message_type_name, error_number (int), error_message, errors (bigint), first_failed_at_ns (bigint),
           last_failed_at_ns (bigint); both ns since 1970-01-01 UTC
*/
SELECT
    message_type_name,
    error_number,
    error_message,
    COUNT_BIG(*) AS errors,
    DATEDIFF_BIG(NANOSECOND, CAST(N'1970-01-01T00:00:00' AS datetime2(7)), MIN(failed_at)) AS first_failed_at_ns,
    DATEDIFF_BIG(NANOSECOND, CAST(N'1970-01-01T00:00:00' AS datetime2(7)), MAX(failed_at)) AS last_failed_at_ns
FROM dbo.messageErrors
GROUP BY message_type_name, error_number, error_message
ORDER BY errors DESC, error_number;
