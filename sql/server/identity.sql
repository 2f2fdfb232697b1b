/*
Purpose:   which instance this is and who is signed in.
Called by: the harness on a user's own servers, before everything else.
Assumes:   nothing.
Variables: none
Columns:   server_name, product_version, engine_edition (int; 5, 6, 8, 9 and 11 are Azure's), process_id (int; two
           sides with the same server_name and process_id are one instance), login_name, is_sysadmin (int)
*/
SELECT
    CAST(SERVERPROPERTY(N'ServerName') AS nvarchar(128)) AS server_name,
    CAST(SERVERPROPERTY(N'ProductVersion') AS nvarchar(128)) AS product_version,
    CAST(SERVERPROPERTY(N'EngineEdition') AS int) AS engine_edition,
    CAST(SERVERPROPERTY(N'ProcessID') AS int) AS process_id,
    SUSER_SNAME() AS login_name,
    IS_SRVROLEMEMBER(N'sysadmin') AS is_sysadmin;
GO
