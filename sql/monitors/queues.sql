/*
Purpose:   the queues of this database as they are defined, and what their activation needs; those of Database Mail too,
           which are the system's.
Called by: harness monitors, when it begins and some times a minute, in every database.
Assumes:   the login sees queues, procedures and users on which it has some permission; VIEW DEFINITION in the database
           shows all. is_owner says whether it also sees conversations and the transmission queue.
Variables: none
Columns:   schema_name, queue_name, queue_id (int), table_id (int: the internal table), is_receive_enabled,
           is_enqueue_enabled, is_retention_enabled, is_poison_message_handling_enabled, is_activation_enabled,
           activation_procedure, procedure_id (NULL: not found), execute_as_principal_id (-2: owner), execute_as_name
           (NULL: not found), max_readers (smallint), notification_name, notification_service, notification_instance,
           is_broker_enabled, service_broker_guid, is_owner (int)
*/
SELECT
    s.name AS schema_name,
    q.name AS queue_name,
    q.object_id AS queue_id,
    t.object_id AS table_id,
    q.is_receive_enabled,
    q.is_enqueue_enabled,
    q.is_retention_enabled,
    q.is_poison_message_handling_enabled,
    q.is_activation_enabled,
    q.activation_procedure,
    OBJECT_ID(q.activation_procedure) AS procedure_id,
    q.execute_as_principal_id,
    USER_NAME(q.execute_as_principal_id) AS execute_as_name,
    q.max_readers,
    n.name AS notification_name,
    n.service_name AS notification_service,
    n.broker_instance AS notification_instance,
    d.is_broker_enabled,
    d.service_broker_guid,
    IS_MEMBER(N'db_owner') AS is_owner
FROM sys.service_queues AS q
JOIN sys.schemas AS s ON s.schema_id = q.schema_id
JOIN sys.internal_tables AS t ON t.parent_object_id = q.object_id AND t.internal_type = 201
JOIN sys.databases AS d ON d.database_id = DB_ID()
LEFT JOIN
(
    SELECT
        e.parent_id,
        MIN(e.name) AS name,
        MIN(e.service_name) AS service_name,
        MIN(e.broker_instance) AS broker_instance
    FROM sys.event_notifications AS e
    JOIN sys.events AS k ON k.object_id = e.object_id AND k.type_desc = N'QUEUE_ACTIVATION'
    WHERE e.parent_class = 1
    GROUP BY e.parent_id
) AS n ON n.parent_id = q.object_id
WHERE q.is_ms_shipped = 0
    OR q.name IN (N'ExternalMailQueue', N'InternalMailQueue')
ORDER BY s.name, q.name;
GO
