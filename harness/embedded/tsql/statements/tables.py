"""CREATE, ALTER, DROP and TRUNCATE TABLE; the grammar of columns and keys, which DECLARE @t TABLE shares."""

import re
from collections.abc import Callable
from dataclasses import dataclass, field, replace

from sqlglot import exp

from harness.embedded.broker.ddl import new_object_id
from harness.embedded.broker.transactions import Transaction
from harness.embedded.errors import SqlServerError, UnsupportedSyntax
from harness.embedded.sqltypes import ROWVERSION
from harness.embedded.tsql.catalog.constraints import Constraint, constraints
from harness.embedded.tsql.catalog.data_types import COLLATION
from harness.embedded.tsql.instance import securables
from harness.embedded.tsql.permissions.guard import Guard
from harness.embedded.tsql.session.session import Frame, TemporaryTable
from harness.embedded.tsql.session.steps import Scope, Step, writing
from harness.embedded.tsql.statements import definitions, rules, triggers
from harness.embedded.tsql.statements.insert import default_value
from harness.embedded.tsql.statements.registry import COMPILERS, register
from harness.embedded.tsql.storage.sqlite import quoted
from harness.embedded.tsql.storage.tables import (
    Check,
    ColumnDefinition,
    Index,
    Reference,
    Row,
    Table,
    TableBody,
    check_number,
)
from harness.embedded.tsql.storage.variants import VARIANT
from harness.embedded.tsql.text.parser import Parser, Statement, parse_expression
from harness.embedded.tsql.text.tokens import QUOTED, Tokens
from harness.embedded.tsql.translation.binding import Binding
from harness.embedded.tsql.translation.fragments import Fragment
from harness.embedded.tsql.translation.renderer import Renderer


@definitions.define("CREATE TABLE")
def create_table(parser: Parser) -> definitions.Definition:
    """
    CREATE TABLE name (
        { column type [ NULL | NOT NULL | IDENTITY | DEFAULT | PRIMARY KEY | UNIQUE | CHECK | REFERENCES ]
        | [ CONSTRAINT name ] { PRIMARY KEY | UNIQUE | CHECK | FOREIGN KEY } | INDEX name } [, ...] )
    """
    parts = parser.tokens.object_name()
    body = table_body(parser)
    definitions.filegroup(parser.tokens)
    definitions.filegroup(parser.tokens, "TEXTIMAGE_ON")

    def work(frame: Frame, tx: Transaction) -> None:
        new_table(frame, tx, parts, body)

    return definitions.Definition(parser.line, creating(parts), work)


def creating(parts: definitions.ObjectName) -> definitions.Check:
    """The check for a new table: anybody may have temporary ones."""
    if parts[-1].startswith("#"):
        return lambda frame, guard: None
    return definitions.creating("CREATE TABLE", in_schema=parts)


def new_table(frame: Frame, tx: Transaction, parts: definitions.ObjectName, body: TableBody) -> None:
    instance, session = frame.instance, frame.session
    is_temporary = parts[-1].startswith("#")
    if is_temporary:
        if parts[-1].startswith("##"):
            raise UnsupportedSyntax("global temporary tables", 0)
        names = [table.name for table in session.temporary_tables if table.depth == frame.depth]
        if parts[-1].lower() in names and frame.user_table(parts) is not None:
            raise SqlServerError(2714, parts[-1])
        database, schema, name = instance.database("tempdb"), "dbo", parts[-1]
    else:
        database, schema, name = instance.named(parts, frame.database)
    now_ns = instance.engine.clock.utc_ns()
    object_id = new_object_id(tx, database.catalog)
    if is_temporary:
        body = replace(body, references=[])  # "FOREIGN KEY constraints are not enforced on temporary tables"
    table = Table.from_body(database.database_id, object_id, schema, name, database.name, body, now_ns)
    instance.add_table(tx, table)
    rules.of_table(frame, table)  # whether they make sense
    if is_temporary:
        session.temporary_tables.append(TemporaryTable(name.lower(), frame.depth, table.key))


