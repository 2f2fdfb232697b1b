/*
Purpose:   who may connect to the instance's Service Broker endpoint.
Called by: the doctor, on every instance.
Assumes:   VIEW ANY DEFINITION; without it grants of others are not visible. The owner of the endpoint needs none.
Variables: none
Columns:   grantee_name, permission_name (CONNECT or more), state (GRANT, GRANT_WITH_GRANT_OPTION or DENY)
*/
SELECT g.name AS grantee_name, p.permission_name, p.state_desc AS state
FROM sys.server_permissions AS p
JOIN sys.service_broker_endpoints AS e ON e.endpoint_id = p.major_id
JOIN sys.server_principals AS g ON g.principal_id = p.grantee_principal_id
WHERE p.class_desc = N'ENDPOINT'
    AND p.permission_name IN (N'CONNECT', N'CONTROL')
ORDER BY g.name, p.permission_name;
GO
