/*
Purpose:   other sessions of the harness in the database, which mean that another run uses it.
Called by: the harness on a user's own servers, before it uses or removes the database.
Assumes:   VIEW SERVER STATE; without it only sessions of the same login are visible.
Variables: Database (name of the side's database)
Columns:   session_id (smallint), host_name
*/
SELECT s.session_id, s.host_name
FROM sys.dm_exec_sessions AS s
WHERE s.database_id = DB_ID(N'$(Database)')
    AND s.program_name = N'service-broker-harness'
    AND s.session_id <> @@SPID;
GO
