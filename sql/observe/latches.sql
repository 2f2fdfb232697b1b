/*
Purpose:   waits for latches since the instance started, by class; the difference of two readings is that of a cell.
Called by: the sampler, before and after each cell, on every instance.
Assumes:   VIEW SERVER STATE. Latches that were granted at once are not counted. BUFFER is the class for all pages.
Variables: none
Columns:   latch_class, waiting_requests (bigint), wait_time_ms (bigint)
*/
SELECT latch_class, waiting_requests_count AS waiting_requests, wait_time_ms
FROM sys.dm_os_latch_stats
WHERE waiting_requests_count > 0
ORDER BY wait_time_ms DESC, latch_class;
