"""Names and ids of databases, objects, logins, users and the like; their roles and permissions.

"Metadata-emitting, built-in functions such as OBJECT_ID may return NULL if the user does not have any permission on the
object": they see what the views see.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

from harness.embedded.broker.database import Database
from harness.embedded.broker.definitions import Certificate, Login, User
from harness.embedded.errors import SqlServerError
from harness.embedded.sqltypes import INT, MAX, SMALLINT, SYSNAME, Column, SqlType
from harness.embedded.tsql.catalog import data_types
from harness.embedded.tsql.catalog.column_views import columns_of
from harness.embedded.tsql.catalog.constraints import Constraint, constraints
from harness.embedded.tsql.catalog.object_views import FUNCTION_TYPES, SYSTEM_OBJECTS, is_ms_shipped
from harness.embedded.tsql.catalog.system_views import EVENT_TYPES, shown
from harness.embedded.tsql.instance import securables
from harness.embedded.tsql.instance.modules import FIRST, LAST, Module, Trigger, UserFunction
from harness.embedded.tsql.permissions import rights
from harness.embedded.tsql.session.session import Frame
from harness.embedded.tsql.storage.conversion import DATES, DECIMALS, INTEGER_RANGES
from harness.embedded.tsql.storage.tables import Table
from harness.embedded.tsql.text.tokens import name_parts
from harness.embedded.tsql.translation.fragments import NVARCHAR_MAX
from harness.embedded.tsql.translation.functions.kinds import (
    Functions,
    in_python,
    in_session,
    of_frame,
    without_or_with_arguments,
)


def db_id(frame: Frame, name: Any = "") -> int | None:
    database = frame.instance.engine.databases.get(str(name).lower()) if name else frame.database
    return database.database_id if database is not None and name is not None and _sees(frame, database) else None


def db_name(frame: Frame, identifier: int | None) -> str | None:
    databases = frame.instance.engine.databases
    return next(
        (
            database.name
            for database in databases.values()
            if database.database_id == identifier and _sees(frame, database)
        ),
        None,
    )


def _sees(frame: Frame, database: Database) -> bool:
    guard = frame.session.guard
    return guard is None or database is frame.database or guard.sees_database(database)


def object_id(frame: Frame, name: Any, kind: Any = "") -> int | None:
    """OBJECT_ID ( 'name' [ , 'type' ] )"""
    if name is None or not (parts := name_parts(str(name))):
        return None
    try:
        database, schema, last = frame.instance.located(parts, frame.database, frame.session.guard)
    except SqlServerError:
        return None
    kind = str(kind or "").strip().upper()
    if last.startswith("#"):
        table = frame.user_table(parts) if database.name == "tempdb" else None
        return table.object_id if table is not None and kind in ("", "U") else None
    key = f"{schema}.{last}".lower()
    matches = {
        "U": frame.instance.tables.get((database.database_id, key)),
        "P": frame.instance.procedures.get((database.database_id, key)),
        "TR": frame.instance.triggers.get((database.database_id, key)),
        "V": frame.instance.views.get((database.database_id, key)),
        **{type_: _function(frame, (database.database_id, key), type_) for type_ in FUNCTION_TYPES},
        "SQ": database.catalog.queues.get(key),
    }
    for type_, item in matches.items():
        if item is not None and kind in ("", type_):
            return item.object_id if _sees_object(frame, database, item, type_) else None
    for constraint in _constraints(frame, database.database_id):
        if f"{constraint.schema}.{constraint.name}".lower() == key and kind in ("", constraint.type):
            return constraint.object_id if _sees_object(frame, database, constraint.table, "U") else None
    systems = (system for system in _system_objects(database) if kind in ("", system.type))
    return next((system.object_id for system in systems if f"{system.schema}.{system.name}".lower() == key), None)


class _SystemObject(NamedTuple):
    schema: str
    name: str
    object_id: int
    type: str


def _system_objects(database: Database) -> Iterator[_SystemObject]:
    for name, object_id in SYSTEM_OBJECTS.items():
        yield _SystemObject("sys", name, object_id, "S")
    for view, row in shown(database):
        yield _SystemObject(view.name.rpartition(".")[0] or "sys", row.name, row.object_id, "V")


def parsename(name: str, piece: int) -> str | None:
    """PARSENAME ( 'name' , piece ), whose pieces count from the end."""
    parts = name_parts(name)
    return (parts[-piece] or None) if 1 <= piece <= len(parts) else None


def _function(frame: Frame, key: tuple[int, str], type_: str) -> UserFunction | None:
    function = frame.instance.functions.get(key)
    return function if function is not None and function.type == type_ else None


def _object(frame: Frame, identifier: Any, database_id: Any) -> Any:
    return _typed_object(frame, identifier, database_id)[1]


def _any_object(frame: Frame, identifier: Any, database_id: Any) -> Any:
    """The same, or the view or base table of the system with that object_id."""
    systems = (system for system in _system_objects(frame.database) if system.object_id == identifier)
    return _object(frame, identifier, database_id) or next(systems, None)


def _typed_object(frame: Frame, identifier: Any, database_id: Any = None) -> tuple[str, Any]:
    """The table, constraint, module or queue with that object_id in a database, by default the current one, and before
    it its type as in sys.objects; None if it is unknown."""
    wanted_id = frame.database.database_id if database_id is None else database_id
    database = frame.instance.engine.databases.by_id(wanted_id)
    if database is None:
        return "", None
    families: dict[str, Iterable[Any]] = {
        "U": frame.instance.tables.values(),
        "P": frame.instance.procedures.values(),
        "TR": frame.instance.triggers.values(),
        "V": frame.instance.views.values(),
        **{type_: [f for f in frame.instance.functions.values() if f.type == type_] for type_ in FUNCTION_TYPES},
        "SQ": database.catalog.queues.values(),
    }
    for type_, items in families.items():
        for item in items:
            if item.object_id == identifier and item.database_id == wanted_id:
                return type_, item if _sees_object(frame, database, item, type_) else None
    for constraint in _constraints(frame, wanted_id):
        if constraint.object_id == identifier:
            return constraint.type, constraint if _sees_object(frame, database, constraint.table, "U") else None
    return "", None


def _constraints(frame: Frame, database_id: int) -> Iterator[Constraint]:
    for table in frame.instance.tables.values():
        if table.database_id == database_id:
            yield from constraints(table)


def _sees_object(frame: Frame, database: Database, item: Any, type_: str) -> bool:
    """Whether it sees a table, procedure or queue; a trigger is seen with its table."""
    guard = frame.session.guard
    identifier, type_ = (item.table_id, "U") if isinstance(item, Trigger) else (item.object_id, type_)
    return guard is None or is_ms_shipped(identifier) == 1 or guard.sees(database, "OBJECT", identifier, type_)


def object_definition(frame: Frame, identifier: int | None) -> str | None:
    """OBJECT_DEFINITION ( object_id ): the text of a module, default or CHECK; NULL without VIEW DEFINITION on it."""
    item = _object(frame, identifier, None)
    if isinstance(item, Constraint):
        secured, text = item.table.object_id, item.definition or None
    elif isinstance(item, Module):
        secured, text = item.table_id if isinstance(item, Trigger) else item.object_id, item.text
    else:
        return None
    guard = frame.session.guard
    return text if guard is None or guard.allows(frame.database, "OBJECT", secured, "VIEW DEFINITION") else None


def object_name(frame: Frame, identifier: int | None, database_id: int | None = None) -> str | None:
    """OBJECT_NAME ( object_id [ , database_id ] )"""
    item = _any_object(frame, identifier, database_id)
    return None if item is None else str(item.name)


def object_schema_name(frame: Frame, identifier: int | None, database_id: int | None = None) -> str | None:
    """OBJECT_SCHEMA_NAME ( object_id [ , database_id ] )"""
    item = _any_object(frame, identifier, database_id)
    return None if item is None else str(item.schema)


def _columns(frame: Frame, identifier: Any) -> Sequence[Column]:
    item = _object(frame, identifier, None)
    return item.columns if isinstance(item, Table) else columns_of(frame.session, item)


def col_name(frame: Frame, identifier: int | None, number: int | None) -> str | None:
    """COL_NAME ( table_id , column_id )"""
    columns = _columns(frame, identifier)
    return columns[number - 1].name if number is not None and 1 <= number <= len(columns) else None


def col_length(frame: Frame, table: Any, column: Any) -> int | None:
    """COL_LENGTH ( 'table' , 'column' ): bytes, -1 for (max); NULL for an unknown column."""
    columns = _columns(frame, object_id(frame, table))
    types = (each.type for each in columns if each.name.lower() == str(column).lower())
    return next(map(data_types.max_length, types), None)


def type_name(frame: Frame, identifier: int | None) -> str | None:
    """TYPE_NAME ( type_id )"""
    types = [(type_.id, type_.name) for type_ in data_types.TYPES.values()]
    types += [(type_.object_id, type_.name) for type_ in frame.instance.types.values()]
    return next((name for number, name in types if number == identifier), None)


def type_id(frame: Frame, name: Any) -> int | None:
    """TYPE_ID ( [ schema . ] type )"""
    if name is None or not (parts := name_parts(str(name))):
        return None
    user_type = frame.instance.user_type(frame.database.database_id, parts)
    if user_type is not None:
        return user_type.object_id
    type_ = data_types.TYPES.get(parts[-1].lower())
    return None if type_ is None else type_.id


def collation_property(frame: Frame, collation: Any, property_name: Any) -> str | None:
    """COLLATIONPROPERTY ( collation_name , property ) of the one collation; SqlCharSetName is in no manual."""
    properties = {
        "codepage": "1252",
        "comparisonstyle": "196609",
        "lcid": "1033",
        "version": "0",
        "sqlcharsetname": "iso_1",
    }
    is_known = str(collation).lower() == data_types.COLLATION.lower()
    return properties.get(str(property_name).lower()) if is_known else None


def odbc_scale(frame: Frame, identifier: Any, scale: Any) -> int | None:
    """ODBCSCALE ( system_type_id , scale ), which no manual has: the scale of a number or a moment, of which those of
    INFORMATION_SCHEMA.COLUMNS and SqlTableDependency are made; NULL for another type."""
    name = type_name(frame, identifier)
    return scale if name in _EXACT_NUMBERS or name in DATES or name == "datetimeoffset" else None


_EXACT_NUMBERS = (frozenset(INTEGER_RANGES) | DECIMALS) - {"bit"}


def column_property(frame: Frame, identifier: int | None, column: Any, property_name: Any) -> int | None:
    """COLUMNPROPERTY ( id , column , property ) of a table or view; NULL for an unknown column or property."""
    columns = _columns(frame, identifier)
    place = next((n for n, each in enumerate(columns) if each.name.lower() == str(column).lower()), None)
    if place is None:
        return None
    type_ = columns[place].type
    properties: dict[str, int | None] = {
        "allowsnull": int(columns[place].nullable),
        "charmaxlen": type_.length or None,
        "columnid": place + 1,
        "ordinal": place + 1,
        "iscomputed": 0,
        "isidentity": int(columns[place].is_identity),
        "octetmaxlen": data_types.max_length(type_) if type_.length else None,
        "precision": data_types.precision(type_),
        "scale": data_types.scale(type_),
    }
    return properties.get(str(property_name).lower())


_CONSTRAINTS = {"primarykey": "PK", "uniquecnst": "UQ", "foreignkey": "F", "checkcnst": "C", "defaultcnst": "D"}
# Properties that say what an object is, with its types in sys.objects
_IS_OF = {
    **{f"is{kind}": (type_,) for kind, type_ in _CONSTRAINTS.items()},
    "isconstraint": tuple(_CONSTRAINTS.values()),
    "isinlinefunction": ("IF",),
    "isprocedure": ("P",),
    "isqueue": ("SQ",),
    "isscalarfunction": ("FN",),
    "issystemtable": (),
    "istable": ("U",),
    "istablefunction": ("IF", "TF"),
    "istrigger": ("TR",),
    "isusertable": ("U",),
    "isview": ("V",),
}


def object_property(frame: Frame, identifier: int | None, property_name: Any) -> int | None:
    """OBJECTPROPERTY ( id , property ); NULL for an unknown object, or a property that it does not have."""
    type_, item = _typed_object(frame, identifier)
    if item is None:
        return None
    properties: dict[str, Any] = {
        **{name: type_ in types for name, types in _IS_OF.items()},
        "ismsshipped": is_ms_shipped(item.object_id),
        "ownerid": rights.DBO_ID,
        "schemaid": frame.database.catalog.schema_id(item.schema),
    }
    if isinstance(item, Table):
        events = {event for trigger in frame.instance.triggers_on(item) for event in trigger.events}
        properties |= {f"tablehas{event.lower()}trigger": event in events for event in EVENT_TYPES}
        kinds = {constraint.type for constraint in constraints(item)}
        properties |= {f"tablehas{kind}": type_ in kinds for kind, type_ in _CONSTRAINTS.items()}
        properties["tablehasidentity"] = item.identity is not None
    if isinstance(item, Module):
        properties |= {"execisansinullson": 1, "execisquotedidenton": 1, "isencrypted": 0}
    if isinstance(item, Trigger):
        properties |= {f"execis{event.lower()}trigger": event in item.events for event in EVENT_TYPES}
        properties |= {"execisaftertrigger": not item.is_instead, "execisinsteadoftrigger": item.is_instead}
        properties |= {"execistriggerdisabled": item.is_disabled}
        for event in EVENT_TYPES:
            properties[f"execisfirst{event.lower()}trigger"] = item.order.get(event) == FIRST
            properties[f"execislast{event.lower()}trigger"] = item.order.get(event) == LAST
    value = properties.get(str(property_name).lower())
    return None if value is None else int(value)


def schema_identifier(frame: Frame, name: Any = rights.DBO) -> int | None:
    """SCHEMA_ID ( [ schema_name ] )"""
    schema = frame.database.catalog.schemas.get(str(name).lower())
    return None if schema is None else schema.schema_id


def schema_name(frame: Frame, identifier: int | None = 1) -> str | None:
    return frame.database.catalog.schema_name(identifier)


def cert_id(frame: Frame, name: Any) -> int | None:
    certificate = _seen(frame, frame.database.catalog.principals.certificate(str(name)))
    return None if certificate is None else certificate.certificate_id


def cert_encoded(frame: Frame, identifier: int | None) -> bytes | None:
    certificates = frame.database.catalog.principals.certificates.values()
    certificate = _seen(
        frame, next((candidate for candidate in certificates if candidate.certificate_id == identifier), None)
    )
    return None if certificate is None else certificate.blob


def _seen(frame: Frame, certificate: Certificate | None) -> Certificate | None:
    guard = frame.session.guard
    if certificate is None or guard is None or guard.sees(frame.database, "CERTIFICATE", certificate.certificate_id):
        return certificate
    return None


def database_property(frame: Frame, name: Any, property_name: Any) -> str | None:
    """DATABASEPROPERTYEX ( database , property ), for the properties that scripts ask for"""
    database = frame.instance.engine.databases.get(str(name).lower())
    if database is None or not _sees(frame, database):
        return None
    options = database.catalog.shown_options
    values = {
        "collation": data_types.COLLATION,
        "isautoclose": int(options["AUTO_CLOSE"] == "ON"),
        "isautoshrink": int(options["AUTO_SHRINK"] == "ON"),
        "recovery": options["RECOVERY"],
        "status": "ONLINE",
        "updateability": "READ_WRITE",
        "useraccess": options["USER_ACCESS"],
    }
    value = values.get(str(property_name).lower())
    return None if value is None else str(value)


def file_property(frame: Frame, name: Any, property_name: Any) -> int | None:
    """FILEPROPERTY: this server does not count the pages that a file uses."""
    return None


def full_text_property(frame: Frame, property_name: Any) -> int:
    """FULLTEXTSERVICEPROPERTY: this server has no full-text search."""
    return 0


# -- logins and users --------------------------------------------------------------------------------------------------


def has_perms_by_name(frame: Frame, securable: Any, class_: Any, permission: Any) -> int | None:
    """HAS_PERMS_BY_NAME ( securable, securable_class, permission ); NULL for invalid arguments.

    Without a class the securable is the server.
    """
    kind = "SERVER" if class_ is None else str(class_).upper()
    permission_name = str(permission or "").upper()
    if (
        kind not in rights.VALID
        or permission_name not in rights.VALID[kind]
        or (securable is None) != (kind == "SERVER")
    ):
        return None
    if not (parts := _securable_name(kind, str(securable))):
        return None
    try:
        target = securables.find(frame, kind, parts)
    except SqlServerError:
        return None
    if target is None:
        return 0 if kind == "DATABASE" else None
    return int(securables.is_held(frame, target, permission_name))


def _securable_name(kind: str, name: str) -> tuple[str, ...]:
    """An object has a name of parts; any other securable has one name, which may be quoted."""
    if kind == "OBJECT" or name.startswith(("[", '"')):
        return name_parts(name)
    return (name,)


def is_srvrolemember(frame: Frame, role: Any) -> int | None:
    """IS_SRVROLEMEMBER ( 'role' ); NULL if the role is unknown."""
    name = str(role).lower()
    if name not in rights.SERVER_ROLE_IDS:
        return None
    if frame.session.guard is None:
        return 1  # a sysadmin counts as a member of every role
    return int(name in frame.session.guard.server_principals())


def is_member(frame: Frame, role: Any) -> int | None:
    """IS_MEMBER ( 'role' ); NULL if the role is unknown. dbo is a member of db_owner."""
    name = str(role).lower()
    if name not in rights.DATABASE_ROLES:
        return None
    guard = frame.session.guard
    if guard is None:
        return int(name in ("db_owner", "public"))
    names = guard.database_principals(frame.database)
    return int(name in names or (name == "db_owner" and names[:1] == (rights.DBO,)))


def login_name(frame: Frame) -> str:
    """The login; in a module that executes as a user, the login of that user."""
    guard = frame.session.guard
    if guard is None or guard.login:
        return str(frame.session.login)
    user = frame.session.user_name()
    if user == rights.DBO:
        owner = frame.instance.grants.owner(rights.Securable(frame.database.database_id, "DATABASE", 0))
        login = frame.instance.engine.logins.get(owner or "")
        return rights.SA if login is None else str(login.name)
    user_ = frame.database.catalog.principals.users.get(user.lower())
    return str(user_.login if user_ is not None and user_.login is not None else user)


def current_user(frame: Frame) -> str:
    return str(frame.session.user_name(frame.database))


def suser_id(frame: Frame, name: Any = None) -> int | None:
    key = str(name or login_name(frame)).lower()
    login = frame.instance.engine.logins.get(key)
    if login is not None:
        return login.principal_id if name is None or _sees_login(frame, login) else None
    return rights.SA_ID if key == rights.SA else rights.SERVER_ROLE_IDS.get(key)


def suser_sname(frame: Frame, sid: Any) -> str | None:
    """SUSER_SNAME ( sid ); NULL if the sid is unknown."""
    for login in frame.instance.engine.logins.values():
        if rights.sid_of(login.principal_id) == sid:
            return login.name if _sees_login(frame, login) else None
    return rights.SA if sid == rights.sid_of(rights.SA_ID) else None


def suser_name(frame: Frame, number: int | None) -> str | None:
    """SUSER_NAME ( id ); NULL if the id is unknown."""
    return None if number is None or number < 0 else suser_sname(frame, rights.sid_of(number))


def suser_sid(frame: Frame, name: Any = None) -> bytes | None:
    """SUSER_SID ( [ login ] ); NULL if the login is unknown."""
    number = suser_id(frame, name)
    return None if number is None else rights.sid_of(number)


def user_id(frame: Frame, name: Any = None) -> int | None:
    key = str(name or current_user(frame)).lower()
    user = frame.database.catalog.principals.users.get(key)
    if user is not None:
        return user.principal_id if name is None or _sees_user(frame, user) else None
    return rights.FIXED_USER_IDS.get(key, rights.DATABASE_ROLE_IDS.get(key))


def user_name(frame: Frame, identifier: int | None = None) -> str | None:
    if identifier is None:
        return current_user(frame)
    for user in frame.database.catalog.principals.users.values():
        if user.principal_id == identifier:
            return user.name if _sees_user(frame, user) else None
    fixed = rights.FIXED_USER_IDS | rights.DATABASE_ROLE_IDS
    return next((name for name, number in fixed.items() if number == identifier), None)


def _sees_login(frame: Frame, login: Login | None) -> bool:
    guard = frame.session.guard
    return login is not None and (guard is None or guard.sees_login(login.name))


def _sees_user(frame: Frame, user: User | None) -> bool:
    guard = frame.session.guard
    return user is not None and (guard is None or guard.sees_user(frame.database, user.name, user.principal_id))


FUNCTIONS: Functions = {
    "CERTENCODED": in_session(cert_encoded, SqlType("varbinary", length=MAX)),
    "CERT_ID": in_session(cert_id, INT),
    "COLLATIONPROPERTY": in_session(collation_property, NVARCHAR_MAX),
    "COL_NAME": in_session(col_name, SYSNAME),
    "COL_LENGTH": in_session(col_length, SMALLINT),
    "COLUMNPROPERTY": in_session(column_property, INT),
    "CURRENT_USER": of_frame("@user", SYSNAME, current_user),
    "DB_ID": in_session(db_id, SMALLINT),
    "DB_NAME": without_or_with_arguments(
        of_frame("@database", SYSNAME, lambda frame: frame.database.name), in_session(db_name, SYSNAME)
    ),
    "DATABASEPROPERTYEX": in_session(database_property, NVARCHAR_MAX),
    "FILEPROPERTY": in_session(file_property, INT),
    "FULLTEXTSERVICEPROPERTY": in_session(full_text_property, INT),
    "HAS_PERMS_BY_NAME": in_session(has_perms_by_name, INT),
    "IS_MEMBER": in_session(is_member, INT),
    "IS_SRVROLEMEMBER": in_session(is_srvrolemember, INT),
    "OBJECTPROPERTY": in_session(object_property, INT),
    "OBJECT_DEFINITION": in_session(object_definition, NVARCHAR_MAX),
    "OBJECT_ID": in_session(object_id, INT),
    "OBJECT_NAME": in_session(object_name, SYSNAME),
    "OBJECT_SCHEMA_NAME": in_session(object_schema_name, SYSNAME),
    "ODBCSCALE": in_session(odbc_scale, INT),
    "ORIGINAL_LOGIN": of_frame("@login", SYSNAME, lambda frame: frame.session.login),
    "PARSENAME": in_python("parsename", parsename, SYSNAME),
    "SCHEMA_ID": in_session(schema_identifier, INT),
    "SCHEMA_NAME": in_session(schema_name, SYSNAME),
    "SESSION_USER": of_frame("@user", SYSNAME, current_user),
    "SUSER_ID": in_session(suser_id, INT),
    "SUSER_NAME": without_or_with_arguments(of_frame("@context", SYSNAME, login_name), in_session(suser_name, SYSNAME)),
    "SUSER_SID": in_session(suser_sid, SqlType("varbinary", length=85)),
    "SUSER_SNAME": without_or_with_arguments(
        of_frame("@context", SYSNAME, login_name), in_session(suser_sname, SYSNAME)
    ),
    "SYSTEM_USER": of_frame("@context", SYSNAME, login_name),
    "TYPE_ID": in_session(type_id, INT),
    "TYPE_NAME": in_session(type_name, SYSNAME),
    "USER": of_frame("@user", SYSNAME, current_user),
    "USER_ID": in_session(user_id, INT),
    "USER_NAME": in_session(user_name, SYSNAME),
}
