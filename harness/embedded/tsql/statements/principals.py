"""Logins, users, schemas, certificates and master keys."""

from typing import Any, NamedTuple

from harness.embedded.broker import ddl_network, ddl_principals, ddl_services
from harness.embedded.broker.transactions import Transaction
from harness.embedded.errors import SqlServerError
from harness.embedded.sqltypes import DATETIME2, SqlType
from harness.embedded.tsql.instance import server_files
from harness.embedded.tsql.permissions.guard import Guard
from harness.embedded.tsql.permissions.rights import DATABASE_ROLES, SERVER, SYSADMIN
from harness.embedded.tsql.session.session import Frame
from harness.embedded.tsql.statements import definitions
from harness.embedded.tsql.storage.conversion import converter
from harness.embedded.tsql.storage.moments import EPOCH_DAYS, TICKS_A_DAY, ticks
from harness.embedded.tsql.text.parser import Parser
from harness.embedded.tsql.text.tokens import Tokens

MASTER_KEY = "##MS_DatabaseMasterKey##"  # its name in sys.symmetric_keys


def _password(tokens: Tokens) -> str:
    tokens.expect("PASSWORD", "=")
    return tokens.string()


# -- logins ------------------------------------------------------------------------------------------------------------


_LOGIN_OPTIONS = ("PASSWORD", "CHECK_POLICY", "CHECK_EXPIRATION", "DEFAULT_DATABASE", "DEFAULT_LANGUAGE", "SID")


def _login_options(tokens: Tokens) -> dict[str, str]:
    """`option = value [ , ... ]`: PASSWORD and DEFAULT_DATABASE, the others have no effect."""
    options: dict[str, str] = {}

    def option() -> None:
        name = tokens.choose(*_LOGIN_OPTIONS)
        tokens.expect("=")
        if name == "PASSWORD":
            options[name] = tokens.string()
        elif name == "DEFAULT_DATABASE":
            options[name] = tokens.name()
        elif name.startswith("CHECK"):
            tokens.on_off()
        else:
            tokens.advance()

    tokens.comma_separated(option)
    return options


def _login_members(frame: Frame, options: dict[str, str]) -> dict[str, Any]:
    """The members of a `Login` that options give."""
    members: dict[str, Any] = {}
    if (password := options.get("PASSWORD")) is not None:
        members["password_hash"] = frame.instance.engine.hash_password(password)
    if (name := options.get("DEFAULT_DATABASE")) is not None:
        if name.lower() not in frame.instance.engine.databases:
            raise SqlServerError(15010, name)
        members["default_database"] = name
    return members


@definitions.define("CREATE LOGIN")
def create_login(parser: Parser) -> definitions.Definition:
    """`CREATE LOGIN name { WITH PASSWORD = '..' [ , option = value ]... | FROM { CERTIFICATE name | WINDOWS } }`"""
    tokens = parser.tokens
    name = tokens.name()
    options: dict[str, str] = {}
    certificate = None
    if tokens.accept("FROM"):
        if not tokens.accept("CERTIFICATE"):
            tokens.unsupported(f"CREATE LOGIN FROM {tokens.word()}")
        certificate = tokens.name()
    else:
        tokens.expect("WITH")
        if not tokens.at("PASSWORD"):
            tokens.fail()
        options = _login_options(tokens)

    def work(frame: Frame, tx: Transaction) -> None:
        members = _login_members(frame, options)
        ddl_principals.create_login(tx, frame.instance.engine.logins, name, from_certificate=certificate, **members)
        frame.instance.grants.touch(tx)
        if certificate is not None:
            _map(frame, tx, SERVER, name, certificate)

    return definitions.Definition(parser.line, definitions.on_server("CREATE LOGIN"), work)


def _map(frame: Frame, tx: Transaction, database_id: int, principal: str, name: str) -> None:
    """Note the certificate from which a user or login is made; 15151 if there is none of that name."""
    database = frame.database if database_id != SERVER else frame.instance.database("master")
    certificate = database.catalog.principals.certificate(name)
    if certificate is None:
        raise SqlServerError(15151, "find", "certificate", name)
    frame.instance.grants.set_certificate(tx, database_id, principal, certificate.thumbprint.hex())


