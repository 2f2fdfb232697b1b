"""CREATE, ALTER and DROP DATABASE, USE, and the extended properties of a database."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from harness.embedded.broker import ddl_databases
from harness.embedded.broker.catalog import SHOWN_OPTIONS
from harness.embedded.broker.database import Database
from harness.embedded.broker.transactions import Transaction
from harness.embedded.errors import SqlServerError, UnsupportedSyntax
from harness.embedded.runtime.tasks import MILLISECOND, SECOND, Delay, Waiting
from harness.embedded.sqltypes import Parameter, ResultSink
from harness.embedded.tsql.catalog.database_views import USER_ACCESSES
from harness.embedded.tsql.instance.properties import File, FileType, compatibility_levels
from harness.embedded.tsql.permissions.guard import Guard, is_allowed_on_database
from harness.embedded.tsql.permissions.rights import Securable
from harness.embedded.tsql.session.session import Frame, Session
from harness.embedded.tsql.session.steps import Scope, Step, plain, writing
from harness.embedded.tsql.statements import definitions
from harness.embedded.tsql.statements.registry import Outputs, arguments, register, register_procedure
from harness.embedded.tsql.statements.tables import collation
from harness.embedded.tsql.text.parser import Parser, Statement
from harness.embedded.tsql.text.tokens import Tokens


@definitions.define("CREATE DATABASE")
def create_database(parser: Parser) -> definitions.Definition:
    """`CREATE DATABASE name [ COLLATE collation ]`"""
    name = parser.tokens.name()
    if parser.tokens.accept("COLLATE"):
        collation(parser)

    def check(frame: Frame, guard: Guard) -> None:
        if not guard.allows_on_server("CREATE ANY DATABASE"):
            raise SqlServerError(262, "CREATE DATABASE", "master")

    def work(frame: Frame, tx: Transaction) -> None:
        definitions.outside_transactions(frame, "CREATE DATABASE")
        created = ddl_databases.create_database(tx, frame.instance.engine.databases, name)
        if frame.session.guard is not None:
            owner = frame.session.guard.login.lower()
            frame.instance.grants.set_owner(tx, Securable(created.database_id, "DATABASE", 0), owner)

    return definitions.Definition(parser.line, check, work)


BROKER_OPTIONS = ("ENABLE_BROKER", "DISABLE_BROKER", "NEW_BROKER", "ERROR_BROKER_CONVERSATIONS")
# They need the database for themselves: a script that waits for ever in production shall do so here.
EXCLUSIVE_OPTIONS = ("ENABLE_BROKER", "DISABLE_BROKER", "NEW_BROKER", "READ_COMMITTED_SNAPSHOT", "SINGLE_USER")
ALONE_POLL_NS = 20 * MILLISECOND


def _without_value(tokens: Tokens) -> str:
    return ""


def _one_of(*words: str) -> Callable[[Tokens], str]:
    return lambda tokens: tokens.choose(*words)


def _query_store(tokens: Tokens) -> str:
    tokens.accept("=")
    value = tokens.choose("ON", "OFF")
    if tokens.at("("):
        tokens.unsupported("ALTER DATABASE SET QUERY_STORE with options")
    return value


def _after_equals(*words: str) -> Callable[[Tokens], str]:
    def read(tokens: Tokens) -> str:
        tokens.expect("=")
        return tokens.choose(*words)

    return read


def _no_filestream(tokens: Tokens) -> str:
    tokens.expect("(", "NON_TRANSACTED_ACCESS", "=")
    value = _only("OFF", "FILESTREAM")(tokens)
    tokens.expect(")")
    return value


def _only(value: str, option: str) -> Callable[[Tokens], str]:
    def read(tokens: Tokens) -> str:
        if not tokens.accept(value):
            tokens.unsupported(f"ALTER DATABASE SET {option} {tokens.word()}")
        return value

    return read


def _duration(tokens: Tokens) -> str:
    tokens.expect("=")
    return f"{tokens.integer()} {tokens.choose('SECONDS', 'MINUTES')}"


def _compatibility_level(tokens: Tokens) -> str:
    tokens.expect("=")
    return str(tokens.integer())


# Another value of these would change what statements mean.
ONLY_OFF = ("CURSOR_CLOSE_ON_COMMIT", "DB_CHAINING", "NUMERIC_ROUNDABORT", "RECURSIVE_TRIGGERS")
# What reads the value of each option; READ_WRITE and RECURSIVE_TRIGGERS OFF are how every database is,
# and nothing depends on TARGET_RECOVERY_TIME.
DATABASE_OPTIONS: dict[str, Callable[[Tokens], str]] = {
    **dict.fromkeys((*BROKER_OPTIONS, *USER_ACCESSES, "READ_WRITE"), _without_value),
    **dict.fromkeys(
        """
        ALLOW_SNAPSHOT_ISOLATION ANSI_NULL_DEFAULT ANSI_NULLS ANSI_PADDING ANSI_WARNINGS ARITHABORT AUTO_CLOSE
        AUTO_CREATE_STATISTICS AUTO_SHRINK AUTO_UPDATE_STATISTICS AUTO_UPDATE_STATISTICS_ASYNC CONCAT_NULL_YIELDS_NULL
        DATE_CORRELATION_OPTIMIZATION HONOR_BROKER_PRIORITY QUOTED_IDENTIFIER READ_COMMITTED_SNAPSHOT TRUSTWORTHY
        """.split(),  # noqa: SIM905
        _one_of("ON", "OFF"),
    ),
    **{option: _only("OFF", option) for option in ONLY_OFF},
    "CURSOR_DEFAULT": _only("GLOBAL", "CURSOR_DEFAULT"),
    "PARAMETERIZATION": _one_of("SIMPLE", "FORCED"),
    "FILESTREAM": _no_filestream,
    "ACCELERATED_DATABASE_RECOVERY": _after_equals("ON", "OFF"),
    "COMPATIBILITY_LEVEL": _compatibility_level,
    "DELAYED_DURABILITY": _after_equals("DISABLED", "ALLOWED", "FORCED"),
    "PAGE_VERIFY": _one_of("CHECKSUM", "TORN_PAGE_DETECTION", "NONE"),
    "QUERY_STORE": _query_store,
    "RECOVERY": _one_of("FULL", "BULK_LOGGED", "SIMPLE"),
    "TARGET_RECOVERY_TIME": _duration,
}


@definitions.define("ALTER DATABASE")
def alter_database(parser: Parser) -> definitions.Definition:
    """
    ALTER DATABASE { name | CURRENT } {
        SET { option [ = ] [ value ] } [ , ... ]
            [ WITH { ROLLBACK IMMEDIATE | ROLLBACK AFTER n [ SECONDS ] | NO_WAIT } ]
        | ADD FILE spec [ , ... ] | ADD LOG FILE spec [ , ... ] | MODIFY FILE spec }
    """
    tokens = parser.tokens
    name = "" if tokens.accept("CURRENT") else tokens.name()
    change = _set_options(tokens) if tokens.accept("SET") else _change_files(tokens)

    def named(frame: Frame) -> Database:
        return frame.instance.database(name) if name else frame.database

    def check(frame: Frame, guard: Guard) -> None:
        if not guard.allows(named(frame), "DATABASE", 0, "ALTER"):
            raise SqlServerError(5011, named(frame).name)

    return definitions.Definition(parser.line, check, lambda frame, tx: change(frame, tx, named(frame)))


Change = Callable[[Frame, Transaction, Database], Waiting[None] | None]


def _option(tokens: Tokens) -> tuple[str, str]:
    """One option and its value. SINGLE_USER and MULTI_USER are values of USER_ACCESS."""
    option = tokens.word()
    read = DATABASE_OPTIONS.get(option)
    if read is None:
        tokens.unsupported(f"ALTER DATABASE SET {option}")
    tokens.advance()
    return ("USER_ACCESS", option) if option in USER_ACCESSES else (option, read(tokens))


@dataclass(frozen=True, slots=True)
class Termination:
    """WITH { ROLLBACK IMMEDIATE | ROLLBACK AFTER n [ SECONDS ] | NO_WAIT }: what becomes of the other sessions."""

    after_s: float  # how long they are waited for before they are disconnected; infinite without the clause
    no_wait: bool = False


def _termination(tokens: Tokens) -> Termination:
    if not tokens.accept("WITH"):
        return Termination(math.inf)
    if tokens.accept("NO_WAIT"):
        return Termination(0, no_wait=True)
    tokens.expect("ROLLBACK")
    if tokens.accept("IMMEDIATE"):
        return Termination(0)
    tokens.expect("AFTER")
    after_s = tokens.integer()
    tokens.accept("SECONDS")
    return Termination(after_s)


def _set_options(tokens: Tokens) -> Change:
    chosen = tokens.comma_separated(lambda: _option(tokens))
    is_exclusive = any(word in EXCLUSIVE_OPTIONS for pair in chosen for word in pair)
    termination = _termination(tokens)

    def change(frame: Frame, tx: Transaction, database: Database) -> Waiting[None]:
        engine = frame.instance.engine
        if is_exclusive:
            yield from _wait_until_alone(frame, database, termination)
        if termination.after_s != math.inf and not termination.no_wait:
            yield from _disconnect_others(frame, database)
        for option, value in chosen:
            if option in BROKER_OPTIONS:
                ddl_databases.set_broker(tx, engine.databases, database, engine.delivery, engine.entropy, option)
            elif option in ddl_databases.OPTIONS:
                _set_option(frame, tx, database, option, value)
            elif option in SHOWN_OPTIONS:
                ddl_databases.set_shown_option(tx, database.catalog, option, value)

    return change


def _has_others(frame: Frame, database: Database) -> bool:
    """Whether other clients are in the database; activated procedures do not count here."""
    return any(session.is_user_process for session in frame.instance.others_in(database, frame.session))


def _wait_until_alone(frame: Frame, database: Database, termination: Termination) -> Waiting[None]:
    """Wait for the lock on the database that others keep as long as they are in it, even without a transaction."""
    engine = frame.instance.engine
    task, begun_ns = engine.scheduler.current, engine.clock.now_ns
    engine.waits.begin(task, "LCK_M_X", begun_ns)
    try:
        while _has_others(frame, database) and engine.clock.now_ns - begun_ns < termination.after_s * SECOND:
            yield Delay(ALONE_POLL_NS)
    finally:
        engine.waits.end(task, engine.clock.now_ns)
    if termination.no_wait and _has_others(frame, database):
        raise SqlServerError(5070, database.name)


def _set_option(frame: Frame, tx: Transaction, database: Database, option: str, value: str) -> None:
    guard = frame.session.guard
    if option == "COMPATIBILITY_LEVEL":
        level, valid = int(value), compatibility_levels(database)
        if level not in valid:
            last = f", or {valid[-1]}" if len(valid) == 3 else f" or {valid[-1]}"  # as its texts are
            raise SqlServerError(15048, ", ".join(map(str, valid[:-1])) + last)
        ddl_databases.set_option(tx, database.catalog, option, level)
        return
    if option == "TRUSTWORTHY":
        if guard is not None and not guard.allows_on_server("CONTROL SERVER"):
            raise SqlServerError(15247)
        if database.name in ("master", "tempdb"):
            raise SqlServerError(5058, option, database.name)
    ddl_databases.set_option(tx, database.catalog, option, value == "ON")


def _disconnect_others(frame: Frame, database: Database) -> Waiting[None]:
    """Roll back the other sessions of the database, and disconnect those of clients."""
    for session in frame.instance.others_in(database, frame.session):
        if not session.is_running:
            session.rollback()
        if session.disconnect is not None:
            session.disconnect()
            if session.is_running and session.task is not None:
                yield from session.task.join()
            session.close()


# Factors from units to pages of 8 KB; a bare number means megabytes.
PAGES_MAX = 2**31 - 1  # of a file
_PAGES = {"KB": 1 / 8, "MB": 128, "GB": 128 * 1024, "TB": 128 * 1024 * 1024}


def _size(tokens: Tokens) -> int:
    """A size in pages."""
    number = tokens.integer()
    pages = int(number * next((factor for unit, factor in _PAGES.items() if tokens.accept(unit)), _PAGES["MB"]))
    if not 0 <= pages <= PAGES_MAX:
        raise SqlServerError(1842, line=tokens.line)
    return pages


def _growth(tokens: Tokens) -> dict[str, int | bool]:
    if tokens.word(1) == "%":
        growth = tokens.integer()
        if growth > PAGES_MAX:
            raise SqlServerError(1842, line=tokens.line)
        tokens.expect("%")
        return {"growth": growth, "is_percent_growth": True}
    return {"growth": _size(tokens), "is_percent_growth": False}


FILE_OPTIONS: definitions.Options = {
    "NAME": ("name", lambda tokens: tokens.string() if tokens.at_string() else tokens.name()),
    "FILENAME": ("physical_name", Tokens.string),
    "SIZE": ("size", _size),
    "MAXSIZE": ("max_size", lambda tokens: -1 if tokens.accept("UNLIMITED") else _size(tokens)),
    "FILEGROWTH": ("growth", _growth),
}


def _file(tokens: Tokens) -> dict[str, Any]:
    """`( NAME = n [ , FILENAME = 'p' ] [ , SIZE = s ] [ , MAXSIZE = m | UNLIMITED ] [ , FILEGROWTH = g | g% ] )`

    The fields of `File` that are given.
    """
    tokens.expect("(")
    file_options = definitions.options(tokens, FILE_OPTIONS)
    tokens.expect(")")
    if "name" not in file_options:
        tokens.fail()
    file_options |= file_options.pop("growth", {})
    return file_options


def _change_files(tokens: Tokens) -> Change:
    if tokens.accept("MODIFY", "FILE"):
        changes = _file(tokens)
        modified = changes.pop("name")

        def modify(frame: Frame, tx: Transaction, database: Database) -> None:
            definitions.outside_transactions(frame, "ALTER DATABASE")
            frame.instance.files.modify(tx, database, modified, changes)

        return modify
    kind: FileType = "LOG" if tokens.at("ADD", "LOG") else "ROWS"
    if not (tokens.accept("ADD", "LOG", "FILE") or tokens.accept("ADD", "FILE")):
        tokens.unsupported(f"ALTER DATABASE {tokens.word()} {tokens.word(1)}".rstrip())
    files = tokens.comma_separated(lambda: _file(tokens))
    if any("physical_name" not in file for file in files):
        tokens.fail()

    def add(frame: Frame, tx: Transaction, database: Database) -> None:
        definitions.outside_transactions(frame, "ALTER DATABASE")
        if database.name != "tempdb":  # whoever adds a file elsewhere wants rows to lie in it, and none would
            raise UnsupportedSyntax("ALTER DATABASE ADD FILE, except for tempdb", 0)
        for file in files:
            frame.instance.files.add(tx, database, File(0, kind, **file))

    return add


def _may_drop(name: str) -> definitions.Check:
    def check(frame: Frame, guard: Guard) -> None:
        database = frame.instance.engine.databases.get(name.lower())
        if database is not None and not guard.allows(database, "DATABASE", 0, "CONTROL"):
            raise SqlServerError(3701, "database", name)

    return check


def _drop_database(frame: Frame, tx: Transaction, parts: definitions.ObjectName) -> None:
    definitions.outside_transactions(frame, "DROP DATABASE")
    instance, name = frame.instance, parts[0]
    database = instance.engine.databases.get(name.lower())
    if database is None:
        raise SqlServerError(3701, "database", name)
    # Activated tasks of the database end with their queues.
    if any(s.database is database and s.is_user_process for s in instance.sessions.values()):
        raise SqlServerError(3702, name)
    instance.drop_objects(tx, database)
    instance.files.forget(tx, database)
    instance.grants.forget_database(tx, database.database_id)
    ddl_databases.drop_database(tx, instance.engine.databases, instance.engine.delivery, name)


definitions.register_drop(
    "DATABASE",
    _drop_database,
    lambda name: _may_drop(name[0]),
    exists=lambda frame, name: name[0].lower() in frame.instance.engine.databases,
    several=True,
)


@dataclass(frozen=True, slots=True)
class Use(Statement):
    describes = True
    database: str


def parse_use(parser: Parser) -> Statement:
    """`USE database`"""
    if parser.tokens.is_procedure:
        raise SqlServerError(154, line=parser.line)
    return Use(parser.line, parser.tokens.name())


@register("USE", parse_use, Use)
def compile_use(node: Use, scope: Scope) -> Step:
    scope.leaves_database = True

    def run(frame: Frame) -> None:
        frame.session.use(node.database, frame.sink)
        frame.database = frame.session.database

    return plain(run)


@register_procedure("sp_addextendedproperty")
def sp_addextendedproperty(
    session: Session, parameters: Sequence[Parameter], sink: ResultSink, depth: int
) -> Waiting[Outputs]:
    """`sp_addextendedproperty [ @name = ] N'name' [ , [ @value = ] N'value' ]`: only databases have properties."""
    name, value = arguments("sp_addextendedproperty", "@name @value", parameters)

    def work(frame: Frame, tx: Transaction) -> None:
        if not is_allowed_on_database(frame, "ALTER"):
            raise SqlServerError(15247)
        properties = frame.instance.extended_properties
        properties.add(tx, frame.database.database_id, str(name or ""), None if value is None else str(value))

    yield from writing(work).run(Frame(session, session.database, sink, "sp_addextendedproperty", depth)) or ()
    return {}


@register_procedure("sp_dropextendedproperty")
def sp_dropextendedproperty(
    session: Session, parameters: Sequence[Parameter], sink: ResultSink, depth: int
) -> Waiting[Outputs]:
    """`sp_dropextendedproperty [ @name = ] N'name'`: only databases have properties."""
    (name,) = arguments("sp_dropextendedproperty", "@name", parameters)

    def work(frame: Frame, tx: Transaction) -> None:
        if not is_allowed_on_database(frame, "ALTER"):
            raise SqlServerError(15247)
        frame.instance.extended_properties.drop(tx, frame.database.database_id, str(name or ""))

    yield from writing(work).run(Frame(session, session.database, sink, "sp_dropextendedproperty", depth)) or ()
    return {}