@definitions.define("ALTER TABLE")
def alter_table(parser: Parser) -> definitions.Definition:
    """
    ALTER TABLE name { [ WITH { CHECK | NOCHECK } ] ADD { column [ WITH VALUES ] | [ CONSTRAINT name ] { PRIMARY KEY |
        UNIQUE | CHECK | FOREIGN KEY | DEFAULT value FOR column [ WITH VALUES ] } } [, ...]
        | DROP [ CONSTRAINT ] [ IF EXISTS ] name [, ...] | CHECK CONSTRAINT { ALL | name }
        | ALTER COLUMN column type [ NULL | NOT NULL ] | { ENABLE | DISABLE } TRIGGER { ALL | name [, ...] } }
    """
    tokens = parser.tokens
    parts = tokens.object_name()
    looks_at_rows = not tokens.accept("WITH", "NOCHECK")
    tokens.accept("WITH", "CHECK")
    if tokens.accept("ADD"):
        work = _adding(parser, looks_at_rows=looks_at_rows)
    elif not tokens.at("DROP", "COLUMN") and tokens.accept("DROP"):
        work = _dropping(parser)
    elif tokens.accept("CHECK", "CONSTRAINT"):
        work = _enabling(tokens.name())
    elif tokens.accept("ALTER", "COLUMN"):
        work = _changing_column(parser)
    elif tokens.at("ENABLE", "TRIGGER") or tokens.at("DISABLE", "TRIGGER"):
        work = _switching(parser)
    else:
        tokens.unsupported(f"ALTER TABLE {tokens.word()}")

    def alter(frame: Frame, tx: Transaction) -> None:
        table = frame.user_table(parts)
        if table is None:
            raise SqlServerError(4902, ".".join(parts))
        work(frame, tx, table)

    return definitions.Definition(parser.line, altering(parts, 4902), alter)


Alteration = Callable[[Frame, Transaction, Table], None]


def _adding(parser: Parser, *, looks_at_rows: bool) -> Alteration:
    added, line = Additions(), parser.line
    parser.tokens.comma_separated(lambda: _addition(parser, added))

    def work(frame: Frame, tx: Transaction, table: Table) -> None:
        changed = added.to(table)
        table.lock(tx)
        frame.instance.alter_table(tx, table, changed, _extended(frame, table, changed, added, line))
        new = changed.checks[len(table.checks) :], changed.references[len(table.references) :]
        for rule in list(rules.of_constraints(frame, changed, *new)):
            if looks_at_rows:
                rule(frame, tx, "ALTER TABLE", (), rules.ALL_ROWS)

    return work


def _dropping(parser: Parser) -> Alteration:
    tokens = parser.tokens
    tokens.accept("CONSTRAINT")
    if_exists = tokens.accept("IF", "EXISTS")
    names = tokens.comma_separated(tokens.name)

    def work(frame: Frame, tx: Transaction, table: Table) -> None:
        body = table.body
        by_name = {constraint.name.lower(): constraint for constraint in constraints(table)}
        for name in names:
            constraint = by_name.get(name.lower())
            if constraint is not None:
                rules.refuse_referenced_key(frame, table, constraint)
                _remove(table, body, constraint)
            elif not if_exists:
                raise SqlServerError(3728, name)
        replace_table(frame, tx, table, body)

    return work


def _switching(parser: Parser) -> Alteration:
    """`{ ENABLE | DISABLE } TRIGGER { ALL | name [, ...] }`"""
    tokens = parser.tokens
    is_disabled = tokens.choose("ENABLE", "DISABLE") == "DISABLE"
    tokens.expect("TRIGGER")
    names = [] if tokens.accept("ALL") else tokens.comma_separated(tokens.object_name)

    def work(frame: Frame, tx: Transaction, table: Table) -> None:
        triggers.switch(frame, tx, table, names, is_disabled=is_disabled, in_alter=True)

    return work


