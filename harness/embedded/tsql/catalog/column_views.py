"""Columns, data types and parameters: sys.columns, sys.types and their kin."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from types import SimpleNamespace
from typing import Any

from harness.embedded.broker.catalog import SCHEMAS
from harness.embedded.sqltypes import INT, Column, SqlType
from harness.embedded.tsql.catalog import data_types
from harness.embedded.tsql.catalog.constraints import defaults
from harness.embedded.tsql.catalog.data_types import TYPES, DataType
from harness.embedded.tsql.catalog.object_views import ObjectRow, procedures, tables, user_functions, user_views
from harness.embedded.tsql.catalog.view import Context, View
from harness.embedded.tsql.catalog.visibility import everybody, of_object
from harness.embedded.tsql.instance.instance import ConnectedSession
from harness.embedded.tsql.instance.modules import Module

# Gives the parameters of a procedure or function: name, type and whether it is OUTPUT.
Describe = Callable[[Any], Iterable[tuple[str, SqlType, bool]]]
_describers: dict[type[Module], Describe] = {}


def describe_parameters_with(kind: type[Module], describe: Describe) -> None:
    """Set the function that reads the parameters of a kind of module. The layer above, which parses it, has it."""
    _describers[kind] = describe


# Gives the columns of a view, or of a function that returns a table.
DescribeColumns = Callable[[ConnectedSession, Any], Iterable[Column]]
_column_describers: dict[type[Module], DescribeColumns] = {}


def describe_columns_with(kind: type[Module], describe: DescribeColumns) -> None:
    """Set the function that reads the columns of a kind of module."""
    _column_describers[kind] = describe


def user_columns(context: Context) -> Iterator[SimpleNamespace]:
    """Columns of user tables and views, and of functions that return tables."""
    yield from _table_columns(context)
    for row in (*user_views(context), *user_functions(context)):
        for number, column in enumerate(columns_of(context.session, row.module), start=1):
            yield shown_column(row, number, column)


def columns_of(session: ConnectedSession, module: Any) -> Sequence[Column]:
    """The columns of a view or function; none of another module."""
    describe = _column_describers.get(type(module))
    columns = describe(session, module) if describe is not None else ()
    return [Column(column.name, column.type or INT, column.nullable) for column in columns]  # NULL has no type


def shown_column(row: ObjectRow, number: int, column: Column) -> SimpleNamespace:
    """A column of a view or function."""
    of_type = {"type": column.type, "data_type": TYPES[column.type.name]}
    return SimpleNamespace(table=row, column_id=number, column=column, **of_type, default=None, is_identity=False)


def _table_columns(context: Context) -> Iterator[SimpleNamespace]:
    for row in tables(context):
        assert row.table is not None
        by_place = {default.places[0]: default for default in defaults(row.table)}
        for place, column in enumerate(row.columns):
            yield SimpleNamespace(
                table=row,
                column_id=place + 1,
                column=column,
                type=column.type,
                data_type=TYPES[column.type.name],
                definition=row.table.definitions[place],
                default=by_place.get(place),
                is_identity=row.identity == place,
            )


def identity_columns(context: Context) -> Iterator[SimpleNamespace]:
    for row in _table_columns(context):
        if row.is_identity:
            row.seed_value, row.increment_value = row.definition.identity
            row.last_value = row.table.table.last_rowid if row.table.table.last_rowid >= row.seed_value else None
            yield row


def parameters(context: Context) -> Iterator[SimpleNamespace]:
    """Parameters of procedures and functions."""
    for row in (*procedures(context), *user_functions(context)):
        assert row.module is not None
        for number, (name, type_, is_output) in enumerate(_describers[type(row.module)](row.module), start=1):
            yield SimpleNamespace(
                procedure=row,
                name=name,
                parameter_id=number,
                type=type_,
                data_type=TYPES[type_.name],
                is_output=is_output,
            )


TABLE_TYPE = DataType("table type", 243, -1)


def _shown_type(type_: DataType, **more: Any) -> SimpleNamespace:
    of_type = {"id": type_.id, "collation_name": type_.collation_name}
    of_system = {"schema_id": SCHEMAS["sys"], "is_nullable": 1, "is_user_defined": 0, "is_table_type": 0}
    return SimpleNamespace(**(type_._asdict() | of_type | of_system | more))


def types(context: Context) -> Iterator[SimpleNamespace]:
    yield from (_shown_type(type_) for type_ in TYPES.values())
    yield from _user_types(context)


def _user_types(context: Context) -> Iterator[SimpleNamespace]:
    for user_type in context.instance.types.values():
        if user_type.database_id != context.database.database_id:
            continue
        base = user_type.base
        type_values = {
            "name": user_type.name,
            "id": user_type.object_id,
            "schema_id": context.database.catalog.schema_id(user_type.schema),
            "is_nullable": user_type.nullable,
            "is_user_defined": 1,
            "is_table_type": base is None,
        }
        if base is not None:
            type_values |= {"max_length": data_types.max_length(base), "precision": data_types.precision(base)}
            type_values |= {"scale": data_types.scale(base)}
        yield _shown_type(TABLE_TYPE if base is None else TYPES[base.name], **type_values)


TYPE_COLUMNS = """
        system_type_id       tinyint NOT NULL   <- data_type.system_type_id
        user_type_id         int NOT NULL       <- data_type.id
        max_length           smallint NOT NULL
        precision            tinyint NOT NULL
        scale                tinyint NOT NULL
        """
_OF_TYPE: dict[str, Any] = {
    "max_length": lambda row: data_types.max_length(row.type),
    "precision": lambda row: data_types.precision(row.type),
    "scale": lambda row: data_types.scale(row.type),
}
COLUMN_COLUMNS = (
    """
        object_id            int NOT NULL       <- table.object_id
        name                 sysname            <- column.name
        column_id            int NOT NULL
        """
    + TYPE_COLUMNS
    + """
        collation_name       sysname            <- data_type.collation_name
        is_nullable          bit                <- column.nullable
        is_identity          bit NOT NULL
        is_computed          bit NOT NULL       = 0
        default_object_id    int NOT NULL
        rule_object_id       int NOT NULL       = 0
        """
)


def column_view(name: str, more: str, rows: Callable[[Context], Iterable[Any]]) -> View:
    """A view with the columns of sys.columns, and others."""
    return View(
        name,
        COLUMN_COLUMNS + more,
        rows,
        visible=of_object("table"),
        default_object_id=lambda row: row.default.object_id if row.default is not None else 0,
        **_OF_TYPE,
    )


VIEWS = [
    column_view("columns", "", user_columns),
    column_view(
        "identity_columns",
        """
        seed_value              bigint
        increment_value         bigint
        last_value              bigint
        is_not_for_replication  bit     = 0
        """,
        identity_columns,
    ),
    column_view(
        "computed_columns",
        """
        definition                       nvarchar(max)
        uses_database_collation          bit NOT NULL
        is_persisted                     bit NOT NULL
        """,
        lambda context: (),
    ),
    View(
        "types",
        """
        name               sysname NOT NULL
        system_type_id     tinyint NOT NULL
        user_type_id       int NOT NULL       <- id
        schema_id          int NOT NULL
        principal_id       int                = NULL
        max_length         smallint NOT NULL
        precision          tinyint NOT NULL
        scale              tinyint NOT NULL
        collation_name     sysname
        is_nullable        bit
        is_user_defined    bit NOT NULL
        is_assembly_type   bit NOT NULL       = 0
        default_object_id  int NOT NULL       = 0
        rule_object_id     int NOT NULL       = 0
        is_table_type      bit NOT NULL
        """,
        types,
        visible=everybody,
    ),
    *(
        View(
            name,
            """
        object_id            int NOT NULL       <- procedure.object_id
        name                 sysname
        parameter_id         int NOT NULL
        """
            + TYPE_COLUMNS
            + """
        is_output            bit NOT NULL
        """,
            parameters,
            visible=of_object("procedure"),
            **_OF_TYPE,
        )
        for name in ("parameters", "all_parameters")
    ),
]
