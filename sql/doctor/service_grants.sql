/*
Purpose:   who may send to the lab's service.
Called by: the doctor, on every instance.
Assumes:   the service exists. Its owner and db_owner need no grant.
Variables: Service (name of this side's service)
Columns:   grantee_name, permission_name (SEND or CONTROL), state (GRANT, GRANT_WITH_GRANT_OPTION or DENY)
*/
SELECT g.name AS grantee_name, p.permission_name, p.state_desc AS state
FROM sys.database_permissions AS p
JOIN sys.services AS s ON s.service_id = p.major_id
JOIN sys.database_principals AS g ON g.principal_id = p.grantee_principal_id
WHERE p.class_desc = N'SERVICE'
    AND p.permission_name IN (N'SEND', N'CONTROL')
    AND s.name = N'$(Service)'
ORDER BY g.name, p.permission_name;
GO
