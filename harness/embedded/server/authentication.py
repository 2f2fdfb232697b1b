"""Authentication: the login sa with the operator's password, logins made by CREATE LOGIN, and a certificate for TLS.

The certificate is self-signed, made at start and never stored, as SQL Server makes one if it is given none.
`Encrypt=yes;TrustServerCertificate=yes` works with it; a client that validates certificates refuses it.
"""

from __future__ import annotations

import datetime
import hmac
import ssl
import tempfile
from pathlib import Path

from harness.embedded.broker.engine import Engine
from harness.embedded.errors import SqlServerError
from harness.embedded.tds.login import Login7
from harness.embedded.tsql.instance.instance import Instance
from harness.embedded.tsql.permissions.guard import of_login
from harness.embedded.tsql.requests import ClientSession

DATABASE_DEFAULT = "master"
VALIDITY = datetime.timedelta(days=365)  # of the certificate


class LoginAuthenticator:
    """Checks the name, password and database of a LOGIN7, and opens the session."""

    def __init__(self, engine: Engine, *, sa_password: str) -> None:
        self._engine = engine
        self._sa_password = sa_password

    def admit(self, login: Login7, spid: int, *, is_administrative: bool = False) -> tuple[ClientSession, str]:
        """Return the session and the name of its database, or raise a `SqlServerError`.

        The dedicated administrator connection (`is_administrative`) admits members of sysadmin, one at a time.
        """
        # The same error for an unknown name, a wrong password and Windows authentication, as in SQL Server.
        password = self._password_of(login.user)
        if login.integrated_security or password is None or not _same(password, login.password):
            raise SqlServerError(18456, login.user)
        database = self._engine.databases.get((login.database or DATABASE_DEFAULT).lower())
        if database is None:
            raise SqlServerError(4060, login.database)
        instance = Instance.of(self._engine)
        guard = of_login(instance, login.user)
        if guard is not None and guard.user_in(database) is None:
            raise SqlServerError(4060, database.name)
        if is_administrative:
            if guard is not None:
                raise SqlServerError(18456, login.user)
            if others := sum(session.is_administrative for session in instance.sessions.values()):
                raise SqlServerError(17810, others)
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


def _same(one: str, other: str) -> bool:
    return hmac.compare_digest(one.encode(), other.encode("utf-8", "replace"))


def self_signed(name: str) -> bytes:
    """Private key and certificate in PEM. An elliptic curve, because an RSA key delays the start noticeably."""
    # Imported here because loading it takes longer than the rest of the module.
    from cryptography import x509  # noqa: PLC0415
    from cryptography.hazmat.primitives import hashes, serialization  # noqa: PLC0415
    from cryptography.hazmat.primitives.asymmetric import ec  # noqa: PLC0415
    from cryptography.x509.oid import NameOID  # noqa: PLC0415

    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    now = datetime.datetime.now(datetime.UTC)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(days=1))
        .not_valid_after(now + VALIDITY)
        .add_extension(x509.SubjectAlternativeName([x509.DNSName("localhost")]), critical=False)
        .sign(key, hashes.SHA256())
    )
    pem = serialization.Encoding.PEM
    private = key.private_bytes(pem, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    return private + certificate.public_bytes(pem)


def self_signed_context(name: str) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.maximum_version = ssl.TLSVersion.TLSv1_2  # see tds.login
    context.options |= ssl.OP_NO_TICKET
    # `ssl` loads certificates only from files; this one is readable by its owner alone and removed at once.
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "certificate.pem"
        path.touch(mode=0o600)
        path.write_bytes(self_signed(name))
        context.load_cert_chain(path)
    return context
