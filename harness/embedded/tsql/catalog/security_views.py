"""Logins, users and roles; permissions that were granted or denied; certificates and keys.

Principal 1 is sa on the server and dbo in a database.
"""

from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any, NamedTuple

from harness.embedded.broker.database import Database
from harness.embedded.broker.definitions import Certificate
from harness.embedded.tsql.catalog.view import Context, View
from harness.embedded.tsql.catalog.visibility import Sees, everybody, owners, securable, with_permission
from harness.embedded.tsql.instance.instance import Instance
from harness.embedded.tsql.permissions import rights
from harness.embedded.tsql.permissions.guard import THE_SERVER, Guard
from harness.embedded.tsql.permissions.rights import (
    DATABASE_ROLE_IDS,
    DBO,
    DBO_ID,
    FIXED_USER_IDS,
    SA,
    SA_ID,
    SERVER,
    SERVER_ROLE_IDS,
    Securable,
    sid_of,
)

KINDS = {
    "S": ("SQL_LOGIN", "SQL_USER"),
    "R": ("SERVER_ROLE", "DATABASE_ROLE"),
    "C": ("CERTIFICATE_MAPPED_LOGIN", "CERTIFICATE_MAPPED_USER"),
}


class Principal(NamedTuple):
    name: str
    principal_id: int
    type: str  # S, R or C
    sid: bytes | None = None
    is_disabled: bool = False
    default_database_name: str | None = None


def server_principals(context: Context) -> Iterator[Principal]:
    yield Principal(SA, SA_ID, "S", sid_of(SA_ID), default_database_name="master")
    for name, number in SERVER_ROLE_IDS.items():
        yield Principal(name, number, "R")
    for login in context.engine.logins.values():
        type_, default = ("S", login.default_database) if login.from_certificate is None else ("C", None)
        yield Principal(login.name, login.principal_id, type_, sid_of(login.principal_id), login.is_disabled, default)


def logins_seen(database: Database, guard: Guard) -> Sees:
    """ "Any login can see their own login name, the system logins, and the fixed server roles." """
    return lambda row: row.type == "R" or row.principal_id == SA_ID or guard.sees_login(row.name)


def owner_sid(database: Database, instance: Instance) -> bytes:
    """The sid of the login that owns the database, its dbo."""
    owner = instance.grants.owner(Securable(database.database_id, "DATABASE", 0))
    login = instance.engine.logins.get(owner or "")
    return sid_of(SA_ID if login is None else login.principal_id)


def database_principals(context: Context) -> Iterator[Principal]:
    """The principals of a database. A user without a login has no sid here."""
    for name, number in FIXED_USER_IDS.items():
        sid = owner_sid(context.database, context.instance) if name == DBO else None
        yield Principal(name, number, "R" if name == "public" else "S", sid)
    for name, number in DATABASE_ROLE_IDS.items():
        yield Principal(name, number, "R")
    for user in context.database.catalog.principals.users.values():
        if user.name.lower() not in FIXED_USER_IDS:
            login = context.engine.logins.get((user.login or "").lower())
            sid = None if login is None else sid_of(login.principal_id)
            grants, database_id = context.instance.grants, context.database.database_id
            type_ = "S" if grants.certificate_of(database_id, user.name) is None else "C"
            yield Principal(user.name, user.principal_id, type_, sid)


def users_seen(database: Database, guard: Guard) -> Sees:
    """ "Any user can see their own user name, the system users, and the fixed database roles." """
    fixed = set(FIXED_USER_IDS) | set(DATABASE_ROLE_IDS)
    return lambda row: row.name in fixed or guard.sees_user(database, row.name, row.principal_id)


def _login_token(context: Context) -> Iterator[Principal]:
    guard = context.session.guard
    names = (SA, "sysadmin", "public") if guard is None else guard.server_principals()
    return (principal for principal in server_principals(context) if principal.name.lower() in names)


def _members(context: Context) -> Iterator[SimpleNamespace]:
    for member in database_principals(context):
        roles = context.instance.grants.roles_of(context.database.database_id, member.name.lower())
        for role in ("db_owner", *roles) if member.name == DBO else roles:
            yield SimpleNamespace(role_id=DATABASE_ROLE_IDS[role], name=member.name, principal_id=member.principal_id)


# -- permissions -------------------------------------------------------------------------------------------------------

