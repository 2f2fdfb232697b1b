"""Authentication: the login sa with the operator's password, and logins made by CREATE LOGIN."""

from __future__ import annotations

import hmac

from harness.embedded.broker.engine import Engine
from harness.embedded.errors import SqlServerError
from harness.embedded.tds.login7 import Login7
from harness.embedded.tsql.instance.instance import Instance
from harness.embedded.tsql.permissions.guard import of_login
from harness.embedded.tsql.requests import ClientSession

DATABASE_DEFAULT = "master"


class LoginAuthenticator:
    """Checks the name, password and database of a LOGIN7, and opens the session."""

    def __init__(self, engine: Engine, *, sa_password: str) -> None:
        self._engine = engine
        self._sa_password = sa_password

    def admit(self, login: Login7, spid: int, *, is_administrative: bool = False) -> tuple[ClientSession, str]:
        # The same error for an unknown name, a wrong password and Windows authentication, as in SQL Server.
        password = self._password_of(login.user)
        if login.integrated_security or password is None or not _same(password, login.password):
            raise SqlServerError(18456, login.user)
        database = self._engine.databases.get((login.database or DATABASE_DEFAULT).lower())
        if database is None:
            raise SqlServerError(4060, login.database)
        guard = of_login(Instance.of(self._engine), login.user)
        if guard is not None and guard.user_in(database) is None:
            raise SqlServerError(4060, database.name)
        session = ClientSession(
            self._engine,
            spid=spid,
            login=login.user,
            database=database.name,
            program=login.program,
            host=login.host,
            is_administrative=is_administrative,
        )
        return session, database.name

    def _password_of(self, user: str) -> str | None:
        if user.lower() == "sa":
            return self._sa_password
        login = self._engine.logins.get(user.lower())
        return login.password if login is not None and not login.is_disabled else None


class AdministratorAuthenticator:
    """Admits members of sysadmin to the dedicated administrator connection, one at a time."""

    def __init__(self, authenticator: LoginAuthenticator, engine: Engine) -> None:
        self._authenticator = authenticator
        self._instance = Instance.of(engine)

    def admit(self, login: Login7, spid: int) -> tuple[ClientSession, str]:
        others = [session for session in self._instance.sessions.values() if session.is_administrative]
        session, database = self._authenticator.admit(login, spid, is_administrative=True)
        refusal = None
        if session.guard is not None:
            refusal = SqlServerError(18456, login.user)
        elif others:
            refusal = SqlServerError(17810, len(others))
        if refusal is not None:
            session.close()
            raise refusal
        return session, database


def _same(one: str, other: str) -> bool:
    return hmac.compare_digest(one.encode(), other.encode("utf-8", "replace"))