def _on_login(verb: str, name: str) -> definitions.Check:
    """The check for ALTER and DROP LOGIN; only a sysadmin changes a sysadmin's login."""

    def check(frame: Frame, guard: Guard) -> None:
        key = name.lower()
        is_sysadmin = key == "sa" or frame.instance.grants.is_member(SERVER, SYSADMIN, key)
        if is_sysadmin or not guard.allows_on_server("ALTER ANY LOGIN"):
            raise SqlServerError(15151, verb, "login", name)

    return check


@definitions.define("ALTER LOGIN")
def alter_login(parser: Parser) -> definitions.Definition:
    """`ALTER LOGIN name { ENABLE | DISABLE | WITH option = value [ , ... ] }`"""
    tokens = parser.tokens
    name = tokens.name()
    options = _login_options(tokens) if tokens.accept("WITH") else {}
    is_disabled = None if options else tokens.choose("ENABLE", "DISABLE") == "DISABLE"

    def work(frame: Frame, tx: Transaction) -> None:
        members = _login_members(frame, options)
        ddl_principals.alter_login(tx, frame.instance.engine.logins, name, is_disabled=is_disabled, **members)

    return definitions.Definition(parser.line, _on_login("alter", name), work)


def _drop_login(frame: Frame, tx: Transaction, name: definitions.ObjectName) -> None:
    frame.instance.grants.forget_principal(tx, SERVER, name[0].lower())
    link = frame.instance.engine.link
    if link.endpoint is not None:
        ddl_network.set_connect(tx, link, link.endpoint.name, name[0].lower(), may=False)
    ddl_principals.drop_login(tx, frame.instance.engine.logins, name[0])


definitions.register_drop(
    "LOGIN",
    _drop_login,
    lambda name: _on_login("drop", name[0]),
    exists=lambda frame, name: name[0].lower() in frame.instance.engine.logins,
)


# -- users -------------------------------------------------------------------------------------------------------------


@definitions.define("CREATE USER")
def create_user(parser: Parser) -> definitions.Definition:
    """`CREATE USER name [ { FOR | FROM } { LOGIN | CERTIFICATE } x | WITHOUT LOGIN ] [ WITH DEFAULT_SCHEMA = .. ]`"""
    tokens = parser.tokens
    name = tokens.name()
    login: str | None = name
    certificate = ""
    if tokens.accept("WITHOUT", "LOGIN"):
        login = None
    elif tokens.accept("FOR") or tokens.accept("FROM"):
        if tokens.accept("CERTIFICATE"):
            login, certificate = None, tokens.name()
        elif tokens.accept("LOGIN"):
            login = tokens.name()
        else:
            tokens.unsupported(f"CREATE USER FOR {tokens.word()}")
    if tokens.accept("WITH", "DEFAULT_SCHEMA", "="):
        tokens.name()

    def work(frame: Frame, tx: Transaction) -> None:
        logins = frame.instance.engine.logins
        if login is not None and login.lower() not in logins:
            raise SqlServerError(15007, login)
        if name.lower() in {"dbo", "guest", *DATABASE_ROLES}:
            raise SqlServerError(15023, name)
        ddl_principals.create_user(tx, frame.database.catalog, logins, name, login=login)
        frame.instance.grants.touch(tx)
        if certificate:
            _map(frame, tx, frame.database.database_id, name, certificate)

    return definitions.Definition(parser.line, definitions.in_database("ALTER ANY USER", 15247), work)


PARTS_OF_SCHEMA = ("CREATE TABLE", "CREATE VIEW", "GRANT", "REVOKE", "DENY")


