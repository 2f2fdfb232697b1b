/*
Purpose:   the routes of msdb, by which everything goes that arrives from the network.
Called by: the doctor, on every instance.
Assumes:   an expired route stays in the view and is not used; lifetime is in UTC.
Variables: none
Columns:   route_name, remote_service_name, broker_instance, address, is_expired (int)
*/
SELECT
    name AS route_name,
    remote_service_name,
    broker_instance,
    address,
    CASE WHEN lifetime < GETUTCDATE() THEN 1 ELSE 0 END AS is_expired
FROM msdb.sys.routes
ORDER BY route_id;
GO
