/*
Purpose:   the properties of the lab's database on which a link or a measurement depends.
Called by: the doctor, on every instance.
Assumes:   the connection is in the side's database.
Variables: none
Columns:   database_name, service_broker_guid (uniqueidentifier), is_broker_enabled (bit),
           compatibility_level (tinyint), recovery_model, delayed_durability, page_verify, is_auto_shrink_on (bit),
           is_auto_close_on (bit), is_query_store_on (bit), is_read_committed_snapshot_on (bit), is_encrypted (bit),
           target_recovery_time_in_seconds (int; 0: automatic checkpoints), is_read_only (bit), user_access,
           group_database_id (uniqueidentifier; not NULL: it is in an availability group)
*/
SELECT
    d.name AS database_name,
    d.service_broker_guid,
    d.is_broker_enabled,
    d.compatibility_level,
    d.recovery_model_desc AS recovery_model,
    d.delayed_durability_desc AS delayed_durability,
    d.page_verify_option_desc AS page_verify,
    d.is_auto_shrink_on,
    d.is_auto_close_on,
    d.is_query_store_on,
    d.is_read_committed_snapshot_on,
    d.is_encrypted,
    d.target_recovery_time_in_seconds,
    d.is_read_only,
    d.user_access_desc AS user_access,
    d.group_database_id
FROM sys.databases AS d
WHERE d.database_id = DB_ID();
GO
