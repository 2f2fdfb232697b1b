"""Functions about logins and users: their names and ids, their roles and permissions."""

from __future__ import annotations

from typing import Any

from harness.embedded.errors import SqlServerError
from harness.embedded.sqltypes import INT, SYSNAME
from harness.embedded.tsql.instance import securables
from harness.embedded.tsql.permissions.grants import SERVER, Securable
from harness.embedded.tsql.permissions.rights import (
    DATABASE_ROLE_IDS,
    DATABASE_ROLES,
    DBO,
    FIXED_USER_IDS,
    SA,
    SA_ID,
    SERVER_ROLE_IDS,
    SYSADMIN,
    VALID,
    sid_of,
)
from harness.embedded.tsql.session.frame import Frame
from harness.embedded.tsql.text.tokens import Tokens
from harness.embedded.tsql.translation.functions.kinds import (
    Functions,
    in_session,
    of_frame,
    without_or_with_arguments,
)

ANY = "ANY"


def has_perms_by_name(frame: Frame, securable: Any, class_: Any, permission: Any) -> int | None:
    """HAS_PERMS_BY_NAME ( securable, securable_class, permission ); NULL for invalid arguments.

    Without a class the securable is the server. ANY means at least one permission.
    """
    kind = "SERVER" if class_ is None else str(class_).upper()
    wanted = str(permission or "").upper()
    if kind not in VALID or (wanted != ANY and wanted not in VALID[kind]) or (securable is None) != (kind == "SERVER"):
        return None
    try:
        parts = _parts(kind, str(securable))
        found = securables.find(frame, kind, parts)
    except SqlServerError:
        return None
    if found is None:
        return 0 if kind == "DATABASE" else None
    permissions = sorted(VALID[kind]) if wanted == ANY else [wanted]
    return int(any(securables.is_held(frame, found, one) for one in permissions))


def _parts(kind: str, name: str) -> tuple[str, ...]:
    """An object has a name of parts; any other securable has one name, which may be quoted."""
    if kind == "OBJECT" or name.startswith(("[", '"')):
        return Tokens(name).object_name()
    return (name,)


def is_srvrolemember(frame: Frame, role: Any, login: Any = None) -> int | None:
    """IS_SRVROLEMEMBER ( 'role' [ , 'login' ] ); NULL if the role or login is unknown."""
    name = str(role).lower()
    if name not in SERVER_ROLE_IDS:
        return None
    if login is None:
        if frame.session.guard is None:
            return 1  # a sysadmin counts as a member of every role
        return int(name in frame.session.guard.server_principals())
    member = str(login).lower()
    if member != SA and member not in frame.instance.engine.logins:
        return None
    grants = frame.instance.grants
    is_sysadmin = member == SA or grants.is_member(SERVER, SYSADMIN, member)
    return int(is_sysadmin or name == "public" or grants.is_member(SERVER, name, member))


def is_rolemember(frame: Frame, role: Any, user: Any = None) -> int | None:
    """IS_ROLEMEMBER ( 'role' [ , 'user' ] ); NULL if the role or user is unknown."""
    name = str(role).lower()
    if name not in DATABASE_ROLES:
        return None
    if user is None:
        return is_member(frame, role)
    member = str(user).lower()
    if member != DBO and member not in frame.database.catalog.principals.users:
        return None
    is_it = name == "public" or frame.instance.grants.is_member(frame.database.database_id, name, member)
    return int(is_it or (member == DBO and name == "db_owner"))


def is_member(frame: Frame, role: Any) -> int | None:
    """IS_MEMBER ( 'role' ); NULL if the role is unknown. dbo is a member of db_owner."""
    name = str(role).lower()
    if name not in DATABASE_ROLES:
        return None
    guard = frame.session.guard
    if guard is None:
        return int(name in ("db_owner", "public"))
    names = guard.database_principals(frame.database)
    return int(name in names or (name == "db_owner" and names[:1] == (DBO,)))


