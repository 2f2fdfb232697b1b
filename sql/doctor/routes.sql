/*
Purpose:   the routes of the lab's database, which its messages follow.
Called by: the doctor, on every instance; harness monitors.
Assumes:   the view also shows expired routes, which are not used; lifetime is in UTC.
Variables: none
Columns:   route_name, remote_service_name, broker_instance, address, is_expired (int)
*/
SELECT
    name AS route_name,
    remote_service_name,
    broker_instance,
    address,
    CASE WHEN lifetime < GETUTCDATE() THEN 1 ELSE 0 END AS is_expired
FROM sys.routes
ORDER BY route_id;
GO
