"""CREATE, ALTER, DROP and TRUNCATE TABLE; the grammar of columns and keys, which DECLARE @t TABLE shares."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from harness.embedded.broker.ddl import new_object_id
from harness.embedded.broker.transactions import Transaction
from harness.embedded.errors import SqlServerError
from harness.embedded.tsql.catalog.constraints import constraints
from harness.embedded.tsql.catalog.data_types import COLLATION
from harness.embedded.tsql.instance import securables
from harness.embedded.tsql.permissions.guard import Guard
from harness.embedded.tsql.session.session import Frame
from harness.embedded.tsql.session.steps import Scope, Step, writing
from harness.embedded.tsql.statements import definitions
from harness.embedded.tsql.statements.insert import default_value
from harness.embedded.tsql.statements.registry import COMPILERS, register
from harness.embedded.tsql.storage.tables import ColumnDefinition, Row, Table, TableBody, check_number
from harness.embedded.tsql.text.parser import Parser, Statement
from harness.embedded.tsql.translation.binding import Binding
from harness.embedded.tsql.translation.renderer import Renderer


@definitions.define("CREATE TABLE")
def create_table(parser: Parser) -> definitions.Definition:
    """`CREATE TABLE name ( column type [ NULL | NOT NULL | IDENTITY | DEFAULT | PRIMARY KEY | UNIQUE ] [, ...] )`"""
    parts = parser.tokens.object_name()
    if parts[-1].startswith("#"):
        parser.tokens.unsupported("temporary tables")
    body = table_body(parser)
    definitions.filegroup(parser.tokens)
    definitions.filegroup(parser.tokens, "TEXTIMAGE_ON")

    def work(frame: Frame, tx: Transaction) -> None:
        instance = frame.instance
        database, schema, name = instance.named(parts, frame.database)
        now_ns = instance.engine.clock.utc_ns()
        object_id = new_object_id(tx, database.catalog)
        table = Table.from_body(database.database_id, object_id, schema, name, database.name, body, now_ns)
        instance.add_table(tx, table)

    return definitions.Definition(parser.line, definitions.creating("CREATE TABLE", in_schema=parts), work)


@definitions.define("ALTER TABLE")
def alter_table(parser: Parser) -> definitions.Definition:
    """
    ALTER TABLE name ADD { column [ WITH VALUES ] | [ CONSTRAINT name ] { PRIMARY KEY | UNIQUE } ( column [, ...] )
        | [ CONSTRAINT name ] DEFAULT value FOR column [ WITH VALUES ] } [, ...]
    """
    tokens, line = parser.tokens, parser.line
    parts = tokens.object_name()
    if not tokens.accept("ADD"):
        tokens.unsupported(f"ALTER TABLE {tokens.word()}")
    added = Additions()
    tokens.comma_separated(lambda: _addition(parser, added))

    def work(frame: Frame, tx: Transaction) -> None:
        table = frame.instance.table(parts, frame.database)
        if table is None:
            raise SqlServerError(4902, ".".join(parts))
        changed = added.to(table)
        table.lock(tx)
        rows = _extended(frame, table, changed, added, line)
        frame.instance.alter_table(tx, table, changed, rows)

    return definitions.Definition(parser.line, _altering(parts, 4902), work)


@dataclass(slots=True)
class Additions(TableBody):
    """What ALTER TABLE adds: columns, keys, and defaults of columns that exist."""

    defaults: dict[str, tuple[str, str]] = field(default_factory=dict)  # by column: the value and the default's name
    with_values: set[str] = field(default_factory=set)  # new columns that have their default in existing rows

    def to(self, table: Table) -> Table:
        """The table with these additions."""
        if self.primary_key and table.primary_key:
            raise SqlServerError(1779, table.name)
        names = [self.primary_key_name, *dict(self.unique), *dict(self.defaults.values()).values()]
        names_taken = {constraint.name.lower() for constraint in constraints(table)}
        for name in [*names, *(column.default_name for column in self.columns)]:
            if name.lower() in names_taken:
                raise SqlServerError(2714, name)
        old = {definition.name.lower(): definition for definition in table.definitions}
        for column in self.primary_key:
            if column.lower() in old and old[column.lower()].nullable:
                raise SqlServerError(8111, table.name)
        for column, (default, name) in self.defaults.items():
            definition = old.get(column.lower())
            if definition is None or definition.identity is not None:
                raise SqlServerError(1752, column, table.name)
            if definition.default is not None:
                raise SqlServerError(1781)
            old[column.lower()] = replace(definition, default=default, default_name=name)
        key = self if self.primary_key else table
        columns, unique = [*old.values(), *self.columns], [*table.unique, *self.unique]
        body = TableBody(columns, key.primary_key, key.primary_key_name, unique)
        where = table.schema, table.name, table.database_name
        return Table.from_body(*table.identifier, *where, body, table.create_time_ns)


def _addition(parser: Parser, added: Additions) -> None:
    tokens = parser.tokens
    if tokens.word(2 if tokens.at("CONSTRAINT") else 0) == "DEFAULT":
        name = tokens.name() if tokens.accept("CONSTRAINT") else ""
        tokens.expect("DEFAULT")
        default = _default(parser)
        tokens.expect("FOR")
        added.defaults[tokens.name()] = default, name
        tokens.accept("WITH", "VALUES")  # has no effect on a column that exists
        return
    count = len(added.columns)
    _element(parser, added)
    if len(added.columns) > count and tokens.accept("WITH", "VALUES"):
        added.with_values.add(added.columns[-1].name)


def _extended(frame: Frame, table: Table, changed: Table, added: Additions, line: int) -> list[Row]:
    """The rows of a table with values in its new columns: a default, the number of an IDENTITY column, or NULL."""
    new = changed.definitions[len(table.definitions) :]
    binding = Binding(Scope(COMPILERS), frame)
    renderer = Renderer(binding, line)
    values = []
    for column in new:
        has_default = not column.nullable or column.name in added.with_values
        values.append(default_value(renderer, column.default if has_default else None, column.type).sql)
    sql = f"SELECT {', '.join([table.all_columns, *values])} FROM {table.sql} ORDER BY rowid"
    rows: list[Row] = binding.plan(sql, renderer, []).rows(frame)
    for column in new if rows else ():
        if not column.nullable and column.default is None and column.identity is None:
            raise SqlServerError(4901, column.name, table.name)
        if column.identity is not None:
            seed, at = column.identity[0], changed.place(column.name) + 1
            check_number(column.type, seed + len(rows) - 1)
            rows = [(number, *row[1:at], number, *row[at + 1 :]) for number, row in enumerate(rows, seed)]
    return rows


definitions.register_drop_of_found(
    "TABLE",
    "table",
    lambda frame, name: frame.instance.table(name, frame.database),
    lambda frame, tx, dropped: frame.instance.drop_table(tx, dropped),
)


@dataclass(frozen=True, slots=True)
class Truncate(Statement):
    table: definitions.ObjectName


def parse_truncate(parser: Parser) -> Statement:
    """`TRUNCATE TABLE name`"""
    return Truncate(parser.line, parser.tokens.object_name())


@register("TRUNCATE TABLE", parse_truncate, Truncate)
def compile_truncate(node: Truncate, scope: Scope) -> Step:
    """Plans stay valid, unlike after a definition."""

    def work(frame: Frame, tx: Transaction) -> None:
        table = Binding(scope, frame).user_table(node.table)
        frame.instance.truncate_table(tx, table)
        frame.session.row_count = 0

    return definitions.checked(_altering(node.table, 1088), writing(work))


def _altering(name: definitions.ObjectName, error: int) -> definitions.Check:
    """The check for ALTER on a table. A missing one is left to the statement."""

    def check(frame: Frame, guard: Guard) -> None:
        securable = securables.find(frame, "OBJECT", name)
        if securable is not None and not securables.is_held(frame, securable, "ALTER"):
            raise SqlServerError(error, ".".join(name))

    return check


# -- columns and keys --------------------------------------------------------------------------------------------------


def table_body(parser: Parser) -> TableBody:
    tokens = parser.tokens
    tokens.expect("(")
    body = TableBody()
    while True:
        _element(parser, body)
        if not tokens.accept(","):
            break
        if tokens.at(")"):
            break
    tokens.expect(")")
    if not body.columns:
        tokens.fail()
    return body


def _element(parser: Parser, body: TableBody) -> None:
    tokens = parser.tokens
    constraint = tokens.name() if tokens.accept("CONSTRAINT") else ""
    if _at_key(parser):
        primary = _key(parser)
        names = _key_columns(parser)
        _index_options(parser)
        if primary:
            body.primary_key, body.primary_key_name = names, constraint
        else:
            body.unique.append((constraint, names))
    elif constraint or tokens.word() in ("CHECK", "FOREIGN KEY", "INDEX"):
        tokens.unsupported(f"{tokens.word() or 'this'} constraint")
    else:
        body.columns.append(_column(parser, body))


def _at_key(parser: Parser) -> bool:
    return parser.tokens.word() in ("PRIMARY KEY", "PRIMARY", "UNIQUE")


def _key(parser: Parser) -> bool:
    """Parse `PRIMARY KEY | UNIQUE [ CLUSTERED | NONCLUSTERED ]`; True for the primary key."""
    tokens = parser.tokens
    primary = tokens.accept("PRIMARY KEY") or tokens.accept("PRIMARY", "KEY")
    if not primary:
        tokens.expect("UNIQUE")
    if not tokens.accept("CLUSTERED"):
        tokens.accept("NONCLUSTERED")
    return primary


def _key_columns(parser: Parser) -> list[str]:
    tokens = parser.tokens

    def column() -> str:
        name = tokens.name()
        if not tokens.accept("ASC"):
            tokens.accept("DESC")
        return name

    tokens.expect("(")
    names = tokens.comma_separated(column)
    tokens.expect(")")
    return names


def _index_options(parser: Parser) -> None:
    """Parse `WITH ( option [, ...] )` and `ON filegroup` of an index: what changes only where and how it lies has no
    effect here."""
    tokens = parser.tokens
    if tokens.at("WITH", "("):
        tokens.advance()
        tokens.expect("(")
        while not tokens.accept(")"):
            if tokens.accept("IGNORE_DUP_KEY", "=", "ON"):
                tokens.unsupported("IGNORE_DUP_KEY = ON")
            tokens.advance()
    definitions.filegroup(tokens)


def _column(parser: Parser, body: TableBody) -> ColumnDefinition:
    tokens = parser.tokens
    name = tokens.name()
    if tokens.at("AS"):
        tokens.unsupported("computed columns")
    type_ = tokens.data_type()
    nullable = True
    identity: tuple[int, int] | None = None
    default: str | None = None
    default_name = ""
    while True:
        constraint = tokens.name() if tokens.accept("CONSTRAINT") else ""
        if tokens.accept("NOT", "NULL"):
            nullable = False
        elif tokens.accept("NULL"):
            nullable = True
        elif tokens.accept("IDENTITY"):
            identity = _identity(parser)
            nullable = False
        elif tokens.accept("DEFAULT"):
            default, default_name = _default(parser), constraint
        elif tokens.accept("COLLATE"):
            collation(parser)
        elif _at_key(parser):
            if _key(parser):
                body.primary_key, body.primary_key_name = [name], constraint
                nullable = False
            else:
                body.unique.append((constraint, [name]))
            _index_options(parser)
        else:
            return ColumnDefinition(name, type_, nullable, identity, default, default_name)


def collation(parser: Parser) -> None:
    """Parse the name of the collation of columns; others than the one of this server are refused."""
    name = parser.tokens.name()
    if name.upper() not in (COLLATION.upper(), "DATABASE_DEFAULT"):
        parser.tokens.unsupported(f"columns with the collation {name}, only with {COLLATION}")


def _identity(parser: Parser) -> tuple[int, int]:
    tokens = parser.tokens
    if not tokens.accept("("):
        return 1, 1
    seed = tokens.integer()
    tokens.expect(",")
    increment = tokens.integer()
    tokens.expect(")")
    if increment != 1:
        tokens.unsupported(f"IDENTITY with an increment of {increment}")
    return seed, increment


DEFAULT_ENDS = (
    *(
        ",",
        "CONSTRAINT",
        "NOT",
        "NULL",
        "IDENTITY",
        "PRIMARY KEY",
        "PRIMARY",
        "UNIQUE",
        "COLLATE",
        "CHECK",
        "FOR",
        "WITH",
    ),
)


def _default(parser: Parser) -> str:
    tokens = parser.tokens
    if tokens.accept("NULL"):
        return "NULL"
    default_tokens = tokens.take_until(DEFAULT_ENDS)
    return tokens.text[default_tokens[0].start : default_tokens[-1].end + 1]
