"""CREATE, ALTER and DROP of tables and databases: nodes and grammars."""

from __future__ import annotations

from dataclasses import dataclass

from harness.embedded.tsql.storage.columns import ColumnDefinition, TableBody
from harness.embedded.tsql.syntax.files import parse_file_clause
from harness.embedded.tsql.text.parser import Parser, Statement


@dataclass(frozen=True, slots=True)
class CreateTable(Statement):
    name: tuple[str, ...]
    body: TableBody


@dataclass(frozen=True, slots=True)
class AlterTable(Statement):
    """`ADD column` or `DROP COLUMN column`."""

    name: tuple[str, ...]
    add: list[ColumnDefinition]
    drop: list[str]


@dataclass(frozen=True, slots=True)
class CreateIndex(Statement):
    """Accepted and not kept: SQLite plans without it; a UNIQUE one is refused."""

    table: tuple[str, ...]
    columns: list[str]


@dataclass(frozen=True, slots=True)
class DropObject(Statement):
    kind: str  # TABLE, PROCEDURE, ...
    names: list[tuple[str, ...]]
    if_exists: bool


@dataclass(frozen=True, slots=True)
class CreateDatabase(Statement):
    name: str


@dataclass(frozen=True, slots=True)
class AlterDatabase(Statement):
    """Options other than the broker's are accepted and without effect here."""

    name: str  # "" for CURRENT
    option: str
    value: str
    rollback_immediate: bool


@dataclass(frozen=True, slots=True)
class DropDatabase(Statement):
    names: list[str]
    if_exists: bool


def parse_create_table(parser: Parser) -> Statement:
    """`CREATE TABLE name ( column type [ NULL | NOT NULL | IDENTITY | DEFAULT | PRIMARY KEY | UNIQUE ] [, ...] )`"""
    name = parser.tokens.object_name()
    if name[-1].startswith("#"):
        parser.tokens.unsupported("temporary tables")
    body = table_body(parser)
    if parser.tokens.accept("ON"):
        parser.tokens.name()
    return CreateTable(parser.line, name, body)


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
        _options(parser)
        if primary:
            body.primary_key, body.primary_key_name = names, constraint
        else:
            body.unique.append(names)
    elif constraint or tokens.word() in ("CHECK", "FOREIGN KEY", "INDEX"):
        tokens.unsupported(f"{tokens.word() or 'this'} constraint")
    else:
        body.columns.append(column_definition(parser, body))


def _at_key(parser: Parser) -> bool:
    return parser.tokens.word() in ("PRIMARY KEY", "PRIMARY", "UNIQUE")


def _key(parser: Parser) -> bool:
    """Reads `PRIMARY KEY | UNIQUE [ CLUSTERED | NONCLUSTERED ]`; whether it is the primary key."""
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


def _options(parser: Parser) -> None:
    """`WITH ( option [, ...] )` and `ON filegroup` of an index change nothing here."""
    tokens = parser.tokens
    if tokens.at("WITH", "("):
        tokens.advance()
        tokens.expect("(")
        while not tokens.accept(")"):
            tokens.advance()
    if tokens.accept("ON"):
        tokens.name()


def column_definition(parser: Parser, body: TableBody) -> ColumnDefinition:
    tokens = parser.tokens
    name = tokens.name()
    if tokens.at("AS"):
        tokens.unsupported("computed columns")
    type_ = tokens.data_type()
    nullable, unique = True, False
    identity: tuple[int, int] | None = None
    default: str | None = None
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
            default = _default(parser)
        elif tokens.accept("COLLATE"):
            tokens.name()
        elif tokens.accept("ROWGUIDCOL"):
            pass
        elif _at_key(parser):
            if _key(parser):
                body.primary_key, body.primary_key_name = [name], constraint
                nullable = False
            else:
                unique = True
            _options(parser)
        else:
            return ColumnDefinition(name, type_, nullable, identity, default, unique)


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


DEFAULT_ENDS = (",", "CONSTRAINT", "NOT", "NULL", "IDENTITY", "PRIMARY KEY", "PRIMARY", "UNIQUE", "COLLATE", "CHECK")


def _default(parser: Parser) -> str:
    tokens = parser.tokens
    if tokens.accept("NULL"):
        return "NULL"
    taken = tokens.take_until(DEFAULT_ENDS)
    return tokens.text[taken[0].start : taken[-1].end + 1]


