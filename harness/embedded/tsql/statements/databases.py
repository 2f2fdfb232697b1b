"""CREATE, ALTER and DROP DATABASE, USE."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from harness.embedded.broker import ddl_databases
from harness.embedded.broker.database import Database
from harness.embedded.broker.transactions import Transaction
from harness.embedded.errors import SqlServerError
from harness.embedded.tsql.instance import database_files
from harness.embedded.tsql.permissions.grants import Securable
from harness.embedded.tsql.permissions.guard import Guard
from harness.embedded.tsql.session.frame import Frame
from harness.embedded.tsql.session.steps import Scope, Step, plain, writing
from harness.embedded.tsql.statements.registry import register
from harness.embedded.tsql.text.parser import Parser, Statement
from harness.embedded.tsql.text.tokens import Tokens


def _outside_transactions(frame: Frame, statement: str) -> None:
    if frame.session.tx is not None:
        raise SqlServerError(226, statement)


@dataclass(frozen=True, slots=True)
class CreateDatabase(Statement):
    name: str


def parse_create_database(parser: Parser) -> Statement:
    """`CREATE DATABASE name [ COLLATE collation ]`; the collation has no effect."""
    name = parser.tokens.name()
    if parser.tokens.accept("COLLATE"):
        parser.tokens.name()
    return CreateDatabase(parser.line, name)


def _check_create(node: Any, frame: Frame, guard: Guard) -> None:
    if not guard.allows_on_server("CREATE ANY DATABASE"):
        raise SqlServerError(262, "CREATE DATABASE", "master")


def compile_create_database(node: CreateDatabase, scope: Scope) -> Step:
    def work(frame: Frame, tx: Transaction) -> None:
        _outside_transactions(frame, "CREATE DATABASE")
        if node.name.lower() in frame.instance.engine.databases:
            raise SqlServerError(1801, node.name)
        created = ddl_databases.create_database(tx, frame.instance.engine.databases, node.name)
        if frame.session.guard is not None:
            owner = frame.session.guard.login.lower()
            frame.instance.grants.set_owner(tx, Securable(created.database_id, "DATABASE", 0), owner)
        frame.instance.version += 1

    return writing(work)


register("CREATE DATABASE", parse_create_database, CreateDatabase, compile_create_database, check=_check_create)


BROKER_OPTIONS = frozenset({"ENABLE_BROKER", "DISABLE_BROKER", "NEW_BROKER", "ERROR_BROKER_CONVERSATIONS"})

# Accepted because many scripts set them; they have no effect here, except HONOR_BROKER_PRIORITY.
DATABASE_OPTIONS = frozenset(
    """
    ALLOW_SNAPSHOT_ISOLATION AUTO_CLOSE AUTO_SHRINK
    COMPATIBILITY_LEVEL DELAYED_DURABILITY HONOR_BROKER_PRIORITY MULTI_USER PAGE_VERIFY QUERY_STORE
    READ_COMMITTED_SNAPSHOT READ_WRITE RECOVERY SINGLE_USER
    TRUSTWORTHY
    """.split()  # noqa: SIM905
)


@dataclass(frozen=True, slots=True)
class AlterDatabase(Statement):
    """`ALTER DATABASE name SET option`"""

    name: str  # "" for CURRENT
    option: str
    value: str
    rollback_immediate: bool


def parse_alter_database(parser: Parser) -> Statement:
    """`ALTER DATABASE { name | CURRENT } SET option [ = ] [ value ] [ WITH { ROLLBACK IMMEDIATE | NO_WAIT | ... } ]`"""
    tokens, line = parser.tokens, parser.line
    name = "" if tokens.accept("CURRENT") else tokens.name()
    if not tokens.accept("SET"):
        return _parse_files(parser, line, name)
    option = tokens.advance().text.upper()
    if option not in BROKER_OPTIONS and option not in DATABASE_OPTIONS:
        tokens.unsupported(f"ALTER DATABASE SET {option}")
    tokens.accept("=")
    words = []
    while not (tokens.at_end or tokens.at(";") or tokens.at("WITH")):
        words.append(tokens.advance().text.upper())
    rollback_immediate = False
    if tokens.accept("WITH"):
        if tokens.accept("ROLLBACK", "IMMEDIATE"):
            rollback_immediate = True
        else:
            tokens.expect("NO_WAIT")
    return AlterDatabase(line, name, option, " ".join(words), rollback_immediate)


def _check_alter(node: Any, frame: Frame, guard: Guard) -> None:
    database = frame.instance.database(node.name) if node.name else frame.database
    if not guard.allows(database, "DATABASE", 0, "ALTER"):
        raise SqlServerError(5011, database.name)


def compile_alter_database(node: AlterDatabase, scope: Scope) -> Step:
    def work(frame: Frame, tx: Transaction) -> None:
        instance = frame.instance
        database = instance.database(node.name) if node.name else frame.database
        if node.rollback_immediate:
            _roll_back_others(frame, database)
        if node.option in BROKER_OPTIONS:
            engine = instance.engine
            ddl_databases.set_broker(tx, engine.databases, database, engine.delivery, engine.entropy, node.option)
            instance.version += 1
        elif node.option == "HONOR_BROKER_PRIORITY":
            ddl_databases.set_honor_broker_priority(tx, database.catalog, node.value == "ON")

    return writing(work)


def _roll_back_others(frame: Frame, database: Database) -> None:
    """WITH ROLLBACK IMMEDIATE. SQL Server disconnects the other sessions of the database. Here idle sessions lose their
    transaction, and running statements finish."""
    for session in frame.instance.sessions.values():
        if session.database is database and session is not frame.session and not session.is_running:
            session.rollback()


register("ALTER DATABASE", parse_alter_database, AlterDatabase, compile_alter_database, check=_check_alter)


# Factors from units to pages of 8 KB; a bare number means megabytes.
_PAGES = {"KB": 1 / 8, "": 128, "MB": 128, "GB": 128 * 1024, "TB": 128 * 1024 * 1024}


@dataclass(frozen=True, slots=True)
class FileSpecification:
    """`( NAME = n [ , FILENAME = 'p' ] [ , SIZE = s ] [ , MAXSIZE = m | UNLIMITED ] [ , FILEGROWTH = g | g% ] )`

    None: not specified; sizes are in pages.
    """

    name: str
    physical_name: str | None = None
    size: int | None = None
    max_size: int | None = None
    growth: int | None = None
    is_percent_growth: bool = False


@dataclass(frozen=True, slots=True)
class AlterDatabaseFiles(Statement):
    """`ALTER DATABASE name { ADD FILE spec [ , ... ] | ADD LOG FILE spec [ , ... ] | MODIFY FILE spec }`"""

    name: str  # "" for CURRENT
    verb: str  # ADD FILE, ADD LOG FILE or MODIFY FILE
    files: list[FileSpecification]


def _parse_files(parser: Parser, line: int, name: str) -> Statement:
    """Parse what follows `ALTER DATABASE name` instead of SET."""
    tokens = parser.tokens
    if tokens.accept("MODIFY", "FILE"):
        return AlterDatabaseFiles(line, name, "MODIFY FILE", [_specification(tokens)])
    for verb in ("ADD LOG FILE", "ADD FILE"):
        if tokens.accept(*verb.split()):
            files = tokens.comma_separated(lambda: _specification(tokens))
            if any(file.physical_name is None for file in files):
                tokens.fail()
            return AlterDatabaseFiles(line, name, verb, files)
    tokens.unsupported(f"ALTER DATABASE {tokens.word()} {tokens.word(1)}".rstrip())


def _specification(tokens: Tokens) -> FileSpecification:
    given: dict[str, int | str | bool | None] = {}

    def option() -> None:
        word = tokens.choose("NAME", "FILENAME", "SIZE", "MAXSIZE", "FILEGROWTH")
        tokens.expect("=")
        if word == "NAME":
            given["name"] = tokens.string() if tokens.at_string() else tokens.name()
        elif word == "FILENAME":
            given["physical_name"] = tokens.string()
        elif word == "MAXSIZE" and tokens.accept("UNLIMITED"):
            given["max_size"] = -1
        elif word == "FILEGROWTH":
            number = tokens.integer()
            given["is_percent_growth"] = tokens.accept("%")
            given["growth"] = number if given["is_percent_growth"] else _pages(tokens, number)
        else:
            given["size" if word == "SIZE" else "max_size"] = _pages(tokens, tokens.integer())

    tokens.expect("(")
    tokens.comma_separated(option)
    tokens.expect(")")
    if "name" not in given:
        tokens.fail()
    return FileSpecification(**given)  # type: ignore[arg-type]


def _pages(tokens: Tokens, number: int) -> int:
    unit = next((word for word in ("KB", "MB", "GB", "TB") if tokens.accept(word)), "")
    return int(number * _PAGES[unit])


def compile_alter_database_files(node: AlterDatabaseFiles, scope: Scope) -> Step:
    def work(frame: Frame, tx: Transaction) -> None:
        if frame.session.tx is not None:
            raise SqlServerError(226, "ALTER DATABASE")
        instance = frame.instance
        database = instance.database(node.name) if node.name else frame.database
        for given in node.files:
            changes = {
                name: value
                for name in ("physical_name", "size", "max_size", "growth")
                if (value := getattr(given, name)) is not None
            }
            if given.growth is not None:
                changes["is_percent_growth"] = given.is_percent_growth
            if node.verb == "MODIFY FILE":
                instance.files.modify(tx, database, given.name, changes)
                continue
            kind: database_files.FileType = "LOG" if "LOG" in node.verb else "ROWS"
            instance.files.add(tx, database, database_files.File(0, kind, given.name, **changes))

    return writing(work)


register("ALTER DATABASE", parse_alter_database, AlterDatabaseFiles, compile_alter_database_files, check=_check_alter)


@dataclass(frozen=True, slots=True)
class DropDatabase(Statement):
    names: list[str]
    if_exists: bool


def parse_drop_database(parser: Parser) -> Statement:
    """`DROP DATABASE [ IF EXISTS ] name [, ...]`"""
    if_exists = parser.tokens.accept("IF", "EXISTS")
    return DropDatabase(parser.line, parser.tokens.comma_separated(parser.tokens.name), if_exists)


def _check_drop(node: DropDatabase, frame: Frame, guard: Guard) -> None:
    for name in node.names:
        database = frame.instance.engine.databases.get(name.lower())
        if database is not None and not guard.allows(database, "DATABASE", 0, "CONTROL"):
            raise SqlServerError(3701, "database", name)


def compile_drop_database(node: DropDatabase, scope: Scope) -> Step:
    def work(frame: Frame, tx: Transaction) -> None:
        _outside_transactions(frame, "DROP DATABASE")
        instance = frame.instance
        for name in node.names:
            database = instance.engine.databases.get(name.lower())
            if database is None:
                if node.if_exists:
                    continue
                raise SqlServerError(3701, "database", name)
            # Activated tasks of the database end with their queues.
            if any(s.database is database and s.is_user_process for s in instance.sessions.values()):
                raise SqlServerError(3702, name)
            instance.drop_objects(tx, database)
            instance.files.forget(tx, database)
            instance.grants.forget_database(tx, database.database_id)
            ddl_databases.drop_database(tx, instance.engine.databases, instance.engine.delivery, name)
            instance.version += 1

    return writing(work)


register("DROP DATABASE", parse_drop_database, DropDatabase, compile_drop_database, check=_check_drop)


@dataclass(frozen=True, slots=True)
class Use(Statement):
    database: str


def parse_use(parser: Parser) -> Statement:
    """`USE database`"""
    return Use(parser.line, parser.tokens.name())


def compile_use(node: Use, scope: Scope) -> Step:
    def run(frame: Frame) -> None:
        if frame.depth and frame.procedure:
            raise SqlServerError(154, "USE database")
        frame.session.use(node.database, frame.sink)
        frame.database = frame.session.database

    return plain(run)


register("USE", parse_use, Use, compile_use)