def login_name(frame: Frame) -> str:
    """The login; in a module that executes as a user, the login of that user."""
    guard = frame.session.guard
    if guard is None or guard.login:
        return str(frame.session.login)
    user = frame.session.user_name()
    if user == DBO:
        owner = frame.instance.grants.owner(Securable(frame.database.database_id, "DATABASE", 0))
        login = frame.instance.engine.logins.get(owner or "")
        return SA if login is None else str(login.name)
    found = frame.database.catalog.principals.users.get(user.lower())
    return str(found.login if found is not None and found.login is not None else user)


def current_user(frame: Frame) -> str:
    return str(frame.session.user_name(frame.database))


def suser_id(frame: Frame, name: Any = None) -> int | None:
    key = str(name or login_name(frame)).lower()
    login = frame.instance.engine.logins.get(key)
    if login is not None:
        return login.principal_id
    return SA_ID if key == SA else SERVER_ROLE_IDS.get(key)


def suser_name(frame: Frame, identifier: Any = None) -> str | None:
    if identifier is None:
        return login_name(frame)
    for login in frame.instance.engine.logins.values():
        if login.principal_id == identifier:
            return login.name
    return SA if identifier == SA_ID else _name_of(SERVER_ROLE_IDS, identifier)


def _name_of(identifiers: dict[str, int], identifier: Any) -> str | None:
    return next((name for name, number in identifiers.items() if number == identifier), None)


def suser_sname(frame: Frame, sid: Any) -> str | None:
    """SUSER_SNAME ( sid ); NULL if the sid is unknown."""
    for login in frame.instance.engine.logins.values():
        if sid_of(login.principal_id) == sid:
            return login.name
    return SA if sid == sid_of(SA_ID) else None


def user_id(frame: Frame, name: Any = None) -> int | None:
    key = str(name or current_user(frame)).lower()
    user = frame.database.catalog.principals.users.get(key)
    return user.principal_id if user is not None else FIXED_USER_IDS.get(key, DATABASE_ROLE_IDS.get(key))


def user_name(frame: Frame, identifier: Any = None) -> str | None:
    if identifier is None:
        return current_user(frame)
    for user in frame.database.catalog.principals.users.values():
        if user.principal_id == identifier:
            return user.name
    return _name_of(FIXED_USER_IDS | DATABASE_ROLE_IDS, identifier)


FUNCTIONS: Functions = {
    "CURRENT_USER": of_frame("@user", SYSNAME, current_user),
    "HAS_PERMS_BY_NAME": in_session("HAS_PERMS_BY_NAME", has_perms_by_name, INT, least=3),
    "IS_MEMBER": in_session("IS_MEMBER", is_member, INT, least=1),
    "IS_ROLEMEMBER": in_session("IS_ROLEMEMBER", is_rolemember, INT, least=1, most=2),
    "IS_SRVROLEMEMBER": in_session("IS_SRVROLEMEMBER", is_srvrolemember, INT, least=1, most=2),
    "ORIGINAL_LOGIN": of_frame("@login", SYSNAME, lambda frame: frame.session.login),
    "SUSER_ID": in_session("SUSER_ID", suser_id, INT, least=0, most=1),
    "SUSER_NAME": in_session("SUSER_NAME", suser_name, SYSNAME, least=0, most=1),
    "SUSER_SNAME": without_or_with_arguments(
        of_frame("@context", SYSNAME, login_name), in_session("SUSER_SNAME", suser_sname, SYSNAME, least=1)
    ),
    "SYSTEM_USER": of_frame("@context", SYSNAME, login_name),
    "USER": of_frame("@user", SYSNAME, current_user),
    "USER_ID": in_session("USER_ID", user_id, INT, least=0, most=1),
    "USER_NAME": in_session("USER_NAME", user_name, SYSNAME, least=0, most=1),
}
