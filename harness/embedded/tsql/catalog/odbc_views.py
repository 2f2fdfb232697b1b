"""Data types and columns as ODBC describes them: what the catalog procedures of drivers select from.

SQL Server has views of these names too, which no manual describes. Columns and values follow
https://learn.microsoft.com/sql/relational-databases/system-stored-procedures/sp-datatype-info-transact-sql and
https://learn.microsoft.com/sql/relational-databases/system-stored-procedures/sp-columns-transact-sql
"""

from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any, NamedTuple

from harness.embedded.sqltypes import MAX
from harness.embedded.tsql.catalog import data_types
from harness.embedded.tsql.catalog.system_views import all_columns
from harness.embedded.tsql.catalog.view import Context, View
from harness.embedded.tsql.catalog.visibility import everybody, of_object
from harness.embedded.tsql.storage.conversion import BINARY, TEXT


class DataTypeInfo(NamedTuple):
    """A row of sp_datatype_info, without the columns that can be derived."""

    name: str
    odbc_type: int  # numbered as in ODBC 3
    precision: int
    prefix: str | None = None
    suffix: str | None = None
    create_params: str | None = None
    searchable: int = 2
    unsigned: int | None = None
    money: int = 0
    scale_min: int | None = None
    scale_max: int | None = None
    datetime_sub: int | None = None
    radix: int | None = None
    bytes: int = 0  # that ODBC transfers, where they are not those of sys.columns
    types: tuple[int, int] = (0, 0)  # of extended stored procedures: NOT NULL, NULL

    @property
    def sql_type(self) -> int:
        return self.odbc_type if self.datetime_sub is None else 9


# In the order of ODBC types; of several with the same one, the closest match comes first.
DATA_TYPES = (
    DataTypeInfo("datetimeoffset", -155, 34, "'", "'", "scale", scale_min=0, scale_max=7, bytes=20),
    DataTypeInfo("time", -154, 16, "'", "'", "scale", scale_min=0, scale_max=7, bytes=10),
    DataTypeInfo("xml", -152, 0, "N'", "'", searchable=0),
    DataTypeInfo("uniqueidentifier", -11, 36, "'", "'", types=(37, 37)),
    DataTypeInfo("nvarchar", -9, 4000, "N'", "'", "max length", searchable=3, types=(39, 39)),
    DataTypeInfo("sysname", -9, 128, "N'", "'", searchable=3, types=(39, 39)),
    DataTypeInfo("nchar", -8, 4000, "N'", "'", "length", searchable=3, types=(47, 39)),
    DataTypeInfo("bit", -7, 1, scale_min=0, scale_max=0, types=(50, 50)),
    DataTypeInfo("tinyint", -6, 3, unsigned=1, scale_min=0, scale_max=0, radix=10, types=(48, 38)),
    DataTypeInfo("bigint", -5, 19, unsigned=0, scale_min=0, scale_max=0, radix=10, types=(63, 108)),
    DataTypeInfo("varbinary", -3, 8000, "0x", None, "max length", types=(37, 37)),
    DataTypeInfo("binary", -2, 8000, "0x", None, "length", types=(45, 37)),
    DataTypeInfo("char", 1, 8000, "'", "'", "length", searchable=3, types=(47, 39)),
    DataTypeInfo("numeric", 2, 38, None, None, "precision,scale", 2, 0, 0, 0, 38, radix=10, types=(63, 108)),
    DataTypeInfo("decimal", 3, 38, None, None, "precision,scale", 2, 0, 0, 0, 38, radix=10, types=(55, 106)),
    DataTypeInfo("money", 3, 19, "$", None, None, 2, 0, 1, 4, 4, radix=10, bytes=21, types=(60, 110)),
    DataTypeInfo("smallmoney", 3, 10, "$", None, None, 2, 0, 1, 4, 4, radix=10, bytes=12, types=(122, 110)),
    DataTypeInfo("int", 4, 10, unsigned=0, scale_min=0, scale_max=0, radix=10, types=(56, 38)),
    DataTypeInfo("smallint", 5, 5, unsigned=0, scale_min=0, scale_max=0, radix=10, types=(52, 38)),
    DataTypeInfo("float", 6, 53, unsigned=0, radix=2, types=(62, 109)),
    DataTypeInfo("real", 7, 24, unsigned=0, radix=2, types=(59, 109)),
    DataTypeInfo("varchar", 12, 8000, "'", "'", "max length", searchable=3, types=(39, 39)),
    DataTypeInfo("date", 91, 10, "'", "'", datetime_sub=1, bytes=6),
    DataTypeInfo("datetime2", 93, 27, "'", "'", "scale", scale_min=0, scale_max=7, datetime_sub=3, bytes=16),
    DataTypeInfo("datetime", 93, 23, "'", "'", None, 2, None, 0, 3, 3, datetime_sub=3, bytes=16, types=(61, 111)),
    DataTypeInfo("smalldatetime", 93, 16, "'", "'", None, 2, None, 0, 0, 0, datetime_sub=3, bytes=16, types=(58, 111)),
)
_BY_NAME = {info.name: info for info in DATA_TYPES}