@definitions.define("CREATE SCHEMA")
def create_schema(parser: Parser) -> definitions.Definition:
    """`CREATE SCHEMA { name [ AUTHORIZATION owner ] | AUTHORIZATION owner }`, without the objects that it may create"""
    tokens = parser.tokens
    tokens.require_first("CREATE SCHEMA")
    name = "" if tokens.at("AUTHORIZATION") else tokens.name()
    owner = definitions.authorization(tokens)
    if any(tokens.at(*words.split()) for words in PARTS_OF_SCHEMA):
        tokens.unsupported("objects and permissions in CREATE SCHEMA")
    tokens.accept(";")
    if not tokens.at_end:
        tokens.fail()

    def work(frame: Frame, tx: Transaction) -> None:
        ddl_principals.create_schema(tx, frame.database.catalog, name or owner, definitions.owner_of(frame, owner))

    return definitions.Definition(parser.line, definitions.creating("CREATE SCHEMA", owner), work)


def _drop_schema(frame: Frame, tx: Transaction, name: definitions.ObjectName) -> None:
    database, schema = frame.database, name[0].lower()
    instance = frame.instance
    of_instance: list[Any] = [*instance.tables.values(), *instance.modules()]
    items = [item for item in of_instance if item.database_id == database.database_id]
    for item in (*items, *database.catalog.queues.values()):
        if item.schema.lower() == schema:
            raise SqlServerError(3729, "drop schema", name[0], item.name)
    ddl_principals.drop_schema(tx, database.catalog, name[0])


definitions.register_drop(
    "SCHEMA",
    _drop_schema,
    lambda name: definitions.in_database("ALTER ANY SCHEMA", 15151, "drop", "schema", name[0]),
    exists=lambda frame, name: name[0].lower() in frame.database.catalog.schemas,
)


@definitions.define("ALTER USER")
def alter_user(parser: Parser) -> definitions.Definition:
    """`ALTER USER name WITH LOGIN = login`"""
    tokens = parser.tokens
    name = tokens.name()
    tokens.expect("WITH")
    if not tokens.accept("LOGIN", "="):
        tokens.unsupported(f"ALTER USER WITH {tokens.word()}")
    login = tokens.name()

    def work(frame: Frame, tx: Transaction) -> None:
        ddl_principals.alter_user(tx, frame.database.catalog, frame.instance.engine.logins, name, login=login)
        frame.instance.grants.touch(tx)

    # "To change the login, CONTROL permission on the database is required."
    return definitions.Definition(parser.line, definitions.in_database("CONTROL", 15151, "alter", "user", name), work)


def _drop_user(frame: Frame, tx: Transaction, name: definitions.ObjectName) -> None:
    catalog, key = frame.database.catalog, name[0].lower()
    frame.instance.grants.forget_principal(tx, frame.database.database_id, key)
    for service in catalog.services.values():
        if key in service.senders:
            ddl_services.set_sender(tx, catalog, service.name, key, may=False)
    ddl_principals.drop_user(tx, catalog, name[0])


definitions.register_drop(
    "USER",
    _drop_user,
    lambda name: definitions.in_database("ALTER ANY USER", 15151, "drop", "user", name[0]),
    exists=lambda frame, name: name[0].lower() in frame.database.catalog.principals.users,
)


# -- certificates and master keys --------------------------------------------------------------------------------------


@definitions.define("CREATE MASTER KEY")
def create_master_key(parser: Parser) -> definitions.Definition:
    """`CREATE MASTER KEY [ ENCRYPTION BY PASSWORD = 'password' ]`"""
    password = _password(parser.tokens) if parser.tokens.accept("ENCRYPTION", "BY") else None

    def work(frame: Frame, tx: Transaction) -> None:
        ddl_principals.create_master_key(tx, frame.database.catalog, password)

    return definitions.Definition(parser.line, definitions.in_database("CONTROL", 15247), work)


