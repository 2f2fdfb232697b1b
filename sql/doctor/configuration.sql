/*
Purpose:   settings of the instance on which a measurement depends.
Called by: the doctor, on every instance.
Assumes:   nothing: every login may read them.
Variables: none
Columns:   name, value_in_use (bigint)
*/
SELECT name, CAST(value_in_use AS bigint) AS value_in_use
FROM sys.configurations
WHERE name IN (N'max server memory (MB)', N'remote admin connections')
ORDER BY name;
GO