# class and class_desc of each class of securable
CLASSES = {
    "SERVER": (100, "SERVER"),
    "ENDPOINT": (105, "ENDPOINT"),
    "DATABASE": (0, "DATABASE"),
    "OBJECT": (1, "OBJECT_OR_COLUMN"),
    "SCHEMA": (3, "SCHEMA"),
    "USER": (4, "DATABASE_PRINCIPAL"),
    "MESSAGE TYPE": (15, "MESSAGE_TYPE"),
    "CONTRACT": (16, "SERVICE_CONTRACT"),
    "SERVICE": (17, "SERVICE"),
    "REMOTE SERVICE BINDING": (18, "REMOTE_SERVICE_BINDING"),
    "ROUTE": (19, "ROUTE"),
    "CERTIFICATE": (25, "CERTIFICATE"),
}


class Permission(NamedTuple):
    """A permission with the id of its grantee."""

    securable: Securable
    permission: str
    grantee_principal_id: int
    grantee: str  # its name
    state_desc: str = rights.GRANT


def _server_permissions(context: Context) -> Iterator[Permission]:
    engine = context.engine
    yield Permission(THE_SERVER, "CONNECT SQL", SA_ID, SA)
    for login in engine.logins.values():
        yield Permission(THE_SERVER, "CONNECT SQL", login.principal_id, login.name)
    yield Permission(THE_SERVER, "VIEW ANY DATABASE", SERVER_ROLE_IDS["public"], "public")
    for permission in context.instance.grants.permissions(SERVER):
        login = engine.logins.get(permission.grantee)
        grantee = SERVER_ROLE_IDS.get(permission.grantee) if login is None else login.principal_id
        if grantee is not None:
            yield Permission(permission.securable, permission.permission, grantee, permission.grantee, permission.state)


def _server_permissions_seen(database: Database, guard: Guard) -> Sees:
    """ "Any user can see their own permissions"; those of others with ALTER ANY LOGIN or VIEW ANY DEFINITION."""
    sees_all = guard.allows_on_server("ALTER ANY LOGIN") or guard.allows_on_server("VIEW ANY DEFINITION")
    principals = guard.server_principals()
    return lambda row: sees_all or row.grantee.lower() in principals


def _permissions_seen(database: Database, guard: Guard) -> Sees:
    """ "Any user can see their own permissions. To see permissions for other users, requires VIEW DEFINITION, ALTER ANY
    USER, or any permission on a user." """
    sees_all = any(
        guard.allows(database, "DATABASE", 0, permission) for permission in ("VIEW DEFINITION", "ALTER ANY USER")
    )
    principals = guard.database_principals(database)
    return lambda row: sees_all or row.grantee.lower() in principals


def _database_permissions(context: Context) -> Iterator[Permission]:
    database = context.database
    of_database = Securable(database.database_id, "DATABASE", 0)
    yield Permission(of_database, "CONNECT", DBO_ID, DBO)
    for user in database.catalog.principals.users.values():
        yield Permission(of_database, "CONNECT", user.principal_id, user.name)
    roles = FIXED_USER_IDS | DATABASE_ROLE_IDS
    for permission in context.instance.grants.permissions(database.database_id):
        known_user = database.catalog.principals.users.get(permission.grantee)
        grantee = roles.get(permission.grantee) if known_user is None else known_user.principal_id
        if grantee is not None:
            yield Permission(permission.securable, permission.permission, grantee, permission.grantee, permission.state)


# -- views -------------------------------------------------------------------------------------------------------------


def _certificates(context: Context) -> Iterator[SimpleNamespace]:
    for certificate in context.database.catalog.principals.certificates.values():
        owner = certificate.owner.lower()
        user = context.database.catalog.principals.users.get(owner)
        principal_id = FIXED_USER_IDS.get(owner, DBO_ID) if user is None else user.principal_id
        yield SimpleNamespace(certificate=certificate, principal_id=principal_id)


def _signatures(context: Context) -> Iterator[SimpleNamespace]:
    instance = context.instance
    for module in (module for module in instance.modules() if module.database_id == context.database.database_id):
        for thumbprint, signature in instance.grants.signatures(module.securable).items():
            certificate, signed = bytes.fromhex(thumbprint), bytes.fromhex(signature)
            yield SimpleNamespace(object_id=module.object_id, thumbprint=certificate, signature=signed)


def _protection(certificate: Certificate) -> tuple[str, str]:
    if certificate.private_key is None:
        return "NA", "NO_PRIVATE_KEY"
    return ("PW", "ENCRYPTED_BY_PASSWORD") if certificate.has_password else ("MK", "ENCRYPTED_BY_MASTER_KEY")


PERMISSION_COLUMNS = """
        class                 tinyint NOT NULL
        class_desc            nvarchar(60)
        major_id              int NOT NULL      <- securable.id
        minor_id              int NOT NULL      = 0
        grantee_principal_id  int NOT NULL
        grantor_principal_id  int NOT NULL      = 1
        permission_name       nvarchar(128)     <- permission
        state                 char(1) NOT NULL
        state_desc            nvarchar(60)
        """
