/*
Purpose:   what this login may see. Without these rights views leave out rows without an error.
Called by: the doctor, on every instance.
Assumes:   nothing.
Variables: none
Columns:   sees_server_definitions (int), sees_database_definitions (int), sees_server_state (int)
*/
SELECT
    HAS_PERMS_BY_NAME(NULL, NULL, N'VIEW ANY DEFINITION') AS sees_server_definitions,
    HAS_PERMS_BY_NAME(DB_NAME(), N'DATABASE', N'VIEW DEFINITION') AS sees_database_definitions,
    HAS_PERMS_BY_NAME(NULL, NULL, N'VIEW SERVER STATE') AS sees_server_state;
GO
