"""The views of INFORMATION_SCHEMA.

https://learn.microsoft.com/sql/relational-databases/system-information-schema-views

Their names and those of their columns are in capitals. `View.name` begins with the schema, which distinguishes them
from the views of schema sys.
"""

from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any

from harness.embedded.sqltypes import MAX, SqlType
from harness.embedded.tsql.catalog import data_types
from harness.embedded.tsql.catalog.column_views import parameters, user_columns
from harness.embedded.tsql.catalog.constraints import checks, foreign_keys, keys
from harness.embedded.tsql.catalog.key_views import related_keys
from harness.embedded.tsql.catalog.object_views import FUNCTION_TYPES, ObjectRow, tables, user_views
from harness.embedded.tsql.catalog.system_views import modules
from harness.embedded.tsql.catalog.view import Context, View
from harness.embedded.tsql.catalog.visibility import Rule, everybody, of_object
from harness.embedded.tsql.storage.conversion import BINARY, DECIMALS, FLOATS, INTEGER_RANGES, TEXT, UNICODE
from harness.embedded.tsql.text.tokens import SCALED

SCHEMA = "INFORMATION_SCHEMA"


def _placed(context: Context, row: ObjectRow, **more: Any) -> SimpleNamespace:
    database = context.database
    return SimpleNamespace(catalog=database.name, schema=database.catalog.schema_name(row.schema_id), of=row, **more)


def _tables(context: Context) -> Iterator[SimpleNamespace]:
    yield from (_placed(context, row, kind="BASE TABLE") for row in tables(context))
    yield from (_placed(context, row, kind="VIEW") for row in user_views(context))


def _views(context: Context) -> Iterator[SimpleNamespace]:
    return (_placed(context, row.item, definition=row.definition) for row in modules(context) if row.item.type == "V")


def _columns(context: Context) -> Iterator[SimpleNamespace]:
    for row in user_columns(context):
        if row.table.type not in FUNCTION_TYPES:
            yield _placed(context, row.table, **{**vars(row), "nullable": row.column.nullable})


def _constraints(context: Context) -> Iterator[SimpleNamespace]:
    kinds = {"PK": "PRIMARY KEY", "UQ": "UNIQUE", "F": "FOREIGN KEY", "C": "CHECK"}
    for row in tables(context):
        assert row.table is not None
        for key in (*keys(row.table), *foreign_keys(row.table), *checks(row.table)):
            yield _placed(context, row, key=key, kind=kinds[key.type])


def _key_columns(context: Context) -> Iterator[SimpleNamespace]:
    for constraint in _constraints(context):
        for number, place in enumerate(constraint.key.places if constraint.kind != "CHECK" else (), start=1):
            yield SimpleNamespace(**vars(constraint), column=constraint.of.columns[place], number=number)


def _references(context: Context) -> Iterator[SimpleNamespace]:
    for related in related_keys(context):
        if related.referenced is not None:
            schema = related.referenced.table.schema
            yield _placed(context, related.of, key=related.key, referenced=related.referenced, far_schema=schema)


def _routines(context: Context) -> Iterator[SimpleNamespace]:
    kinds = {"P": "PROCEDURE"} | dict.fromkeys(FUNCTION_TYPES, "FUNCTION")
    for row in modules(context):
        if (kind := kinds.get(row.item.type)) is not None:
            yield _placed(context, row.item, definition=row.definition, kind=kind)


def _parameters(context: Context) -> Iterator[SimpleNamespace]:
    for row in parameters(context):
        yield _placed(context, row.procedure, **vars(row))


def _nothing(context: Context) -> Iterator[SimpleNamespace]:
    return iter(())


# -- data types --------------------------------------------------------------------------------------------------------


def _is_number(type_: SqlType) -> bool:
    return type_.name != "bit" and (type_.name in INTEGER_RANGES or type_.name in FLOATS or type_.name in DECIMALS)


def _characters(row: Any) -> int | None:
    """CHARACTER_MAXIMUM_LENGTH: characters of text, bytes of binary data, -1 for (max)."""
    type_ = row.type
    return type_.length if type_.name in TEXT or type_.name in BINARY else MAX if type_.name == "xml" else None


