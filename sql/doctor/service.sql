/*
Purpose:   the lab's service with its owner and its queue, and how the queue activates.
Called by: the doctor, on every instance.
Assumes:   no row means that there is no such service. A procedure_id of NULL with a name: that procedure was dropped.
Variables: Service (name of this side's service)
Columns:   service_name, owner_name, queue_schema_name, queue_name, is_receive_enabled (bit), is_enqueue_enabled (bit),
           is_retention_enabled (bit), is_activation_enabled (bit), activation_procedure, procedure_id (int),
           max_readers (smallint),
           execute_as_principal_id (int: -2 is OWNER), execute_as_name
*/
SELECT
    s.name AS service_name,
    o.name AS owner_name,
    SCHEMA_NAME(q.schema_id) AS queue_schema_name,
    q.name AS queue_name,
    q.is_receive_enabled,
    q.is_enqueue_enabled,
    q.is_retention_enabled,
    q.is_activation_enabled,
    q.activation_procedure,
    OBJECT_ID(q.activation_procedure) AS procedure_id,
    q.max_readers,
    q.execute_as_principal_id,
    e.name AS execute_as_name
FROM sys.services AS s
JOIN sys.service_queues AS q ON q.object_id = s.service_queue_id
LEFT JOIN sys.database_principals AS o ON o.principal_id = s.principal_id
LEFT JOIN sys.database_principals AS e ON e.principal_id = q.execute_as_principal_id
WHERE s.name = N'$(Service)';
GO
