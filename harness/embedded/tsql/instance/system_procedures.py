"""System procedures that are T-SQL themselves: the catalog procedures, which drivers call for the catalog functions of
ODBC and JDBC and before a bulk copy. Their columns are those of the manual:
https://learn.microsoft.com/sql/relational-databases/system-stored-procedures/catalog-stored-procedures-transact-sql
"""

_NAMED = "CAST(DB_NAME() AS sysname) AS {0}TABLE_QUALIFIER, CAST(SCHEMA_NAME(o.schema_id) AS sysname) AS {0}TABLE_OWNER"
_CHECKED = "IF @table_qualifier <> DB_NAME() BEGIN RAISERROR (15250, -1, -1); RETURN 1; END;"
_ONE_TABLE = "o.name = @table_name AND (@table_owner IS NULL OR SCHEMA_NAME(o.schema_id) = @table_owner)"


def _matches(column: str, parameter: str) -> str:
    """A condition on a name: a pattern, unless the caller says that it is none."""
    return f"(@{parameter} IS NULL OR {column} = @{parameter} OR @fUsePattern = 1 AND {column} LIKE @{parameter})"


_TABLES = f"""
CREATE PROCEDURE sys.sp_tables
    @table_name nvarchar(384) = NULL, @table_owner nvarchar(384) = NULL, @table_qualifier sysname = NULL,
    @table_type varchar(100) = NULL, @fUsePattern bit = 1
AS
IF @table_qualifier = N'%' AND @table_owner = N'' AND @table_name = N''
    SELECT CAST(name AS sysname) AS TABLE_QUALIFIER, CAST(NULL AS sysname) AS TABLE_OWNER,
        CAST(NULL AS sysname) AS TABLE_NAME, CAST(NULL AS varchar(32)) AS TABLE_TYPE,
        CAST(NULL AS varchar(254)) AS REMARKS
    FROM sys.databases ORDER BY 1;
ELSE IF @table_owner = N'%' AND @table_qualifier = N'' AND @table_name = N''
    SELECT CAST(NULL AS sysname) AS TABLE_QUALIFIER, CAST(name AS sysname) AS TABLE_OWNER,
        CAST(NULL AS sysname) AS TABLE_NAME, CAST(NULL AS varchar(32)) AS TABLE_TYPE,
        CAST(NULL AS varchar(254)) AS REMARKS
    FROM sys.schemas ORDER BY 2;
ELSE IF @table_type = '%' AND @table_qualifier = N'' AND @table_owner = N'' AND @table_name = N''
    SELECT CAST(NULL AS sysname) AS TABLE_QUALIFIER, CAST(NULL AS sysname) AS TABLE_OWNER,
        CAST(NULL AS sysname) AS TABLE_NAME, CAST(t.name AS varchar(32)) AS TABLE_TYPE,
        CAST(NULL AS varchar(254)) AS REMARKS
    FROM (VALUES ('SYSTEM TABLE'), ('TABLE'), ('VIEW')) AS t (name) ORDER BY 4;
ELSE
BEGIN
    {_CHECKED}
    SELECT {_NAMED.format("")}, o.name AS TABLE_NAME, CAST(k.name AS varchar(32)) AS TABLE_TYPE,
        CAST(NULL AS varchar(254)) AS REMARKS
    FROM sys.all_objects AS o
    INNER JOIN (VALUES ('S', 'SYSTEM TABLE'), ('U', 'TABLE'), ('V', 'VIEW')) AS k (type, name) ON k.type = o.type
    WHERE (@table_type IS NULL OR CHARINDEX('''' + k.name + '''', @table_type) > 0)
        AND {_matches("o.name", "table_name")} AND {_matches("SCHEMA_NAME(o.schema_id)", "table_owner")}
    ORDER BY 4, 1, 2, 3;
END;
"""
_COLUMNS = f"""
CREATE PROCEDURE sys.sp_columns%s
    @table_name nvarchar(384), @table_owner nvarchar(384) = NULL, @table_qualifier sysname = NULL,
    @column_name nvarchar(384) = NULL, @ODBCVer int = 2, @fUsePattern bit = 1
AS
{_CHECKED}
SELECT TABLE_QUALIFIER, TABLE_OWNER, TABLE_NAME, COLUMN_NAME,
    -- ODBC 2 has other numbers for date, time and timestamp.
    CAST(DATA_TYPE - CASE WHEN @ODBCVer < 3 AND DATA_TYPE > 90 THEN 82 ELSE 0 END AS smallint) AS DATA_TYPE,
    TYPE_NAME, PRECISION, LENGTH, SCALE, RADIX, NULLABLE, REMARKS, COLUMN_DEF, SQL_DATA_TYPE, SQL_DATETIME_SUB,
    CHAR_OCTET_LENGTH, ORDINAL_POSITION, IS_NULLABLE, %s SS_DATA_TYPE
FROM sys.spt_columns_odbc_view
WHERE {_matches("TABLE_NAME", "table_name")} AND {_matches("TABLE_OWNER", "table_owner")}
    AND {_matches("COLUMN_NAME", "column_name")}
ORDER BY TABLE_QUALIFIER, TABLE_OWNER, TABLE_NAME, ORDINAL_POSITION;
"""
_SINCE_2005 = """
    SS_IS_SPARSE, SS_IS_COLUMN_SET, SS_IS_COMPUTED, SS_IS_IDENTITY, SS_UDT_CATALOG_NAME, SS_UDT_SCHEMA_NAME,
    SS_UDT_ASSEMBLY_TYPE_NAME, SS_XML_SCHEMACOLLECTION_CATALOG_NAME, SS_XML_SCHEMACOLLECTION_SCHEMA_NAME,
    SS_XML_SCHEMACOLLECTION_NAME,"""