def _changing_column(parser: Parser) -> Alteration:
    """`ALTER COLUMN column type [ NULL | NOT NULL ]`, of a column that no key, index or constraint has"""
    tokens, line = parser.tokens, parser.line
    name, type_ = tokens.name(), tokens.data_type()
    if tokens.accept("COLLATE"):
        tokens.unsupported("ALTER COLUMN COLLATE")
    nullable = not tokens.accept("NOT", "NULL")
    tokens.accept("NULL")

    def work(frame: Frame, tx: Transaction, table: Table) -> None:
        key = name.lower()
        place = next((n for n, column in enumerate(table.columns) if column.name.lower() == key), None)
        if place is None:
            raise SqlServerError(4924, name, table.name)
        if place == table.identity:
            raise UnsupportedSyntax("ALTER COLUMN of an IDENTITY column", line)
        for constraint in constraints(table):
            names_it = constraint.type == "C" and re.search(rf"\b{re.escape(key)}\b", constraint.definition.lower())
            if constraint.type != "D" and (place in constraint.places or names_it):
                raise SqlServerError(5074, constraint.name, name)
        for index in table.indexes:
            if key in [column.lower() for column in index.columns]:
                raise SqlServerError(5074, index.name, name)
        body = table.body
        body.columns[place] = replace(body.columns[place], type=type_, nullable=nullable)
        where = table.schema, table.name, table.database_name
        changed = Table.from_body(*table.identifier, *where, body, table.create_time_ns)
        binding = Binding(Scope(COMPILERS), frame)
        renderer = Renderer(binding, line)
        items = [quoted(column.name) for column in table.columns]
        destination = table.place_of(table.columns[place].name)
        items[place] = renderer.assigned(Fragment(items[place], table.columns[place].type), type_, destination).sql
        table.lock(tx)
        sql = f"SELECT _rowid_, {', '.join(items)} FROM {table.sql} ORDER BY _rowid_"
        rows: list[Row] = binding.plan(sql, renderer, []).rows(frame)
        if not nullable and any(row[place + 1] is None for row in rows):
            raise SqlServerError(515, name, table.name, "UPDATE")
        frame.instance.alter_table(tx, table, changed, rows)

    return work


def _remove(table: Table, body: TableBody, constraint: Constraint) -> None:
    """Take a constraint out of a table's body."""
    match constraint.type:
        case "PK":
            body.primary_key, body.primary_key_name = [], ""
        case "UQ":
            names = [name for name, _ in table.unique_keys()]
            body.unique.remove(table.unique[names.index(constraint.name)])
        case "D":
            [place] = constraint.places
            body.columns[place] = replace(body.columns[place], default=None, default_name="")
        case "C":
            body.checks = [check for check in body.checks if check.name != constraint.name]
        case _:
            body.references = [reference for reference in body.references if reference.name != constraint.name]


def _enabling(name: str) -> Alteration:
    """`CHECK CONSTRAINT`: they all are enabled."""

    def work(frame: Frame, tx: Transaction, table: Table) -> None:
        if name.upper() != "ALL" and name.lower() not in [constraint.name.lower() for constraint in constraints(table)]:
            raise SqlServerError(4917, name)

    return work