def _octets(row: Any) -> int | None:
    characters = _characters(row)
    return 2 * characters if characters is not None and characters != MAX and row.type.name in UNICODE else characters


def _datetime_precision(row: Any) -> int | None:
    if row.type.name in SCALED:
        return int(row.type.scale)
    return {"date": 0, "datetime": 3, "smalldatetime": 0}.get(row.type.name)


def _character_set(row: Any) -> str | None:
    return None if row.type.name not in TEXT else "UNICODE" if row.type.name in UNICODE else "iso_1"


TYPE_COLUMNS = """
        CHARACTER_MAXIMUM_LENGTH  int
        CHARACTER_OCTET_LENGTH    int
        NUMERIC_PRECISION         tinyint
        NUMERIC_PRECISION_RADIX   smallint
        NUMERIC_SCALE             int
        DATETIME_PRECISION        smallint
        """
_OF_TYPE: dict[str, Any] = {
    "CHARACTER_MAXIMUM_LENGTH": _characters,
    "CHARACTER_OCTET_LENGTH": _octets,
    "NUMERIC_PRECISION": lambda row: data_types.precision(row.type) if _is_number(row.type) else None,
    "NUMERIC_PRECISION_RADIX": lambda row: (2 if row.type.name in FLOATS else 10) if _is_number(row.type) else None,
    "NUMERIC_SCALE": lambda row: (
        data_types.scale(row.type) if _is_number(row.type) and row.type.name not in FLOATS else None
    ),
    "DATETIME_PRECISION": _datetime_precision,
    "CHARACTER_SET_NAME": _character_set,
}
_TABLE = """
        TABLE_CATALOG             nvarchar(128)          <- catalog
        TABLE_SCHEMA              nvarchar(128)          <- schema
        TABLE_NAME                sysname NOT NULL       <- of.name
        """
_CONSTRAINT = """
        CONSTRAINT_CATALOG        nvarchar(128)          <- catalog
        CONSTRAINT_SCHEMA         nvarchar(128)          <- schema
        CONSTRAINT_NAME           sysname NOT NULL       <- key.name
        """
_SPECIFIC = """
        SPECIFIC_CATALOG          nvarchar(128)          <- catalog
        SPECIFIC_SCHEMA           nvarchar(128)          <- schema
        SPECIFIC_NAME             nvarchar(128) NOT NULL <- of.name
        """
_OF_OBJECT = of_object("of")
_COLUMN_NAME = """
        COLUMN_NAME               sysname                <- column.name
        """


def _view(
    name: str, table: str, rows: Callable[[Context], Any], *, visible: Rule = _OF_OBJECT, **computed: Any
) -> View:
    return View(f"{SCHEMA}.{name}", table, rows, visible=visible, **computed)