@definitions.define("OPEN MASTER KEY")
def open_master_key(parser: Parser) -> definitions.Definition:
    """`OPEN MASTER KEY DECRYPTION BY PASSWORD = 'password'`: open for this session, in this database."""
    parser.tokens.expect("DECRYPTION", "BY")
    password = _password(parser.tokens)

    def work(frame: Frame, tx: Transaction) -> None:
        opened = ddl_principals.opened_master_key(frame.database.catalog, password)
        frame.session.open_master_keys[frame.database.database_id] = opened

    return definitions.Definition(parser.line, definitions.in_database("CONTROL", 15247), work)


@definitions.define("CLOSE MASTER KEY")
def close_master_key(parser: Parser) -> definitions.Definition:
    """`CLOSE MASTER KEY`"""

    def work(frame: Frame, tx: Transaction) -> None:
        if frame.session.open_master_keys.pop(frame.database.database_id, None) is None:
            raise SqlServerError(15315, MASTER_KEY)

    return definitions.Definition(parser.line, definitions.in_database("CONTROL", 15247), work)


@definitions.define("ALTER MASTER KEY")
def alter_master_key(parser: Parser) -> definitions.Definition:
    """`ALTER MASTER KEY { ADD | DROP } ENCRYPTION BY SERVICE MASTER KEY`: ADD with the master key open, for example
    after the file with the key of the server was lost."""
    tokens = parser.tokens
    verb = tokens.word()
    if not (tokens.accept("ADD") or tokens.accept("DROP")):
        tokens.unsupported(f"ALTER MASTER KEY {verb}")
    tokens.expect("ENCRYPTION", "BY", "SERVICE", "MASTER", "KEY")

    def work(frame: Frame, tx: Transaction) -> None:
        if verb == "DROP":
            ddl_principals.drop_master_key_encryption(tx, frame.database.catalog)
            return
        opened = frame.session.open_master_keys.get(frame.database.database_id)
        if opened is None:
            raise SqlServerError(15315, MASTER_KEY)
        ddl_principals.set_master_key(tx, frame.database.catalog, opened)

    return definitions.Definition(parser.line, definitions.in_database("CONTROL", 15247), work)


@definitions.define("BACKUP MASTER KEY")
def backup_master_key(parser: Parser) -> definitions.Definition:
    """`BACKUP MASTER KEY TO FILE = '..' ENCRYPTION BY PASSWORD = '..'`"""
    tokens = parser.tokens
    tokens.expect("TO", "FILE", "=")
    path = tokens.string()
    tokens.expect("ENCRYPTION", "BY")
    password = _password(tokens)

    def work(frame: Frame, tx: Transaction) -> None:
        content = ddl_principals.exported_master_key(frame.database.catalog, password)
        server_files.write(frame.instance.data_folder, path, content)

    return definitions.Definition(parser.line, definitions.in_database("CONTROL", 15247), work)


@definitions.define("RESTORE MASTER KEY")
def restore_master_key(parser: Parser) -> definitions.Definition:
    """`RESTORE MASTER KEY FROM FILE = '..' DECRYPTION BY PASSWORD = '..' ENCRYPTION BY PASSWORD = '..' [ FORCE ]`"""
    tokens = parser.tokens
    tokens.expect("FROM", "FILE", "=")
    path = tokens.string()
    tokens.expect("DECRYPTION", "BY")
    old_password = _password(tokens)
    tokens.expect("ENCRYPTION", "BY")
    new_password = _password(tokens)
    tokens.accept("FORCE")  # nothing is lost here that it would allow

    def work(frame: Frame, tx: Transaction) -> None:
        database = frame.database
        has_dialogs = any(endpoint.session is not None for endpoint in database.endpoints.values())
        content = server_files.read(frame.instance.data_folder, path)
        passwords = old_password, new_password
        ddl_principals.restore_master_key(tx, database.catalog, content, *passwords, has_dialogs)

    return definitions.Definition(parser.line, definitions.in_database("CONTROL", 15247), work)


