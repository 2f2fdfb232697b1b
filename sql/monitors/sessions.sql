/*
Purpose:   who waits in a RECEIVE in this database, and who has a transaction open in it, which may hold locks of
           conversation groups.
Called by: harness monitors, where messages of a queue do not move.
Assumes:   VIEW SERVER STATE, from SQL Server 2022 on VIEW SERVER PERFORMANCE STATE; SQL Server 2012. No view says which
           conversation group a session has locked, nor from which queue it receives.
Variables: none
Columns:   session_id (int), host_name, program_name, login_name, is_receiving (int), open_transactions (int),
           activated_for (int: the queue whose monitor has launched it)
*/
SELECT
    s.session_id,
    s.host_name,
    s.program_name,
    s.login_name,
    CASE WHEN r.wait_type = N'BROKER_RECEIVE_WAITFOR' THEN 1 ELSE 0 END AS is_receiving,
    s.open_transaction_count AS open_transactions,
    a.queue_id AS activated_for
FROM sys.dm_exec_sessions AS s
LEFT JOIN sys.dm_exec_requests AS r ON r.session_id = s.session_id
LEFT JOIN sys.dm_broker_activated_tasks AS a ON a.spid = s.session_id
WHERE s.database_id = DB_ID()
    AND s.session_id <> @@SPID
    AND (s.open_transaction_count > 0 OR r.wait_type = N'BROKER_RECEIVE_WAITFOR')
ORDER BY s.session_id;
GO
