/*
Purpose:   which SQL Server this is.
Called by: the sweep, when a lab opens, for the manifest.
Assumes:   nothing.
Variables: none
Columns:   version_text, product_version, product_level, product_update_level, edition, engine_edition, collation,
           is_clustered, is_hadr_enabled
*/
SELECT
    @@VERSION AS version_text,
    CAST(SERVERPROPERTY(N'ProductVersion') AS nvarchar(128)) AS product_version,
    CAST(SERVERPROPERTY(N'ProductLevel') AS nvarchar(128)) AS product_level,
    CAST(SERVERPROPERTY(N'ProductUpdateLevel') AS nvarchar(128)) AS product_update_level,
    CAST(SERVERPROPERTY(N'Edition') AS nvarchar(128)) AS edition,
    CAST(SERVERPROPERTY(N'EngineEdition') AS int) AS engine_edition,
    CAST(SERVERPROPERTY(N'Collation') AS nvarchar(128)) AS collation,
    CAST(SERVERPROPERTY(N'IsClustered') AS int) AS is_clustered,
    CAST(SERVERPROPERTY(N'IsHadrEnabled') AS int) AS is_hadr_enabled;