@definitions.define("DROP MASTER KEY")
def drop_master_key(parser: Parser) -> definitions.Definition:
    """`DROP MASTER KEY`"""

    def work(frame: Frame, tx: Transaction) -> None:
        ddl_principals.drop_master_key(tx, frame.database.catalog)

    return definitions.Definition(parser.line, definitions.in_database("CONTROL", 15247), work)


def _moment_ns(text: str) -> int | None:
    if not text:
        return None
    moment = converter(SqlType("varchar", length=30), DATETIME2)(text)
    return (ticks(moment) - EPOCH_DAYS * TICKS_A_DAY) * 100


CERTIFICATE_OPTIONS: definitions.Options = {
    "SUBJECT": ("subject", Tokens.string),
    "START_DATE": ("start_ns", Tokens.string),
    "EXPIRY_DATE": ("expiry_ns", Tokens.string),
}


@definitions.define("CREATE CERTIFICATE")
def create_certificate(parser: Parser) -> definitions.Definition:
    """
    CREATE CERTIFICATE name [ AUTHORIZATION user ]
        { [ ENCRYPTION BY PASSWORD = '..' ] WITH SUBJECT = '..' [ , START_DATE = '..' ] [ , EXPIRY_DATE = '..' ]
        | FROM { FILE = '..' | BINARY = 0x.. } [ WITH PRIVATE KEY ( { FILE = '..' | BINARY = 0x.. }
            , DECRYPTION BY PASSWORD = '..' [ , ENCRYPTION BY PASSWORD = '..' ] ) ] }
        [ ACTIVE FOR BEGIN_DIALOG = { ON | OFF } ]
    """
    tokens = parser.tokens
    name, owner = tokens.name(), definitions.authorization(tokens)
    clauses: dict[str, Any] = {}
    if tokens.accept("ENCRYPTION", "BY"):
        clauses["password"] = _password(tokens)
    source: str | bytes | None = None  # FROM: a file, or the certificate itself
    private_key: _PrivateKey | None = None
    if tokens.accept("FROM"):
        source = _content(tokens)
        private_key = _private_key(tokens)
    else:
        tokens.expect("WITH")
        clauses |= definitions.options(tokens, CERTIFICATE_OPTIONS)
    if tokens.accept("ACTIVE", "FOR", "BEGIN_DIALOG", "="):
        clauses["active_for_begin_dialog"] = tokens.on_off()
    dates = {date_name: clauses.pop(date_name, "") for date_name in ("start_ns", "expiry_ns")}

    def check(frame: Frame, guard: Guard) -> None:
        definitions.in_database("CREATE CERTIFICATE", 15247)(frame, guard)
        if owner:
            definitions.check_owner(frame, guard, owner)

    def work(frame: Frame, tx: Transaction) -> None:
        catalog = frame.database.catalog
        owner_name = owner or frame.session.user_name()
        moments_ns: dict[str, Any] = {date_name: _moment_ns(text) for date_name, text in dates.items()}
        imported: dict[str, Any] = {}
        if source is not None:
            imported["blob"] = _read(frame, source)
        if private_key is not None:
            data = _read(frame, private_key.content)
            imported["private_key"] = ddl_principals.PrivateKey(data, private_key.decryption or "")
            imported["password"] = private_key.encryption
        ddl_principals.create_certificate(tx, catalog, name, owner=owner_name, **clauses | imported | moments_ns)

    return definitions.Definition(parser.line, check, work)


def _content(tokens: Tokens) -> str | bytes:
    """`FILE = '..'` or `BINARY = 0x..`; a file's name is a str."""
    is_file = tokens.choose("FILE", "BINARY") == "FILE"
    tokens.expect("=")
    return tokens.string() if is_file else tokens.binary()


def _read(frame: Frame, content: str | bytes) -> bytes:
    return server_files.read(frame.instance.data_folder, content) if isinstance(content, str) else content


class _PrivateKey(NamedTuple):
    content: str | bytes  # a file's name, or the key itself
    decryption: str | None  # the password that protects it now
    encryption: str | None  # the one that will


