"""Authentication: the login sa with the operator's password, logins made by CREATE LOGIN, and a certificate for TLS.

The store has only the scrypt hash of a password. To compute one takes a tenth of a second, which would be too long for
each of 7,500 connections of a pool: while it lives, the process remembers a digest, under a key of its own, of each
password that was right. All refusals take the same time, so that it does not tell which logins exist.

Without a certificate of the operator's there is a self-signed one, made at start and never stored, as SQL Server makes
one. `Encrypt=yes;TrustServerCertificate=yes` works with it; a client that validates certificates refuses it.
"""

import asyncio
import datetime
import hmac
import os
import ssl
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from harness.embedded.broker.engine import Engine
from harness.embedded.broker.event_notifications import elements
from harness.embedded.errors import UNSUPPORTED, SqlServerError
from harness.embedded.server import passwords
from harness.embedded.server.attempts import Attempts, Pair
from harness.embedded.tds.login import Login7
from harness.embedded.tsql.instance.instance import Instance
from harness.embedded.tsql.permissions.guard import of_login
from harness.embedded.tsql.permissions.rights import SA
from harness.embedded.tsql.requests import ClientSession
from harness.failures import UsageFailure

DATABASE_DEFAULT = "master"
REFUSAL_S = 0.5  # how long a refusal of name or password takes at least
VALIDITY = datetime.timedelta(days=365)  # of the certificate


class LoginAuthenticator:
    """Checks the name, password and database of a LOGIN7, and opens the session."""

    def __init__(self, engine: Engine, *, sa_password: str, loop: asyncio.AbstractEventLoop) -> None:
        self._engine = engine
        self._loop = loop
        self._attempts = Attempts(loop)
        self._key = os.urandom(32)
        self._sa_digest = self._digest(sa_password)
        self._known: dict[str, tuple[bytes, bytes]] = {}  # login -> its stored hash, the digest of the right password
        # One hash at a time, in a thread: guesses of many logins at once get one processor at most, and of the first
        # connections of a pool only one computes it.
        self._hashing = asyncio.Lock()
        self._thread = ThreadPoolExecutor(1, "scrypt")

    def is_known(self, login: Login7, address: str) -> bool:
        """Whether the password is right, as far as that is known at once; otherwise call `check`."""
        pair = _pair(login, address)
        if not self._attempts.take(pair):
            return False
        self._attempts.give_back(pair)
        return self._is_known(login)

    async def check(self, login: Login7, address: str) -> None:
        """Return if the password is right. The same error, 18456, for a wrong one, an unknown name and Windows
        authentication, as in SQL Server."""
        pair = _pair(login, address)
        await self._attempts.wait(pair)
        due_s = self._loop.time() + REFUSAL_S
        if not await self._is_right(login):
            await asyncio.sleep(due_s - self._loop.time())
            self._tell_failed(login, address)
            raise SqlServerError(18456, login.user)
        self._attempts.give_back(pair)

    def _is_known(self, login: Login7) -> bool:
        """Whether the password is one that was right before."""
        user = login.user.lower()
        if login.integrated_security:
            return False
        if user == SA:
            return hmac.compare_digest(self._sa_digest, self._digest(login.password))
        known_login, (hashed, digest) = self._hash_of(user), self._known.get(user, (b"", b""))
        return (
            known_login is not None
            and known_login == hashed
            and hmac.compare_digest(digest, self._digest(login.password))
        )

    async def _is_right(self, login: Login7) -> bool:
        user = login.user.lower()
        if self._is_known(login):
            return True
        if self._hash_of(user) is None or login.integrated_security:
            return False
        async with self._hashing:
            hashed = self._hash_of(user)
            if hashed is None or self._is_known(login):
                return hashed is not None
            if not await self._loop.run_in_executor(self._thread, passwords.matches, login.password, hashed):
                return False
            self._known[user] = hashed, self._digest(login.password)
            return self._is_known(login)  # the login may have changed meanwhile

    def _hash_of(self, user: str) -> bytes | None:
        login = self._engine.logins.get(user)
        return login.password_hash if login is not None and not login.is_disabled else None

    def _digest(self, password: str) -> bytes:
        return hmac.digest(self._key, password.encode("utf-8", "surrogatepass"), "sha256")

    def admit(self, login: Login7, spid: int, *, is_administrative: bool = False) -> tuple[ClientSession, str]:
        """Return the session of an authenticated login and the name of its database, or raise a `SqlServerError`.

        The dedicated administrator connection (`is_administrative`) admits members of sysadmin, one at a time.
        """
        if login.unsupported:
            raise SqlServerError(UNSUPPORTED, login.unsupported)
        principal = self._engine.logins.get(login.user.lower())
        default = DATABASE_DEFAULT if principal is None else principal.default_database
        database = self._engine.databases.get((login.database or default).lower())
        instance = Instance.of(self._engine)
        guard = of_login(instance, login.user)
        if database is None or (guard is not None and guard.user_in(database) is None):
            raise SqlServerError(4060, login.database) if login.database else SqlServerError(4064)
        if instance.is_closed_to(database, None):
            raise SqlServerError(924, database.name)
        if is_administrative:
            if guard is not None:
                raise SqlServerError(18456, login.user)
            if sessions := sum(session.is_administrative for session in instance.sessions.values()):
                raise SqlServerError(17810, sessions)
        session = ClientSession(
            self._engine,
            spid=spid,
            login=login.user,
            database=database.name,
            program=login.program,
            host=login.host,
            is_administrative=is_administrative,
        )
        self._tell("AUDIT_LOGIN", login, spid, ("DatabaseName", database.name), ("Success", 1))
        return session, database.name

    def _tell_failed(self, login: Login7, address: str) -> None:
        """Raise AUDIT_LOGIN_FAILED, with the state that tells an unknown login from a wrong password."""
        is_unknown = login.user.lower() != SA and self._hash_of(login.user.lower()) is None
        state, reason = (
            (5, "Could not find a login matching the name provided")
            if is_unknown
            else (8, "Password did not match that for the login provided")
        )
        text = f"Login failed for user '{login.user}'. Reason: {reason}. [CLIENT: {address}]"
        of_failure = ("TextData", text), ("Success", 0), ("State", state), ("Error", 18456)
        self._tell("AUDIT_LOGIN_FAILED", login, 0, *of_failure)

    def _tell(self, event: str, login: Login7, spid: int, *of_event: tuple[str, object]) -> None:
        """Raise an event; its elements are named as the columns of the trace event of that name."""
        names = ("LoginName", login.user), ("HostName", login.host), ("ApplicationName", login.program)
        self._engine.notifier.notify(
            event, elements(("SPID", spid), *of_event, *names, ("ServerName", self._engine.name))
        )