PERMISSION_VALUES: dict[str, Any] = {
    "class": lambda grant: CLASSES[grant.securable.securable_class][0],
    "class_desc": lambda grant: CLASSES[grant.securable.securable_class][1],
    "state": lambda grant: grant.state_desc[0],
}
VIEWS = [
    View(
        "server_principals",
        """
        name                   sysname NOT NULL
        principal_id           int NOT NULL
        type                   char(1) NOT NULL
        type_desc              nvarchar(60)
        is_disabled            bit
        default_database_name  sysname
        sid                    varbinary(85)
        """,
        server_principals,
        type_desc=lambda principal: KINDS[principal.type][0],
        visible=logins_seen,
    ),
    View(
        "database_principals",
        """
        name                 sysname NOT NULL
        principal_id         int NOT NULL
        type                 char(1) NOT NULL
        type_desc            nvarchar(60)
        default_schema_name  sysname
        sid                  varbinary(85)
        """,
        database_principals,
        type_desc=lambda principal: KINDS[principal.type][1],
        default_schema_name=lambda principal: "dbo" if principal.type == "S" else None,
        visible=users_seen,
    ),
    View(
        "login_token",
        """
        principal_id  int
        sid           varbinary(85)
        name          nvarchar(128)
        type          nvarchar(128)
        usage         nvarchar(128)  = 'GRANT OR DENY'
        """,
        _login_token,
        type=lambda principal: {"S": "SQL LOGIN", "R": "SERVER ROLE"}.get(
            principal.type, "LOGIN MAPPED TO CERTIFICATE"
        ),
        visible=everybody,
    ),
    View(
        "database_role_members",
        """
        role_principal_id    int NOT NULL  <- role_id
        member_principal_id  int NOT NULL  <- principal_id
        """,
        _members,
        visible=users_seen,
    ),
    View(
        "server_permissions",
        PERMISSION_COLUMNS,
        _server_permissions,
        **PERMISSION_VALUES,
        visible=_server_permissions_seen,
    ),
    View(
        "database_permissions",
        PERMISSION_COLUMNS,
        _database_permissions,
        **PERMISSION_VALUES,
        visible=_permissions_seen,
    ),
    View(
        "certificates",
        """
        name                          sysname NOT NULL  <- certificate.name
        certificate_id                int NOT NULL      <- certificate.certificate_id
        principal_id                  int
        pvt_key_encryption_type       char(2)
        pvt_key_encryption_type_desc  nvarchar(60)
        is_active_for_begin_dialog    bit               <- certificate.is_active_for_begin_dialog
        subject                       nvarchar(4000)    <- certificate.subject
        start_date                    datetime          <- certificate.start_ns
        expiry_date                   datetime          <- certificate.expiry_ns
        thumbprint                    varbinary(32)     <- certificate.thumbprint
        """,
        _certificates,
        pvt_key_encryption_type=lambda row: _protection(row.certificate)[0],
        pvt_key_encryption_type_desc=lambda row: _protection(row.certificate)[1],
        visible=securable("CERTIFICATE", "certificate.certificate_id", first_user_id=0),
    ),
    View(
        "crypt_properties",
        """
        class           tinyint NOT NULL        = 1
        class_desc      nvarchar(60)            = 'OBJECT_OR_COLUMN'
        major_id        int NOT NULL            <- object_id
        thumbprint      varbinary(32) NOT NULL
        crypt_type      char(4) NOT NULL        = 'SPVC'
        crypt_type_desc nvarchar(60)            = 'SIGNATURE BY CERTIFICATE'
        crypt_property  varbinary(MAX) NOT NULL <- signature
        """,
        _signatures,
        visible=owners,
    ),
    View(
        "symmetric_keys",
        """
        name              sysname NOT NULL  = '##MS_DatabaseMasterKey##'
        principal_id      int               = 1
        symmetric_key_id  int NOT NULL      = 101
        """,
        lambda context: [()] if context.database.catalog.principals.has_master_key else [],
        visible=with_permission("CONTROL", "VIEW DEFINITION"),
    ),
    View(  # always empty: no statement creates one
        "asymmetric_keys",
        """
        name                          sysname NOT NULL        = NULL
        principal_id                  int                     = NULL
        asymmetric_key_id             int NOT NULL            = NULL
        pvt_key_encryption_type       char(2) NOT NULL        = NULL
        pvt_key_encryption_type_desc  nvarchar(60)            = NULL
        thumbprint                    varbinary(32) NOT NULL  = NULL
        algorithm                     char(2) NOT NULL        = NULL
        """,
        lambda context: (),
        visible=owners,
    ),
]