VIEWS = [
    _view(
        "COLUMNS",
        _TABLE
        + _COLUMN_NAME
        + """
        ORDINAL_POSITION          int                    <- column_id
        COLUMN_DEFAULT            nvarchar(4000)
        IS_NULLABLE               varchar(3)
        DATA_TYPE                 nvarchar(128)          <- type.name
        """
        + TYPE_COLUMNS
        + """
        CHARACTER_SET_CATALOG     sysname                = NULL
        CHARACTER_SET_SCHEMA      sysname                = NULL
        CHARACTER_SET_NAME        sysname
        COLLATION_CATALOG         sysname                = NULL
        COLLATION_SCHEMA          sysname                = NULL
        COLLATION_NAME            sysname                <- data_type.collation_name
        DOMAIN_CATALOG            sysname                = NULL
        DOMAIN_SCHEMA             sysname                = NULL
        DOMAIN_NAME               sysname                = NULL
        """,
        _columns,
        COLUMN_DEFAULT=lambda row: row.default.definition if row.default is not None else None,
        IS_NULLABLE=lambda row: "YES" if row.nullable else "NO",
        **_OF_TYPE,
    ),
    _view(
        "TABLES",
        _TABLE
        + """
        TABLE_TYPE                varchar(10)            <- kind
        """,
        _tables,
    ),
    _view(
        "VIEWS",
        _TABLE
        + """
        VIEW_DEFINITION           nvarchar(4000)
        CHECK_OPTION              varchar(7)             = 'NONE'
        IS_UPDATABLE              varchar(2)             = 'NO'
        """,
        _views,
        VIEW_DEFINITION=lambda row: None if row.definition is None else row.definition[:4000],
    ),
    _view(
        "TABLE_CONSTRAINTS",
        _CONSTRAINT
        + _TABLE
        + """
        CONSTRAINT_TYPE           varchar(11)            <- kind
        IS_DEFERRABLE             varchar(2) NOT NULL    = 'NO'
        INITIALLY_DEFERRED        varchar(2) NOT NULL    = 'NO'
        """,
        _constraints,
    ),
    _view(
        "KEY_COLUMN_USAGE",
        _CONSTRAINT
        + _TABLE
        + _COLUMN_NAME
        + """
        ORDINAL_POSITION          int NOT NULL           <- number
        """,
        _key_columns,
    ),
    _view("CONSTRAINT_COLUMN_USAGE", _TABLE + _COLUMN_NAME + _CONSTRAINT, _key_columns),
    _view("CONSTRAINT_TABLE_USAGE", _TABLE + _CONSTRAINT, _constraints),
    _view(
        "REFERENTIAL_CONSTRAINTS",
        _CONSTRAINT
        + """
        UNIQUE_CONSTRAINT_CATALOG nvarchar(128)          <- catalog
        UNIQUE_CONSTRAINT_SCHEMA  nvarchar(128)          <- far_schema
        UNIQUE_CONSTRAINT_NAME    sysname                <- referenced.name
        MATCH_OPTION              varchar(7)             = 'SIMPLE'
        UPDATE_RULE               varchar(11)            = 'NO ACTION'
        DELETE_RULE               varchar(11)            = 'NO ACTION'
        """,
        _references,
    ),
    _view(
        "ROUTINES",
        _SPECIFIC
        + """
        ROUTINE_CATALOG           nvarchar(128)          <- catalog
        ROUTINE_SCHEMA            nvarchar(128)          <- schema
        ROUTINE_NAME              nvarchar(128) NOT NULL <- of.name
        ROUTINE_TYPE              nvarchar(20)           <- kind
        DATA_TYPE                 nvarchar(128)          = NULL
        ROUTINE_BODY              nvarchar(30)           = 'SQL'
        ROUTINE_DEFINITION        nvarchar(4000)
        CREATED                   datetime NOT NULL      <- of.create_time_ns
        LAST_ALTERED              datetime NOT NULL      <- of.create_time_ns
        """,
        _routines,
        ROUTINE_DEFINITION=lambda row: None if row.definition is None else row.definition[:4000],
    ),
    _view(
        "PARAMETERS",
        _SPECIFIC
        + """
        ORDINAL_POSITION          int NOT NULL           <- parameter_id
        PARAMETER_MODE            nvarchar(10)
        IS_RESULT                 nvarchar(10)           = 'NO'
        AS_LOCATOR                nvarchar(10)           = 'NO'
        PARAMETER_NAME            sysname                <- name
        DATA_TYPE                 nvarchar(128)          <- type.name
        """
        + TYPE_COLUMNS,
        _parameters,
        PARAMETER_MODE=lambda row: "INOUT" if row.is_output else "IN",
        **_OF_TYPE,
    ),
    _view(
        "SCHEMATA",
        """
        CATALOG_NAME                   nvarchar(128)      <- database.name
        SCHEMA_NAME                    nvarchar(128)      <- schema.name
        SCHEMA_OWNER                   nvarchar(128)      <- schema.owner
        DEFAULT_CHARACTER_SET_CATALOG  varchar(6)         = NULL
        DEFAULT_CHARACTER_SET_SCHEMA   varchar(3)         = NULL
        DEFAULT_CHARACTER_SET_NAME     sysname            = 'iso_1'
        """,
        lambda context: [
            SimpleNamespace(database=context.database, schema=schema)
            for schema in context.database.catalog.schemas.values()
        ],
        visible=everybody,
    ),
    _view(
        "SEQUENCES",
        """
        SEQUENCE_CATALOG          nvarchar(128)
        SEQUENCE_SCHEMA           nvarchar(128)
        SEQUENCE_NAME             sysname NOT NULL
        DATA_TYPE                 nvarchar(128)
        """,
        _nothing,
        since=2012,
    ),
]