def replace_table(frame: Frame, tx: Transaction, table: Table, body: TableBody) -> None:
    """Put a table with other keys or constraints, and the same columns and rows, in the place of a table."""
    where = table.schema, table.name, table.database_name
    changed = Table.from_body(*table.identifier, *where, body, table.create_time_ns)
    table.lock(tx)
    rows: list[Row] = frame.sqlite.rows(f"SELECT {table.all_columns} FROM {table.sql} ORDER BY _rowid_")
    frame.instance.alter_table(tx, table, changed, rows)


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
        names += [*(check.name for check in self.checks), *(reference.name for reference in self.references)]
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
        body = TableBody(columns, key.primary_key, key.primary_key_name, unique, table.indexes + self.indexes)
        body.checks, body.references = table.checks + self.checks, table.references + self.references
        body.primary_key_is_clustered = key.primary_key_is_clustered
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
        destination = table.place_of(column.name)
        values.append(default_value(renderer, column.default if has_default else None, column.type, destination).sql)
    sql = f"SELECT {', '.join([table.all_columns, *values])} FROM {table.sql} ORDER BY _rowid_"
    rows: list[Row] = binding.plan(sql, renderer, []).rows(frame)
    for column in new if rows else ():
        if column.type == ROWVERSION:
            raise UnsupportedSyntax("a rowversion column that is added to rows", line)
        if not column.nullable and column.default is None and column.identity is None:
            raise SqlServerError(4901, column.name, table.name)
        if column.identity is not None:
            seed, at = column.identity[0], changed.place(column.name) + 1
            check_number(column.type, seed + len(rows) - 1)
            rows = [(number, *row[1:at], number, *row[at + 1 :]) for number, row in enumerate(rows, seed)]
    return rows


def _drop(frame: Frame, tx: Transaction, table: Table) -> None:
    rules.refuse_referenced(frame, table, 3726)
    frame.instance.drop_table(tx, table)


definitions.register_drop_of_found("TABLE", "table", lambda frame, name: frame.user_table(name), _drop)


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
        rules.refuse_referenced(frame, table, 4712)
        frame.instance.truncate_table(tx, table)
        frame.session.row_count = 0

    return definitions.checked(altering(node.table, 1088), writing(work))


def altering(name: definitions.ObjectName, error: int, *arguments: str) -> definitions.Check:
    """The check for ALTER on a table, with the error for who lacks it. A missing table is left to the statement."""

    def check(frame: Frame, guard: Guard) -> None:
        securable = securables.find(frame, "OBJECT", name)
        if securable is not None and not securables.is_held(frame, securable, "ALTER"):
            raise SqlServerError(error, *arguments, ".".join(name))

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


def variable_body(parser: Parser) -> TableBody:
    """The body of a table variable or a type of tables: no constraint has a name there, or refers to another table."""
    tokens = parser.tokens
    begin = tokens.position
    body = table_body(parser)
    for token in tokens.all[begin : tokens.position]:
        if token.token_type not in QUOTED and token.text.upper() in ("CONSTRAINT", "FOREIGN", "REFERENCES"):
            tokens.fail(token)
    return body


def _element(parser: Parser, body: TableBody) -> None:
    tokens = parser.tokens
    constraint = tokens.name() if tokens.accept("CONSTRAINT") else ""
    if _at_key(parser):
        _key_constraint(parser, body, constraint)
    elif _rule(parser, body, constraint):
        pass
    elif not constraint and tokens.at("INDEX"):
        _index(parser, body)
    elif constraint:
        tokens.fail()
    else:
        body.columns.append(_column(parser, body))


def _at_key(parser: Parser) -> bool:
    return parser.tokens.word() in ("PRIMARY", "UNIQUE")


def _key(parser: Parser) -> tuple[bool, bool | None]:
    """Parse `PRIMARY KEY | UNIQUE [ CLUSTERED | NONCLUSTERED ]`: whether it is the primary key, and if it says so
    whether it is clustered."""
    tokens = parser.tokens
    primary = tokens.accept("PRIMARY", "KEY")
    if not primary:
        tokens.expect("UNIQUE")
    return primary, tokens.accept("CLUSTERED") or (False if tokens.accept("NONCLUSTERED") else None)


def _key_constraint(parser: Parser, body: TableBody, name: str, column: str = "") -> None:
    """Parse a key of a table, or of one column. That of a table may follow a column without a comma."""
    primary, is_clustered = _key(parser)
    names = key_columns(parser) if not column or parser.tokens.at("(") else [column]
    index_options(parser)
    if primary:
        body.primary_key, body.primary_key_name, body.primary_key_is_clustered = names, name, is_clustered
    else:
        body.unique.append((name, names))


