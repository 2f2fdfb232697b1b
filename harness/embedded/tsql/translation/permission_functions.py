"""Functions that say who one is and what one may: HAS_PERMS_BY_NAME, IS_SRVROLEMEMBER and their kin."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from harness.embedded.errors import SqlServerError
from harness.embedded.sqltypes import INT, SYSNAME
from harness.embedded.tsql.instance import securables
from harness.embedded.tsql.permissions.fixed_principals import DATABASE_ROLES, DBO, SERVER_ROLE_IDS, SYSADMIN
from harness.embedded.tsql.permissions.grants import SERVER, Securable
from harness.embedded.tsql.permissions.rights import VALID
from harness.embedded.tsql.text.tokens import Tokens
from harness.embedded.tsql.translation.functions import FUNCTIONS, in_session, of_frame

if TYPE_CHECKING:
    from harness.embedded.tsql.session.frame import Frame

ANY = "ANY"


def has_perms_by_name(frame: Frame, securable: Any, class_: Any, permission: Any) -> int | None:
    """HAS_PERMS_BY_NAME ( securable, securable_class, permission ): NULL where the question makes no sense.

    Without a class it is about the server; ANY asks for any permission at all.
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
    """`dbo.t` names an object in a schema; a service or a database has one name, quoted or not."""
    if kind == "OBJECT" or name.startswith(("[", '"')):
        return Tokens(name).object_name()
    return (name,)


def is_srvrolemember(frame: Frame, role: Any, login: Any = None) -> int | None:
    """IS_SRVROLEMEMBER ( 'role' [ , 'login' ] ); NULL for no role or login."""
    name = str(role).lower()
    if name not in SERVER_ROLE_IDS:
        return None
    if login is None:
        if frame.session.guard is None:
            return 1  # a sysadmin passes for a member of every role
        return int(name in frame.session.guard.server_principals())
    member = str(login).lower()
    if member != "sa" and member not in frame.instance.engine.logins:
        return None
    grants = frame.instance.grants
    is_sysadmin = member == "sa" or grants.is_member(SERVER, SYSADMIN, member)
    return int(is_sysadmin or name == "public" or grants.is_member(SERVER, name, member))


def is_rolemember(frame: Frame, role: Any, user: Any = None) -> int | None:
    """IS_ROLEMEMBER ( 'role' [ , 'user' ] ); NULL for no role or user."""
    name = str(role).lower()
    if name not in DATABASE_ROLES:
        return None
    if user is None:
        return is_member(frame, role)
    member = str(user).lower()
    if member != DBO and member not in frame.database.principals.users:
        return None
    is_it = name == "public" or frame.instance.grants.is_member(frame.database.database_id, name, member)
    return int(is_it or (member == DBO and name == "db_owner"))


def is_member(frame: Frame, role: Any) -> int | None:
    """IS_MEMBER ( 'role' ); NULL for no role. dbo is db_owner."""
    name = str(role).lower()
    if name not in DATABASE_ROLES:
        return None
    guard = frame.session.guard
    if guard is None:
        return int(name in ("db_owner", "public"))
    names = guard.database_principals(frame.database)
    return int(name in names or (name == "db_owner" and names[:1] == (DBO,)))


def login_name(frame: Frame) -> str:
    """The login; of a module's context that of its user."""
    guard = frame.session.guard
    if guard is None or guard.login:
        return str(frame.session.login)
    user = frame.session.user_name()
    if user == DBO:
        owner = frame.instance.grants.owner(Securable(frame.database.database_id, "DATABASE", 0))
        login = frame.instance.engine.logins.get(owner or "")
        return "sa" if login is None else str(login.name)
    found = frame.database.principals.users.get(user.lower())
    return str(found.login if found is not None and found.login is not None else user)


def current_user(frame: Frame) -> str:
    return str(frame.session.user_name(frame.database))


FUNCTIONS.update(
    {
        "CURRENT_USER": of_frame("@user", SYSNAME, current_user),
        "HAS_PERMS_BY_NAME": in_session("HAS_PERMS_BY_NAME", has_perms_by_name, INT, least=3),
        "IS_MEMBER": in_session("IS_MEMBER", is_member, INT, least=1),
        "IS_ROLEMEMBER": in_session("IS_ROLEMEMBER", is_rolemember, INT, least=1, most=2),
        "IS_SRVROLEMEMBER": in_session("IS_SRVROLEMEMBER", is_srvrolemember, INT, least=1, most=2),
        "SESSION_USER": of_frame("@user", SYSNAME, current_user),
        "SYSTEM_USER": of_frame("@context", SYSNAME, login_name),
        "USER": of_frame("@user", SYSNAME, current_user),
    }
)
