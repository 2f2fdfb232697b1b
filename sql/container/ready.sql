/*
Purpose:   whether the instance is ready, that is, whether all databases can be used.
Called by: the lab, until it returns 0.
Assumes:   nothing.
Variables: none
Columns:   databases_not_online (int)
*/
SELECT COUNT(*) AS databases_not_online FROM sys.databases WHERE state_desc <> N'ONLINE';
GO
