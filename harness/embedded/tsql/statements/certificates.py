"""Master keys and certificates."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from harness.embedded.broker import ddl_principals
from harness.embedded.broker.transactions import Transaction
from harness.embedded.errors import SqlServerError
from harness.embedded.sqltypes import DATETIME2, SqlType
from harness.embedded.tsql.permissions.guard import Guard
from harness.embedded.tsql.session.frame import Frame
from harness.embedded.tsql.session.steps import Scope, Step, writing
from harness.embedded.tsql.statements import checks
from harness.embedded.tsql.statements.ddl import authorization, register_drop
from harness.embedded.tsql.statements.registry import register
from harness.embedded.tsql.storage.conversion import EPOCH_DAYS, TICKS_A_DAY, converter, ticks
from harness.embedded.tsql.text.parser import Parser, Statement


@dataclass(frozen=True, slots=True)
class CreateMasterKey(Statement):
    pass


def parse_password(parser: Parser) -> str:
    parser.tokens.expect("PASSWORD", "=")
    return parser.tokens.string()


def parse_create_master_key(parser: Parser) -> Statement:
    """`CREATE MASTER KEY [ ENCRYPTION BY PASSWORD = 'password' ]`"""
    if parser.tokens.accept("ENCRYPTION", "BY"):
        parse_password(parser)
    return CreateMasterKey(parser.line)


def _check_master_key(node: Any, frame: Frame, guard: Guard) -> None:
    if not checks.in_database(frame, guard, "CONTROL"):
        raise SqlServerError(15247)


def compile_create_master_key(node: CreateMasterKey, scope: Scope) -> Step:
    return writing(lambda frame, tx: ddl_principals.create_master_key(tx, frame.database.catalog))


register(
    "CREATE MASTER KEY", parse_create_master_key, CreateMasterKey, compile_create_master_key, check=_check_master_key
)


@dataclass(frozen=True, slots=True)
class DropMasterKey(Statement):
    pass


def parse_drop_master_key(parser: Parser) -> Statement:
    """`DROP MASTER KEY`"""
    return DropMasterKey(parser.line)


def compile_drop_master_key(node: DropMasterKey, scope: Scope) -> Step:
    return writing(lambda frame, tx: ddl_principals.drop_master_key(tx, frame.database.catalog))


register("DROP MASTER KEY", parse_drop_master_key, DropMasterKey, compile_drop_master_key, check=_check_master_key)


@dataclass(frozen=True, slots=True)
class CreateCertificate(Statement):
    name: str
    owner: str
    subject: str
    start_date: str
    expiry_date: str
    binary: bytes | None
    private_key: bytes | None
    has_password: bool
    active_for_begin_dialog: bool


def parse_create_certificate(parser: Parser) -> Statement:
    """
    CREATE CERTIFICATE name [ AUTHORIZATION user ]
        { [ ENCRYPTION BY PASSWORD = '..' ] WITH SUBJECT = '..' [ , START_DATE = '..' ] [ , EXPIRY_DATE = '..' ]
        | FROM BINARY = 0x.. [ WITH PRIVATE KEY ( BINARY = 0x.., DECRYPTION BY PASSWORD = '..' ) ] }
        [ ACTIVE FOR BEGIN_DIALOG = { ON | OFF } ]
    """
    tokens, line = parser.tokens, parser.line
    name, owner = tokens.name(), authorization(parser)
    binary: bytes | None = None
    private_key: bytes | None = None
    has_password = False
    options = {"SUBJECT": "", "START_DATE": "", "EXPIRY_DATE": ""}
    if tokens.accept("ENCRYPTION", "BY"):
        parse_password(parser)
        has_password = True
    if tokens.accept("FROM"):
        if not tokens.accept("BINARY", "="):
            tokens.unsupported("CREATE CERTIFICATE FROM a file")
        binary = tokens.binary()
        if tokens.accept("WITH", "PRIVATE", "KEY"):
            private_key = _private_key(parser)
    else:
        tokens.expect("WITH")

        def option() -> None:
            which = tokens.choose(*options)
            tokens.expect("=")
            options[which] = tokens.string()

        tokens.comma_separated(option)
    active = True
    if tokens.accept("ACTIVE", "FOR", "BEGIN_DIALOG", "="):
        active = tokens.on_off()
    return CreateCertificate(
        line,
        name,
        owner,
        options["SUBJECT"],
        options["START_DATE"],
        options["EXPIRY_DATE"],
        binary,
        private_key,
        has_password,
        active,
    )


def _private_key(parser: Parser) -> bytes:
    tokens = parser.tokens
    key = b""
    tokens.expect("(")
    while not tokens.accept(")"):
        if tokens.accept("BINARY", "="):
            key = tokens.binary()
        else:
            tokens.choose("DECRYPTION", "ENCRYPTION")
            tokens.expect("BY")
            parse_password(parser)
        tokens.accept(",")
    return key


def _check_create(node: CreateCertificate, frame: Frame, guard: Guard) -> None:
    if not checks.in_database(frame, guard, "CREATE CERTIFICATE"):
        raise SqlServerError(15247)
    if node.owner:
        checks.give(frame, guard, node.owner)


def _moment_ns(text: str) -> int | None:
    if not text:
        return None
    moment = converter(SqlType("varchar", length=30), DATETIME2)(text)
    return (ticks(moment) - EPOCH_DAYS * TICKS_A_DAY) * 100


def compile_create_certificate(node: CreateCertificate, scope: Scope) -> Step:
    def work(frame: Frame, tx: Transaction) -> None:
        ddl_principals.create_certificate(
            tx,
            frame.database.catalog,
            frame.instance.engine.entropy,
            node.name,
            subject=node.subject,
            blob=node.binary,
            private_key=node.private_key,
            has_password=node.has_password,
            start_ns=_moment_ns(node.start_date),
            expiry_ns=_moment_ns(node.expiry_date),
            active_for_begin_dialog=node.active_for_begin_dialog,
            owner=node.owner or frame.session.user_name(),
        )

    return writing(work)


register(
    "CREATE CERTIFICATE", parse_create_certificate, CreateCertificate, compile_create_certificate, check=_check_create
)


register_drop(
    "CERTIFICATE",
    lambda frame, tx, name: ddl_principals.drop_certificate(tx, frame.database.catalog, name[0]),
    check=checks.drop_of("CERTIFICATE"),
    exists=lambda frame, name: frame.database.catalog.principals.certificate(name) is not None,
)