def _index(parser: Parser, body: TableBody, column: str = "") -> None:
    """Parse `INDEX name [ UNIQUE ] [ [NON]CLUSTERED ] [ ( column [, ...] ) ]` of a table, or of one column."""
    tokens = parser.tokens
    tokens.expect("INDEX")
    name, is_unique, is_clustered = tokens.name(), tokens.accept("UNIQUE"), tokens.accept("CLUSTERED")
    tokens.accept("NONCLUSTERED")
    ordered = ordered_columns(parser) if not column or tokens.at("(") else [(column, False)]
    names, descending = [name for name, _ in ordered], [name for name, descends in ordered if descends]
    body.indexes.append(Index(name, names, is_unique, is_clustered, descending))
    index_options(parser)


def _rule(parser: Parser, body: TableBody, name: str, column: str = "") -> bool:
    """Parse a CHECK or FOREIGN KEY constraint of a table, or of one column; False if there is none.

    CHECK [ NOT FOR REPLICATION ] ( condition )
    [ FOREIGN KEY [ ( column [, ...] ) ] ] REFERENCES table [ ( column [, ...] ) ]
        [ ON { DELETE | UPDATE } NO ACTION ] [ NOT FOR REPLICATION ]
    """
    tokens = parser.tokens
    if tokens.accept("CHECK"):
        tokens.accept("NOT", "FOR", "REPLICATION")
        tokens.expect("(")
        condition = tokens.take_until((")",))
        tokens.expect(")")
        body.checks.append(Check(name, tokens.text[condition[0].start : condition[-1].end + 1], column))
        return True
    if tokens.accept("FOREIGN", "KEY"):
        columns = key_columns(parser) if tokens.at("(") or not column else [column]
        tokens.expect("REFERENCES")
    elif column and tokens.accept("REFERENCES"):
        columns = [column]
    else:
        return False
    body.references.append(_reference(parser, name, columns))
    return True


def _reference(parser: Parser, name: str, columns: list[str]) -> Reference:
    tokens = parser.tokens
    parts = tokens.object_name()
    keys = key_columns(parser) if tokens.at("(") else []
    while tokens.accept("ON"):
        tokens.choose("DELETE", "UPDATE")
        if not tokens.accept("NO", "ACTION"):
            tokens.unsupported(f"foreign keys with {tokens.word()}")
    tokens.accept("NOT", "FOR", "REPLICATION")
    schema = parts[-2] if len(parts) > 1 and parts[-2] else "dbo"
    return Reference(name, columns, (schema, parts[-1]), keys)


def key_columns(parser: Parser) -> list[str]:
    return [name for name, _ in ordered_columns(parser)]


def ordered_columns(parser: Parser) -> list[tuple[str, bool]]:
    """`( column [ ASC | DESC ] [, ...] )`: names, and whether they descend."""
    tokens = parser.tokens

    def column() -> tuple[str, bool]:
        name = tokens.name()
        return name, not tokens.accept("ASC") and tokens.accept("DESC")

    tokens.expect("(")
    columns = tokens.comma_separated(column)
    tokens.expect(")")
    return columns


# Options of an index and their values, none for a number; those that would change more than where and how it lies
_SWITCH = ("ON", "OFF")
_INDEX_OPTIONS: dict[str, tuple[str, ...]] = {
    "ALLOW_PAGE_LOCKS": _SWITCH,
    "ALLOW_ROW_LOCKS": _SWITCH,
    "DATA_COMPRESSION": ("NONE", "ROW", "PAGE"),
    "DROP_EXISTING": _SWITCH,
    "FILLFACTOR": (),
    "IGNORE_DUP_KEY": _SWITCH,
    "MAXDOP": (),
    "ONLINE": _SWITCH,
    "OPTIMIZE_FOR_SEQUENTIAL_KEY": _SWITCH,
    "PAD_INDEX": _SWITCH,
    "RESUMABLE": _SWITCH,
    "SORT_IN_TEMPDB": _SWITCH,
    "STATISTICS_INCREMENTAL": _SWITCH,
    "STATISTICS_NORECOMPUTE": _SWITCH,
    "XML_COMPRESSION": _SWITCH,
}
_UNSUPPORTED_OPTIONS = ("DROP_EXISTING", "IGNORE_DUP_KEY", "RESUMABLE")