def _private_key(tokens: Tokens) -> _PrivateKey | None:
    """`[ WITH PRIVATE KEY ( { FILE | BINARY } = .. , { DECRYPTION | ENCRYPTION } BY PASSWORD = '..' [ , ... ] ) ]`"""
    if not tokens.accept("WITH", "PRIVATE", "KEY", "("):
        return None
    content = _content(tokens)
    passwords = {}
    while tokens.accept(","):
        word = tokens.choose("DECRYPTION", "ENCRYPTION")
        tokens.expect("BY")
        passwords[word] = _password(tokens)
    tokens.expect(")")
    return _PrivateKey(content, passwords.get("DECRYPTION"), passwords.get("ENCRYPTION"))


@definitions.define("BACKUP CERTIFICATE")
def backup_certificate(parser: Parser) -> definitions.Definition:
    """
    BACKUP CERTIFICATE name TO FILE = '..' [ WITH PRIVATE KEY ( FILE = '..' , ENCRYPTION BY PASSWORD = '..'
        [ , DECRYPTION BY PASSWORD = '..' ] ) ]
    """
    tokens = parser.tokens
    name = tokens.name()
    tokens.expect("TO", "FILE", "=")
    path = tokens.string()
    private_key = _private_key(tokens)
    if private_key is not None and (private_key.encryption is None or isinstance(private_key.content, bytes)):
        tokens.fail()

    def work(frame: Frame, tx: Transaction) -> None:
        catalog, folder = frame.database.catalog, frame.instance.data_folder
        certificate = catalog.principals.certificate(name)
        if certificate is None:
            raise SqlServerError(15151, "find", "certificate", name)
        if private_key is not None:
            passwords = private_key.encryption or "", private_key.decryption
            key = ddl_principals.exported_key(catalog, certificate, *passwords)
            server_files.write(folder, str(private_key.content), key)
        server_files.write(folder, path, certificate.blob)

    return definitions.Definition(parser.line, definitions.on_object("find", "CERTIFICATE", (name,), "CONTROL"), work)


@definitions.define("ALTER CERTIFICATE")
def alter_certificate(parser: Parser) -> definitions.Definition:
    """`ALTER CERTIFICATE name { WITH ACTIVE FOR BEGIN_DIALOG = { ON | OFF } | REMOVE PRIVATE KEY }`"""
    tokens = parser.tokens
    name = tokens.name()
    is_active = None
    if not tokens.accept("REMOVE", "PRIVATE", "KEY"):
        tokens.expect("WITH")
        if not tokens.accept("ACTIVE"):
            tokens.unsupported(f"ALTER CERTIFICATE WITH {tokens.word()}")
        tokens.expect("FOR", "BEGIN_DIALOG", "=")
        is_active = tokens.on_off()

    def work(frame: Frame, tx: Transaction) -> None:
        ddl_principals.alter_certificate(tx, frame.database.catalog, name, is_active_for_begin_dialog=is_active)

    return definitions.Definition(parser.line, definitions.on_object("alter", "CERTIFICATE", (name,)), work)


def _drop_certificate(frame: Frame, tx: Transaction, name: definitions.ObjectName) -> None:
    database, grants = frame.database, frame.instance.grants
    if (certificate := database.catalog.principals.certificate(name[0])) is not None:
        thumbprints = [certificate.thumbprint.hex()]
        if grants.mapped(database.database_id, thumbprints):
            raise SqlServerError(15559, "certificate", name[0], "user")
        if database.name == "master" and grants.mapped(SERVER, thumbprints):
            raise SqlServerError(15559, "certificate", name[0], "login")
        if grants.has_signed(database.database_id, thumbprints[0]):
            raise SqlServerError(15352, "certificate")
    ddl_principals.drop_certificate(tx, database.catalog, name[0])


definitions.register_drop(
    "CERTIFICATE",
    _drop_certificate,
    lambda name: definitions.on_object("drop", "CERTIFICATE", name, "CONTROL"),
    exists=lambda frame, name: frame.database.catalog.principals.certificate(name[0]),
)
