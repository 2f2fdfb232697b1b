/*
Purpose:   the user databases of the instance.
Called by: harness monitors, first and now and then.
Assumes:   nothing. A login sees master, tempdb and its own databases, and all with VIEW ANY DATABASE, which public has
           unless it was revoked.
Variables: none
Columns:   database_id (int), database_name, state_desc, is_broker_enabled
*/
SELECT
    d.database_id,
    d.name AS database_name,
    d.state_desc,
    d.is_broker_enabled
FROM sys.databases AS d
WHERE d.database_id > 4
ORDER BY d.name;
GO