def _columns(context: Context) -> Iterator[SimpleNamespace]:
    for row in all_columns(context):
        info = _BY_NAME[row.type.name]
        is_string = row.type.name in TEXT or row.type.name in BINARY
        size = data_types.precision(row.type) or info.precision
        octets = info.bytes or max(data_types.max_length(row.type), 0)
        if is_string:
            size = 0 if row.type.length == MAX else row.type.length
        elif row.type.name in ("decimal", "numeric"):
            octets = row.type.precision + 2  # as text, with sign and point
        row.__dict__.update(database=context.database, info=info, size=size, octets=octets, is_string=is_string)
        yield row


def _scale(row: Any) -> int | None:
    has_scale = row.info.scale_min is not None or row.type.name == "date"
    return data_types.scale(row.type) if has_scale else None


VIEWS = [
    View(
        "spt_datatype_info",
        """
        TYPE_NAME           sysname NOT NULL    <- name
        DATA_TYPE           smallint NOT NULL   <- odbc_type
        PRECISION           int                 <- precision
        LITERAL_PREFIX      varchar(32)         <- prefix
        LITERAL_SUFFIX      varchar(32)         <- suffix
        CREATE_PARAMS       varchar(32)         <- create_params
        NULLABLE            smallint NOT NULL   = 1
        CASE_SENSITIVE      smallint NOT NULL   = 0
        SEARCHABLE          smallint NOT NULL   <- searchable
        UNSIGNED_ATTRIBUTE  smallint            <- unsigned
        MONEY               smallint NOT NULL   <- money
        AUTO_INCREMENT      smallint
        LOCAL_TYPE_NAME     sysname             <- name
        MINIMUM_SCALE       smallint            <- scale_min
        MAXIMUM_SCALE       smallint            <- scale_max
        SQL_DATA_TYPE       smallint NOT NULL   <- sql_type
        SQL_DATETIME_SUB    smallint            <- datetime_sub
        NUM_PREC_RADIX      int                 <- radix
        INTERVAL_PRECISION  smallint            = NULL
        USERTYPE            smallint            = 0
        """,
        lambda context: DATA_TYPES,
        visible=everybody,
        is_fixed=True,
        AUTO_INCREMENT=lambda info: None if info.radix is None else 0,
    ),
    View(
        "spt_columns_odbc_view",
        """
        TABLE_QUALIFIER                       sysname             <- database.name
        TABLE_OWNER                           sysname
        TABLE_NAME                            sysname NOT NULL    <- table.name
        COLUMN_NAME                           sysname             <- column.name
        DATA_TYPE                             smallint NOT NULL   <- info.odbc_type
        TYPE_NAME                             sysname NOT NULL
        PRECISION                             int                 <- size
        LENGTH                                int                 <- octets
        SCALE                                 smallint
        RADIX                                 smallint            <- info.radix
        NULLABLE                              smallint NOT NULL   <- column.nullable
        REMARKS                               varchar(254)        = NULL
        COLUMN_DEF                            nvarchar(4000)
        SQL_DATA_TYPE                         smallint NOT NULL   <- info.sql_type
        SQL_DATETIME_SUB                      smallint            <- info.datetime_sub
        CHAR_OCTET_LENGTH                     int
        ORDINAL_POSITION                      int NOT NULL        <- column_id
        IS_NULLABLE                           varchar(254)
        SS_IS_SPARSE                          smallint            = 0
        SS_IS_COLUMN_SET                      smallint            = 0
        SS_IS_COMPUTED                        smallint            = 0
        SS_IS_IDENTITY                        smallint            <- is_identity
        SS_UDT_CATALOG_NAME                   sysname             = NULL
        SS_UDT_SCHEMA_NAME                    sysname             = NULL
        SS_UDT_ASSEMBLY_TYPE_NAME             nvarchar(4000)      = NULL
        SS_XML_SCHEMACOLLECTION_CATALOG_NAME  sysname             = NULL
        SS_XML_SCHEMACOLLECTION_SCHEMA_NAME   sysname             = NULL
        SS_XML_SCHEMACOLLECTION_NAME          sysname             = NULL
        SS_DATA_TYPE                          tinyint
        """,
        _columns,
        visible=of_object("table"),
        TABLE_OWNER=lambda row: row.database.catalog.schema_name(row.table.schema_id),
        TYPE_NAME=lambda row: row.type.name + " identity" * row.is_identity,
        SCALE=_scale,
        COLUMN_DEF=lambda row: row.default.definition if row.default is not None else None,
        CHAR_OCTET_LENGTH=lambda row: row.octets if row.is_string else None,
        IS_NULLABLE=lambda row: "YES" if row.column.nullable else "NO",
        SS_DATA_TYPE=lambda row: row.info.types[row.column.nullable],
    ),
]