def index_options(parser: Parser, statement: str = "CREATE TABLE") -> None:
    """`[ WITH ( option = value [, ...] ) | WITH FILLFACTOR = number ] [ ON filegroup ]` of an index: what changes only
    where and how it lies has no effect here."""
    tokens = parser.tokens
    if tokens.accept("WITH", "("):
        tokens.comma_separated(lambda: _index_option(tokens, statement))
        tokens.expect(")")
    elif tokens.at("WITH", "FILLFACTOR"):  # as in SQL Server 2000
        tokens.advance()
        _index_option(tokens, statement)
    definitions.filegroup(tokens)


def _index_option(tokens: Tokens, statement: str) -> None:
    line, option = tokens.line, tokens.word()
    if option.isidentifier() and option not in _INDEX_OPTIONS and tokens.word(1) == "=":
        raise SqlServerError(155, tokens.all[tokens.position].text, statement, line=line)
    tokens.choose(*_INDEX_OPTIONS)
    tokens.expect("=")
    if values := _INDEX_OPTIONS[option]:
        if tokens.choose(*values) == "ON" and option in _UNSUPPORTED_OPTIONS:
            tokens.unsupported(f"{option} = ON")
        return
    number = tokens.integer()
    if option == "FILLFACTOR" and not 1 <= number <= 100:
        raise SqlServerError(129, number, line=line)


def _is_rowversion(tokens: Tokens, name: str) -> bool:
    """Take `rowversion` or `timestamp`; a column called timestamp needs no type."""
    without_type = name.lower() == "timestamp" and (tokens.at(",") or tokens.at(")"))
    return without_type or tokens.accept("ROWVERSION") or tokens.accept("TIMESTAMP")


def _column(parser: Parser, body: TableBody) -> ColumnDefinition:
    tokens = parser.tokens
    name = tokens.name()
    if tokens.at("AS"):
        tokens.unsupported("computed columns")
    type_ = ROWVERSION if _is_rowversion(tokens, name) else tokens.data_type()
    if type_ == VARIANT:
        tokens.unsupported("columns of type sql_variant")
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
        elif identity is None and tokens.accept("IDENTITY"):
            identity = _identity(parser)
            nullable = False
        elif default is None and tokens.accept("DEFAULT"):
            default, default_name = _default(parser), constraint
        elif tokens.accept("COLLATE"):
            collation(parser)
        elif _at_key(parser):
            _key_constraint(parser, body, constraint, name)
        elif not constraint and tokens.at("INDEX"):
            _index(parser, body, name)
        elif not _rule(parser, body, constraint, name):
            if constraint:
                tokens.fail()
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


DEFAULT_ENDS = frozenset(
    ", CONSTRAINT NOT NULL IDENTITY PRIMARY UNIQUE COLLATE CHECK FOREIGN REFERENCES FOR WITH".split()  # noqa: SIM905
)


def _default(parser: Parser) -> str:
    tokens = parser.tokens
    if tokens.accept("NULL"):
        return "NULL"
    default_tokens = tokens.take_until(DEFAULT_ENDS)
    tree = parse_expression(tokens, default_tokens).tree
    if (column := tree.find(exp.Column)) is not None:
        raise SqlServerError(128, column.name, line=default_tokens[0].line)
    return tokens.text[default_tokens[0].start : default_tokens[-1].end + 1]
