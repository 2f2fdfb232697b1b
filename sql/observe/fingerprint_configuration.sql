/*
Purpose:   the options of the instance as sp_configure sets them.
Called by: the sweep, when a lab opens, for the manifest.
Assumes:   nothing.
Variables: none
Columns:   name, value, value_in_use (differs if RECONFIGURE or a restart is needed)
*/
SELECT name, CAST(value AS bigint) AS value, CAST(value_in_use AS bigint) AS value_in_use
FROM sys.configurations
ORDER BY name;
