/*
Purpose:   whether master and the lab's database have a master key that the server can open without a password.
Called by: the doctor, on every instance.
Assumes:   VIEW ANY DEFINITION; without it a database's key is not visible.
Variables: none
Columns:   database_name, master_keys (int: 0 or 1), is_master_key_encrypted_by_server (bit)
*/
SELECT d.name AS database_name, COUNT(k.name) AS master_keys, d.is_master_key_encrypted_by_server
FROM sys.databases AS d
LEFT JOIN sys.symmetric_keys AS k ON k.name = N'##MS_DatabaseMasterKey##'
WHERE d.database_id = DB_ID()
GROUP BY d.name, d.is_master_key_encrypted_by_server
UNION ALL
SELECT d.name, COUNT(k.name), d.is_master_key_encrypted_by_server
FROM sys.databases AS d
LEFT JOIN master.sys.symmetric_keys AS k ON k.name = N'##MS_DatabaseMasterKey##'
WHERE d.name = N'master'
GROUP BY d.name, d.is_master_key_encrypted_by_server;
GO
