/*
Purpose:   the tasks that wait for the latch of a page at this moment, and the page.
Called by: the sampler, about ten times a second in the measured window, on every instance; likewise for the page of
           harness ui.
Assumes:   VIEW SERVER STATE. This is a sample: over many samples an object's share of the rows is its share of
           the waiting. System tasks have no session.
Variables: none
Columns:   session_id (smallint), wait_type, wait_duration_ms (bigint), resource_description (database:file:page, in
           some versions followed by more)
*/
SELECT session_id, wait_type, wait_duration_ms, resource_description
FROM sys.dm_os_waiting_tasks
WHERE wait_type LIKE N'PAGELATCH%';
