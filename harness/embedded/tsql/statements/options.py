"""Options: SET for the session, sp_configure and RECONFIGURE for the instance."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from harness.embedded.broker.transactions import Transaction
from harness.embedded.errors import SqlServerError, UnsupportedSyntax
from harness.embedded.runtime.tasks import Waiting
from harness.embedded.sqltypes import INT, Column, Parameter, ResultSink, SqlType
from harness.embedded.tsql.instance.properties import OPTIONS, Setting
from harness.embedded.tsql.permissions.guard import Guard
from harness.embedded.tsql.session.session import DEFAULTS, Frame, Options, Session
from harness.embedded.tsql.session.steps import Scope, Signal, Step, plain
from harness.embedded.tsql.statements.definitions import Definition, checked, define, outside_transactions
from harness.embedded.tsql.statements.registry import Outputs, register, register_procedure
from harness.embedded.tsql.storage.conversion import INTEGER_RANGES, converter
from harness.embedded.tsql.text.parser import Parser, Statement

Setter = Callable[[Options, str], Options]


def _switch(name: str) -> Setter:
    return lambda options, value: replace(options, **{name: value == "ON"})


ISOLATION_LEVELS = {"UNCOMMITTED": 1, "COMMITTED": 2, "REPEATABLE": 3, "SERIALIZABLE": 4, "SNAPSHOT": 5}

# Other options are accepted without effect: this server has only one of the behaviours they choose from.
SETTERS: dict[str, Setter] = {
    "NOCOUNT": _switch("nocount"),
    "XACT_ABORT": _switch("xact_abort"),
    "IMPLICIT_TRANSACTIONS": _switch("implicit_transactions"),
    "NOEXEC": _switch("noexec"),
    "FMTONLY": _switch("fmtonly"),
    "CURSOR_CLOSE_ON_COMMIT": _switch("cursor_close_on_commit"),
    "QUOTED_IDENTIFIER": _switch("quoted_identifier"),
    "LOCK_TIMEOUT": lambda options, value: replace(options, lock_timeout_ms=int(value)),
    "TEXTSIZE": lambda options, value: replace(options, text_size_bytes=int(value) or TEXT_SIZE_DEFAULT),
    "TRANSACTION ISOLATION LEVEL": lambda options, value: replace(options, isolation_level=ISOLATION_LEVELS[value]),
}

OPTIONS_ON_OFF = frozenset(
    """
    ANSI_NULL_DFLT_OFF ANSI_NULL_DFLT_ON ANSI_NULLS ANSI_PADDING ANSI_WARNINGS ARITHABORT
    CONCAT_NULL_YIELDS_NULL CURSOR_CLOSE_ON_COMMIT FMTONLY IMPLICIT_TRANSACTIONS
    NO_BROWSETABLE NOCOUNT NOEXEC NUMERIC_ROUNDABORT PARSEONLY QUOTED_IDENTIFIER XACT_ABORT
    """.split()  # noqa: SIM905
)

# The values that change what statements mean.
REFUSED = {
    "ANSI_NULLS": "OFF",
    "ANSI_NULL_DFLT_OFF": "ON",
    "ANSI_NULL_DFLT_ON": "OFF",
    "ANSI_PADDING": "OFF",
    "ANSI_WARNINGS": "OFF",
    "CONCAT_NULL_YIELDS_NULL": "OFF",
    "NUMERIC_ROUNDABORT": "ON",
}

OPTIONS_WITH_VALUE = frozenset(
    """
    DATEFIRST DATEFORMAT DEADLOCK_PRIORITY LANGUAGE LOCK_TIMEOUT QUERY_GOVERNOR_COST_LIMIT TEXTSIZE
    """.split()  # noqa: SIM905
)

# The values that mean what this server does: it reads and writes dates as in us_english, from the year on, and weeks
# begin on Sunday.
ACCEPTED = {
    "DATEFIRST": frozenset("7"),
    "DATEFORMAT": frozenset({"mdy", "myd", "ymd"}),
    "LANGUAGE": frozenset({"english", "us_english"}),
}
NUMBERS = frozenset({"LOCK_TIMEOUT", "TEXTSIZE"})
TEXT_SIZE_DEFAULT = 4096  # bytes; "setting SET TEXTSIZE to 0 resets the size to the default of 4 KB"


@dataclass(frozen=True, slots=True)
class SetOption(Statement):
    describes = True
    options: list[str]
    value: str


def _parse_on_off(parser: Parser, options: list[str]) -> Statement:
    value = parser.tokens.choose("ON", "OFF")
    for option in options:
        if REFUSED.get(option) == value:
            raise UnsupportedSyntax(f"SET {option} {value}", parser.line)
    if parser.is_nested and ("PARSEONLY" in options or ("NOEXEC" in options and value == "OFF")):
        raise UnsupportedSyntax(f"SET {', '.join(options)} {value} in another statement", parser.line)
    if "QUOTED_IDENTIFIER" in options:  # "takes effect at parse-time"
        parser.tokens.quote_identifiers(value == "ON")
    return SetOption(parser.line, options, value)


def parse_set(parser: Parser) -> Statement:
    """`SET option [, ...] { ON | OFF | value }`, `SET TRANSACTION ISOLATION LEVEL ...`"""
    tokens = parser.tokens
    if tokens.accept("TRANSACTION", "ISOLATION", "LEVEL"):
        level = tokens.choose("READ", "REPEATABLE", "SNAPSHOT", "SERIALIZABLE")
        if level == "READ":
            level = tokens.choose("UNCOMMITTED", "COMMITTED")
        elif level == "REPEATABLE":
            tokens.expect("READ")
        return SetOption(parser.line, ["TRANSACTION ISOLATION LEVEL"], level)
    if tokens.accept("IDENTITY_INSERT"):
        tokens.object_name()
        tokens.on_off()
        tokens.unsupported("SET IDENTITY_INSERT")
    options = [option.text.upper() for option in tokens.comma_separated(tokens.advance)]
    if all(option in OPTIONS_ON_OFF for option in options):
        return _parse_on_off(parser, options)
    if len(options) == 1 and options[0] in OPTIONS_WITH_VALUE:
        [option] = options
        if option in NUMBERS:
            return SetOption(parser.line, options, str(tokens.integer_between(-1, INTEGER_RANGES["int"][1])))
        sign = "-" if tokens.accept("-") else ""
        value = sign + tokens.advance().text
        if value.lower() not in ACCEPTED.get(option, (value.lower(),)):
            raise UnsupportedSyntax(f"SET {option} {value}", parser.line)
        return SetOption(parser.line, options, value)
    if options == ["ROWCOUNT"]:
        if tokens.integer() == 0:
            return SetOption(parser.line, options, "0")
        tokens.unsupported("SET ROWCOUNT with a value other than 0")
    tokens.unsupported(f"SET {', '.join(options)}")


@register("SET", parse_set, SetOption)
def compile_set_option(node: SetOption, scope: Scope) -> Step:
    if "PARSEONLY" in node.options:  # `batches` takes it out of a batch
        raise UnsupportedSyntax("SET PARSEONLY in a procedure", node.line)
    setters = [setter for option in node.options if (setter := SETTERS.get(option)) is not None]
    before = after = DEFAULTS
    for setter in setters:
        after = setter(after, node.value)
    ends = "NOEXEC" in node.options and node.value == "ON"

    def run(frame: Frame) -> Signal | None:
        nonlocal before, after
        session = frame.session
        if session.options is not before:  # cached: procedures make the same change thousands of times
            before = after = session.options
            for setter in setters:
                after = setter(after, node.value)
        session.options = after
        session.row_count = 0
        return Signal.RETURN if ends else None

    return plain(run)


@define("RECONFIGURE")
def reconfigure(parser: Parser) -> Definition:
    """`RECONFIGURE [ WITH OVERRIDE ]`"""
    parser.tokens.accept("WITH", "OVERRIDE")

    def check(frame: Frame, guard: Guard) -> None:
        if not guard.allows_on_server("ALTER SETTINGS"):
            raise SqlServerError(5812)

    def work(frame: Frame, tx: Transaction) -> None:
        outside_transactions(frame, "RECONFIGURE", 574)
        frame.instance.configuration.reconfigure()

    return Definition(parser.line, check, work)


class Checkpoint(Statement):
    """There is nothing to do: a commit is on disk before the client gets its answer."""


def parse_checkpoint(parser: Parser) -> Statement:
    """`CHECKPOINT [ seconds ]`"""
    if parser.tokens.at_number():
        parser.tokens.integer_between(1, INTEGER_RANGES["int"][1])
    return Checkpoint(parser.line)


@register("CHECKPOINT", parse_checkpoint, Checkpoint)
def compile_checkpoint(node: Checkpoint, scope: Scope) -> Step:
    def check(frame: Frame, guard: Guard) -> None:
        if not guard.allows(frame.database, "DATABASE", 0, "CHECKPOINT"):
            raise SqlServerError(262, "CHECKPOINT", frame.database.name)

    return checked(check, plain(lambda frame: None))


_COLUMNS = (
    Column("name", SqlType("nvarchar", length=35), nullable=False),
    *(Column(name, INT) for name in ("minimum", "maximum", "config_value", "run_value")),
)


@register_procedure("sp_configure")
def sp_configure(session: Session, parameters: Sequence[Parameter], sink: ResultSink, depth: int) -> Waiting[Outputs]:
    """`sp_configure [ [ @configname = ] 'name' [ , [ @configvalue = ] value ] ]`; words of its name suffice."""
    configuration = session.instance.configuration
    if not parameters:
        _show(list(configuration.settings()), sink)
        return {}
    name = str(parameters[0].value)
    # A word alone may be part of several options that SQL Server has.
    is_unique = " " in name.strip()
    option = next((option for key, option in OPTIONS.items() if is_unique and name.lower() in key), None)
    if option is None:
        raise UnsupportedSyntax(f"the configuration option {name}", 0)
    before = configuration.setting(option)
    if len(parameters) == 1:
        _show([before], sink)
        return {}
    if session.guard is not None and not session.guard.allows_on_server("ALTER SETTINGS"):
        raise SqlServerError(15247)
    value = converter(parameters[1].type, INT)(parameters[1].value)
    if value is None:
        raise SqlServerError(15129, "NULL", option.name)
    if not option.minimum <= value <= option.maximum:
        raise SqlServerError(15129, value, option.name)
    tx = session.new_transaction()
    configuration.change(tx, option, value)
    yield from tx.commit()
    text = f"Configuration option '{option.name}' changed from {before.value} to {value}."
    sink.message(15457, 0, 1, f"{text} Run the RECONFIGURE statement to install.", "sp_configure", 1)
    return {}


def _show(settings: Sequence[Setting], sink: ResultSink) -> None:
    sink.columns(_COLUMNS)
    sink.rows([(option.name, option.minimum, option.maximum, value, in_use) for option, value, in_use in settings])
    sink.done(len(settings), in_procedure=True)