_PRIMARY_KEYS = f"""
CREATE PROCEDURE sys.sp_pkeys @table_name sysname, @table_owner sysname = NULL, @table_qualifier sysname = NULL
AS
{_CHECKED}
SELECT {_NAMED.format("")}, o.name AS TABLE_NAME, c.name AS COLUMN_NAME, CAST(i.key_ordinal AS smallint) AS KEY_SEQ,
    k.name AS PK_NAME
FROM sys.tables AS o
INNER JOIN sys.key_constraints AS k ON k.parent_object_id = o.object_id AND k.type = 'PK'
INNER JOIN sys.index_columns AS i ON i.object_id = o.object_id AND i.index_id = k.unique_index_id
INNER JOIN sys.columns AS c ON c.object_id = o.object_id AND c.column_id = i.column_id
WHERE {_ONE_TABLE}
ORDER BY 1, 2, 3, 5;
"""
_FOREIGN_KEYS = f"""
CREATE PROCEDURE sys.sp_fkeys
    @pktable_name sysname = NULL, @pktable_owner sysname = NULL, @pktable_qualifier sysname = NULL,
    @fktable_name sysname = NULL, @fktable_owner sysname = NULL, @fktable_qualifier sysname = NULL
AS
-- No table has any.
SELECT {_NAMED.format("PK")}, o.name AS PKTABLE_NAME, o.name AS PKCOLUMN_NAME,
    {_NAMED.format("FK")}, o.name AS FKTABLE_NAME, o.name AS FKCOLUMN_NAME, CAST(0 AS smallint) AS KEY_SEQ,
    CAST(0 AS smallint) AS UPDATE_RULE, CAST(0 AS smallint) AS DELETE_RULE, k.name AS FK_NAME, k.name AS PK_NAME,
    CAST(0 AS smallint) AS DEFERRABILITY
FROM sys.foreign_keys AS k
INNER JOIN sys.tables AS o ON o.object_id = k.parent_object_id;
"""
_STATISTICS = f"""
CREATE PROCEDURE sys.sp_statistics
    @table_name sysname, @table_owner sysname = NULL, @table_qualifier sysname = NULL, @index_name sysname = N'%',
    @is_unique char(1) = 'N', @accuracy char(1) = 'Q'
AS
{_CHECKED}
SELECT {_NAMED.format("")}, o.name AS TABLE_NAME, CAST(NULL AS smallint) AS NON_UNIQUE,
    CAST(NULL AS sysname) AS INDEX_QUALIFIER, CAST(NULL AS sysname) AS INDEX_NAME, CAST(0 AS smallint) AS TYPE,
    CAST(NULL AS smallint) AS SEQ_IN_INDEX, CAST(NULL AS sysname) AS COLUMN_NAME, CAST(NULL AS char(1)) AS COLLATION,
    CAST(p.rows AS int) AS CARDINALITY, CAST(NULL AS int) AS PAGES, CAST(NULL AS varchar(128)) AS FILTER_CONDITION
FROM sys.tables AS o
INNER JOIN sys.partitions AS p ON p.object_id = o.object_id AND p.index_id IN (0, 1)
WHERE {_ONE_TABLE}
UNION ALL
SELECT {_NAMED.format("")}, o.name, CAST(1 - i.is_unique AS smallint), o.name, i.name,
    CAST(CASE i.type WHEN 1 THEN 1 ELSE 3 END AS smallint), CAST(k.key_ordinal AS smallint), c.name,
    CAST('A' AS char(1)), CAST(p.rows AS int), NULL, NULL
FROM sys.tables AS o
INNER JOIN sys.indexes AS i ON i.object_id = o.object_id
INNER JOIN sys.index_columns AS k ON k.object_id = o.object_id AND k.index_id = i.index_id
INNER JOIN sys.columns AS c ON c.object_id = o.object_id AND c.column_id = k.column_id
INNER JOIN sys.partitions AS p ON p.object_id = o.object_id AND p.index_id = i.index_id
WHERE {_ONE_TABLE} AND i.name LIKE @index_name AND (@is_unique <> 'Y' OR i.is_unique = 1)
ORDER BY 4, 7, 6, 8;
"""
_DATA_TYPES = """
CREATE PROCEDURE sys.sp_datatype_info @data_type int = 0, @ODBCVer tinyint = 2
AS
SELECT * FROM sys.spt_datatype_info WHERE @data_type IN (0, DATA_TYPE);
"""
_COLLATIONS = """
CREATE PROCEDURE sys.sp_tablecollations @object nvarchar(4000)
AS
SELECT column_id AS colid, name, CASE WHEN collation_name IS NOT NULL THEN 0x0904D00034 END AS tds_collation,
    collation_name AS collation
FROM sys.all_columns WHERE object_id = OBJECT_ID(@object) ORDER BY column_id;
"""
_VERSIONS = ("", "_90", "_100")  # of which drivers call the one for the server that they know
TEXTS = {
    "sp_tables": _TABLES,
    "sp_columns": _COLUMNS % ("", ""),
    **{f"sp_columns{version}": _COLUMNS % (version, _SINCE_2005) for version in _VERSIONS[1:]},
    "sp_pkeys": _PRIMARY_KEYS,
    "sp_fkeys": _FOREIGN_KEYS,
    **{f"sp_statistics{version}": _STATISTICS for version in _VERSIONS},
    **{f"sp_datatype_info{version}": _DATA_TYPES for version in _VERSIONS},
    **{f"sp_tablecollations{version}": _COLLATIONS for version in _VERSIONS},
}