def parse_alter_table(parser: Parser) -> Statement:
    """`ALTER TABLE name { ADD column type ... [, ...] | DROP COLUMN [ IF EXISTS ] column [, ...] }`"""
    tokens, line = parser.tokens, parser.line
    name = tokens.object_name()
    if tokens.accept("ADD"):
        if tokens.word() in ("CONSTRAINT", "PRIMARY KEY", "UNIQUE", "CHECK", "FOREIGN KEY", "DEFAULT"):
            tokens.unsupported("ALTER TABLE ADD CONSTRAINT")
        added = tokens.comma_separated(lambda: column_definition(parser, TableBody()))
        return AlterTable(line, name, added, [])
    if tokens.accept("DROP"):
        tokens.expect("COLUMN")
        tokens.accept("IF", "EXISTS")
        return AlterTable(line, name, [], tokens.comma_separated(tokens.name))
    tokens.unsupported(f"ALTER TABLE {tokens.word()}")


def parse_create_index(parser: Parser) -> Statement:
    """`CREATE [ CLUSTERED | NONCLUSTERED ] INDEX name ON table ( column [, ...] )`"""
    tokens, line = parser.tokens, parser.line
    tokens.name()
    tokens.expect("ON")
    table = tokens.object_name()
    columns = _key_columns(parser)
    if tokens.accept("INCLUDE"):
        _key_columns(parser)
    _options(parser)
    return CreateIndex(line, table, columns)


def parse_drop_table(parser: Parser) -> Statement:
    """`DROP TABLE [ IF EXISTS ] name [, ...]`"""
    if_exists = parser.tokens.accept("IF", "EXISTS")
    return DropObject(parser.line, "TABLE", parser.tokens.comma_separated(parser.tokens.object_name), if_exists)


def parse_create_database(parser: Parser) -> Statement:
    """`CREATE DATABASE name`; files, sizes and collations have no meaning here and are not accepted."""
    name = parser.tokens.name()
    if parser.tokens.accept("COLLATE"):
        parser.tokens.name()
    return CreateDatabase(parser.line, name)


def parse_drop_database(parser: Parser) -> Statement:
    """`DROP DATABASE [ IF EXISTS ] name [, ...]`"""
    if_exists = parser.tokens.accept("IF", "EXISTS")
    return DropDatabase(parser.line, parser.tokens.comma_separated(parser.tokens.name), if_exists)


BROKER_OPTIONS = frozenset({"ENABLE_BROKER", "DISABLE_BROKER", "NEW_BROKER", "ERROR_BROKER_CONVERSATIONS"})
# Accepted because scripts set them everywhere; there is nothing in this server that they would change.
DATABASE_OPTIONS = frozenset(
    """
    ALLOW_SNAPSHOT_ISOLATION ANSI_NULLS AUTO_CLOSE AUTO_CREATE_STATISTICS AUTO_SHRINK AUTO_UPDATE_STATISTICS
    COMPATIBILITY_LEVEL DELAYED_DURABILITY HONOR_BROKER_PRIORITY MULTI_USER PAGE_VERIFY QUERY_STORE
    QUOTED_IDENTIFIER READ_COMMITTED_SNAPSHOT READ_WRITE RECOVERY RESTRICTED_USER SINGLE_USER
    TARGET_RECOVERY_TIME TRUSTWORTHY
    """.split()  # noqa: SIM905
)


def parse_alter_database(parser: Parser) -> Statement:
    """`ALTER DATABASE { name | CURRENT } SET option [ = ] [ value ] [ WITH { ROLLBACK IMMEDIATE | NO_WAIT | ... } ]`"""
    tokens, line = parser.tokens, parser.line
    name = "" if tokens.accept("CURRENT") else tokens.name()
    if not tokens.accept("SET"):
        return parse_file_clause(parser, line, name)
    option = tokens.advance().text.upper()
    if option not in BROKER_OPTIONS and option not in DATABASE_OPTIONS:
        tokens.unsupported(f"ALTER DATABASE SET {option}")
    tokens.accept("=")
    words = []
    while not (tokens.at_end or tokens.at(";") or tokens.at("WITH")):
        words.append(tokens.advance().text.upper())
    rollback_immediate = False
    if tokens.accept("WITH"):
        if tokens.accept("ROLLBACK", "AFTER"):
            tokens.integer()
            tokens.accept("SECONDS")
            rollback_immediate = True
        elif tokens.accept("ROLLBACK", "IMMEDIATE"):
            rollback_immediate = True
        else:
            tokens.expect("NO_WAIT")
    return AlterDatabase(line, name, option, " ".join(words), rollback_immediate)
