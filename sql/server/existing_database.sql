/*
Purpose:   what the lab needs of a database that exists already, and does not change: broker, master key.
Called by: the harness on a user's own servers, for a database that lab.toml names as existing_database.
Assumes:   the login may use the database, and VIEW DEFINITION in it.
Variables: Database (name of the side's database)
Columns:   is_broker_enabled (bit), master_keys (int), is_master_key_encrypted_by_server (bit),
           dialog_certificate (name of one with which dialogs of dbo's services are secured by now, or NULL)
*/
USE [$(Database)];
GO

SELECT
    d.is_broker_enabled,
    (
        SELECT COUNT(*)
        FROM sys.symmetric_keys AS k
        WHERE k.name = N'##MS_DatabaseMasterKey##'
    ) AS master_keys,
    d.is_master_key_encrypted_by_server,
    (
        SELECT MIN(c.name)
        FROM sys.certificates AS c
        WHERE c.principal_id = USER_ID(N'dbo')
            AND c.pvt_key_encryption_type <> 'NA'
            AND c.is_active_for_begin_dialog = 1
    ) AS dialog_certificate
FROM sys.databases AS d
WHERE d.database_id = DB_ID();
GO