def _pair(login: Login7, address: str) -> Pair:
    return login.user.lower()[:128], address


def self_signed(name: str) -> bytes:
    """Private key and certificate in PEM."""
    # Imported here because loading it takes longer than the rest of the module.
    from cryptography import x509  # noqa: PLC0415
    from cryptography.hazmat.primitives import hashes, serialization  # noqa: PLC0415

    from harness.embedded.server.cryptography import self_signing  # noqa: PLC0415

    now = datetime.datetime.now(datetime.UTC)
    key, builder = self_signing(name, now - datetime.timedelta(days=1), now + VALIDITY)
    names = x509.SubjectAlternativeName([x509.DNSName("localhost")])
    certificate = builder.add_extension(names, critical=False).sign(key, hashes.SHA256())
    pem = serialization.Encoding.PEM
    private = key.private_bytes(pem, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    return private + certificate.public_bytes(pem)


def _context() -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.maximum_version = ssl.TLSVersion.TLSv1_2  # see tds.login
    context.options |= ssl.OP_NO_TICKET
    return context


def given_context(certificate: Path, key: Path | None) -> ssl.SSLContext:
    """TLS with the operator's certificate; the file of the certificate may have the key too. UsageFailure if they
    cannot be used."""
    context = _context()
    try:
        context.load_cert_chain(certificate, key, password=lambda: "")  # without it OpenSSL asks the terminal
    except (OSError, ValueError) as error:  # ssl.SSLError is an OSError
        raise UsageFailure(
            f"the certificate {certificate} cannot be used with the key {key or 'in it'} ({error}): name PEM files of "
            "a certificate and of its private key without a password (--certificate, --certificate-key)"
        ) from None
    return context


def self_signed_context(name: str) -> ssl.SSLContext:
    context = _context()
    # `ssl` loads certificates only from files; this one is readable by its owner alone and removed at once.
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "certificate.pem"
        path.touch(mode=0o600)
        path.write_bytes(self_signed(name))
        context.load_cert_chain(path)
    return context
