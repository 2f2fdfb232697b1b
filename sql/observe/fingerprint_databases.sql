/*
Purpose:   the options of the lab's database, and of tempdb.
Called by: the sweep, when a lab opens, for the manifest.
Assumes:   nothing. Other databases are left out, because results do not depend on their names.
Variables: none
Columns:   name, compatibility_level, collation_name, recovery_model_desc, page_verify_option_desc,
           is_read_committed_snapshot_on, snapshot_isolation_state_desc, delayed_durability_desc,
           is_auto_update_stats_on, is_broker_enabled, is_honor_broker_priority_on, is_trustworthy_on, is_encrypted,
           target_recovery_time_in_seconds
*/
SELECT
    name,
    compatibility_level,
    collation_name,
    recovery_model_desc,
    page_verify_option_desc,
    is_read_committed_snapshot_on,
    snapshot_isolation_state_desc,
    delayed_durability_desc,
    is_auto_update_stats_on,
    is_broker_enabled,
    is_honor_broker_priority_on,
    is_trustworthy_on,
    is_encrypted,
    target_recovery_time_in_seconds
FROM sys.databases
WHERE database_id IN (2, DB_ID())
ORDER BY database_id;
