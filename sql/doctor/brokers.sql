/*
Purpose:   the brokers of the instance. Two databases with one identifier would receive each other's messages; without
           msdb's broker no message from the network is delivered.
Called by: the doctor, on every instance.
Assumes:   databases that the login may not see have no row.
Variables: none
Columns:   database_name, service_broker_guid (uniqueidentifier), is_broker_enabled (bit)
*/
SELECT name AS database_name, service_broker_guid, is_broker_enabled
FROM sys.databases
ORDER BY database_id;
GO
