/*
Purpose:   the remote service binding of the lab's service, whose user's certificate secures dialogs to it.
Called by: the doctor, on every instance.
Assumes:   a service has at most one. A dialog to a service with a binding is secured even if it began with
           ENCRYPTION = OFF.
Variables: TargetService (name of the target's service)
Columns:   binding_name, user_name, is_anonymous_on (bit)
*/
SELECT b.name AS binding_name, p.name AS user_name, b.is_anonymous_on
FROM sys.remote_service_bindings AS b
LEFT JOIN sys.database_principals AS p ON p.principal_id = b.remote_principal_id
WHERE b.remote_service_name = N'$(TargetService)';
GO
