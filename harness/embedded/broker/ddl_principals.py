"""CREATE, ALTER and DROP of master keys, users, schemas, certificates and logins."""

from typing import Any, NamedTuple

from harness.embedded.broker import ddl
from harness.embedded.broker.catalog import OWNED, Catalog
from harness.embedded.broker.definitions import Certificate, Login, Schema, User
from harness.embedded.broker.keys import CertificateText, KeyPair, Protection
from harness.embedded.broker.transactions import Transaction
from harness.embedded.errors import SqlServerError, UnsupportedSyntax
from harness.embedded.runtime.tasks import SECOND

Logins = dict[str, Login]  # by name, lower case


class PrivateKey(NamedTuple):
    """A private key as a file or a constant has it."""

    data: bytes
    password: str  # which protects it there


_YEAR_NS = 365 * 24 * 3600 * SECOND
_FIRST_PRINCIPAL_ID = 5
_FIRST_SCHEMA_ID = 5
_FIRST_CERTIFICATE_ID = 256
_FIRST_LOGIN_ID = 256


def create_master_key(tx: Transaction, catalog: Catalog, password: str | None = None) -> None:
    master_key = catalog.keys.new_master_key()
    locked = None if password is None else catalog.keys.lock_master_key(master_key, password)
    if catalog.principals.has_master_key:  # others may have gone on until here
        raise SqlServerError(15578)
    tx.set(catalog.principals, "locked_master_key", locked)
    set_master_key(tx, catalog, master_key)


def opened_master_key(catalog: Catalog, password: str) -> bytes:
    """OPEN MASTER KEY: the master key under the present key of the server."""
    locked = catalog.principals.locked_master_key
    if not catalog.principals.has_master_key:
        raise SqlServerError(15151, "find", "symmetric key", "master key")
    try:
        if locked is None:
            raise ValueError("it has no password")
        return catalog.keys.unlock_master_key(locked, password)
    except ValueError:
        raise SqlServerError(15313) from None


def exported_master_key(catalog: Catalog, password: str) -> bytes:
    """BACKUP MASTER KEY: the key as a file has it, under a password."""
    if catalog.principals.master_key is None or catalog.master_key_error() is not None:
        raise SqlServerError(15581)
    return catalog.keys.lock_master_key(catalog.principals.master_key, password)


def restore_master_key(  # noqa: PLR0917
    tx: Transaction, catalog: Catalog, content: bytes, password: str, new_password: str, has_dialogs: bool
) -> None:
    """RESTORE MASTER KEY from a file. Private keys that the old key protects are protected by the new one; keys of
    dialogs cannot be."""
    keys, old = catalog.keys, catalog.principals.master_key
    try:
        master_key = keys.unlock_master_key(content, password)
    except ValueError:
        raise SqlServerError(15317) from None
    if old is not None and not keys.is_same_master_key(old, master_key):
        if has_dialogs:
            raise UnsupportedSyntax("RESTORE of another MASTER KEY in a database with encrypted dialogs", 0)
        for certificate in catalog.principals.certificates.values():
            if certificate.private_key is not None and not certificate.has_password:
                protections = Protection(old), Protection(master_key)
                private_key = keys.protect_again(certificate.private_key, certificate.blob, *protections)
                tx.set(certificate, "private_key", private_key)
                ddl.store(tx, catalog, "certificate", certificate)
    tx.set(catalog.principals, "locked_master_key", keys.lock_master_key(master_key, new_password))
    set_master_key(tx, catalog, master_key)


def drop_master_key_encryption(tx: Transaction, catalog: Catalog) -> None:
    """ALTER MASTER KEY DROP ENCRYPTION BY SERVICE MASTER KEY: from now on only its password opens it."""
    if not catalog.principals.has_master_key:
        raise SqlServerError(15151, "find", "symmetric key", "master key")
    if catalog.principals.locked_master_key is None:
        raise UnsupportedSyntax("ALTER MASTER KEY DROP ENCRYPTION of a key without a password", 0)
    set_master_key(tx, catalog, None)


def drop_master_key(tx: Transaction, catalog: Catalog) -> None:
    if not catalog.principals.has_master_key:
        raise SqlServerError(15151, "drop", "symmetric key", "master key")
    for certificate in catalog.principals.certificates.values():
        if certificate.private_key is not None and not certificate.has_password:
            raise SqlServerError(15580, "certificate", certificate.name)
    tx.set(catalog.principals, "locked_master_key", None)
    set_master_key(tx, catalog, None)


def set_master_key(tx: Transaction, catalog: Catalog, master_key: bytes | None) -> None:
    tx.set(catalog.principals, "master_key", master_key)
    ddl.store_database(tx, catalog)
    ddl.changed(tx, catalog)


def create_schema(tx: Transaction, catalog: Catalog, name: str, owner: str) -> None:
    ddl.refuse_existing(catalog.schemas, name, key=name.lower())
    identifier = max(_FIRST_SCHEMA_ID, *(schema.schema_id + 1 for schema in catalog.schemas.values()))
    schema = Schema(name, identifier, owner)
    tx.put(catalog.schemas, name.lower(), schema)
    ddl.store(tx, catalog, "schema", schema)


def drop_schema(tx: Transaction, catalog: Catalog, name: str) -> None:
    """DROP SCHEMA of one that is empty."""
    schema = ddl.find(catalog.schemas, "drop", "schema", name, name.lower())
    if schema.schema_id < _FIRST_SCHEMA_ID:
        raise SqlServerError(15150, "drop", "schema", name)
    ddl.remove(tx, catalog, "schema", catalog.schemas, name.lower(), schema.schema_id)


def create_user(tx: Transaction, catalog: Catalog, logins: Logins, name: str, *, login: str | None = None) -> User:
    """Add a user; `login` None means WITHOUT LOGIN."""
    users = catalog.principals.users
    ddl.refuse_existing(users, name, 15023, name.lower())
    if login is not None and login.lower() not in logins:
        raise SqlServerError(15007, login)
    identifier = max((user.principal_id for user in users.values()), default=_FIRST_PRINCIPAL_ID - 1) + 1
    user = User(name, identifier, login)
    tx.put(users, name.lower(), user)
    ddl.store(tx, catalog, "user", user)
    return user


def alter_user(tx: Transaction, catalog: Catalog, logins: Logins, name: str, *, login: str) -> None:
    """ALTER USER ... WITH LOGIN: maps the user to another login."""
    user = ddl.find(catalog.principals.users, "alter", "user", name, name.lower())
    if login.lower() not in logins:
        raise SqlServerError(15007, login)
    tx.set(user, "login", login)
    ddl.store(tx, catalog, "user", user)


def drop_user(tx: Transaction, catalog: Catalog, name: str) -> None:
    user = ddl.find(catalog.principals.users, "drop", "user", name, name.lower())
    for class_ in OWNED:
        if name.lower() in catalog.owners(class_).values():
            raise SqlServerError(15138, class_.lower())
    ddl.remove(tx, catalog, "user", catalog.principals.users, name.lower(), user.principal_id)


def create_certificate(
    tx: Transaction,
    catalog: Catalog,
    name: str,
    *,
    owner: str = "dbo",
    subject: str = "",
    blob: bytes | None = None,
    private_key: PrivateKey | None = None,
    password: str | None = None,
    start_ns: int | None = None,
    expiry_ns: int | None = None,
    active_for_begin_dialog: bool = True,
) -> Certificate:
    """Add a certificate: FROM BINARY or FROM FILE with a `blob` and perhaps its private key, else self-signed. 15581
    without master key and password, which protect the private key."""
    certificates = catalog.principals.certificates
    ddl.refuse_existing(certificates, name, 15232, name.lower())
    has_key = blob is None or private_key is not None
    if has_key and password is None and catalog.master_key_error() is not None:
        raise SqlServerError(15581)
    protection = Protection(catalog.principals.master_key, password)
    text, pair = _certificate(catalog, protection, subject, blob, private_key, start_ns, expiry_ns)
    identifiers = (certificate.certificate_id for certificate in certificates.values())
    certificate = Certificate(
        name,
        max(identifiers, default=_FIRST_CERTIFICATE_ID - 1) + 1,
        text.subject,
        owner,
        pair.blob,
        pair.private_key if has_key else None,
        text.start_ns,
        text.expiry_ns,
        active_for_begin_dialog,
        password is not None,
    )
    tx.put(certificates, name.lower(), certificate)
    ddl.store(tx, catalog, "certificate", certificate)
    ddl.changed(tx, catalog)
    return certificate


def _certificate(  # noqa: PLR0917
    catalog: Catalog,
    protection: Protection,
    subject: str,
    blob: bytes | None,
    private_key: PrivateKey | None,
    start_ns: int | None,
    expiry_ns: int | None,
) -> tuple[CertificateText, KeyPair]:
    keys, now_ns = catalog.keys, catalog.clock.utc_ns()
    try:
        if blob is None:
            start_ns = now_ns if start_ns is None else start_ns
            text = CertificateText(subject, start_ns, start_ns + _YEAR_NS if expiry_ns is None else expiry_ns)
            pair = keys.new_certificate(text, protection)
            return keys.read_certificate(pair.blob) or text, pair  # which has whole seconds
        # Without cryptography nobody reads the dates of a foreign certificate: it is valid.
        text = keys.read_certificate(blob) or CertificateText(subject, 0, now_ns + 50 * _YEAR_NS)
        key = b""
        if private_key is not None:
            key = keys.protect_again(private_key.data, blob, Protection(None, private_key.password), protection)
    except ValueError:
        raise SqlServerError(15297) from None
    return text, KeyPair(blob, key)


def exported_key(catalog: Catalog, certificate: Certificate, password: str, own_password: str | None) -> bytes:
    """BACKUP CERTIFICATE WITH PRIVATE KEY: the key as a file has it, under a password. `own_password` protects it now,
    if the master key does not."""
    if certificate.private_key is None:
        raise SqlServerError(15297)
    before = Protection(catalog.principals.master_key, own_password if certificate.has_password else None)
    if certificate.has_password and own_password is None:
        raise SqlServerError(15297)
    if not certificate.has_password and catalog.master_key_error() is not None:
        raise SqlServerError(15581)
    try:
        return catalog.keys.protect_again(certificate.private_key, certificate.blob, before, Protection(None, password))
    except ValueError:
        raise SqlServerError(15297) from None


def signature(catalog: Catalog, certificate: Certificate, password: str | None, data: bytes) -> bytes:
    """Sign with the private key of a certificate; 15556 if it cannot be used. `password` protects it, if the master key
    does not."""
    protection = Protection(catalog.principals.master_key, password)
    is_protected_so = certificate.has_password == (password is not None)
    try:
        if certificate.private_key is None or not is_protected_so:
            raise ValueError("no key, or another password")
        return catalog.keys.sign(certificate.private_key, protection, data)
    except ValueError:
        raise SqlServerError(15556, "certificate") from None


def alter_certificate(
    tx: Transaction, catalog: Catalog, name: str, *, is_active_for_begin_dialog: bool | None = None
) -> None:
    """ACTIVE FOR BEGIN_DIALOG, or REMOVE PRIVATE KEY."""
    certificate = ddl.find(catalog.principals.certificates, "alter", "certificate", name, name.lower())
    if is_active_for_begin_dialog is not None:
        tx.set(certificate, "is_active_for_begin_dialog", is_active_for_begin_dialog)
    elif certificate.private_key is None:
        raise SqlServerError(15563, "certificate")
    else:
        tx.set(certificate, "private_key", None)
        tx.set(certificate, "has_password", False)
    ddl.store(tx, catalog, "certificate", certificate)
    ddl.changed(tx, catalog)


def drop_certificate(tx: Transaction, catalog: Catalog, name: str) -> None:
    certificate = ddl.find(catalog.principals.certificates, "drop", "certificate", name, name.lower())
    ddl.remove(tx, catalog, "certificate", catalog.principals.certificates, name.lower(), certificate.certificate_id)
    ddl.changed(tx, catalog)


def create_login(tx: Transaction, logins: Logins, name: str, **members: Any) -> Login:
    """Create a login with members of `Login`."""
    ddl.refuse_existing(logins, name, 15025, name.lower())
    identifiers = (login.principal_id for login in logins.values())
    login = Login(name, max(_FIRST_LOGIN_ID, max(identifiers, default=0) + 1), **members)
    tx.put(logins, name.lower(), login)
    _store_login(tx, login)
    return login


def alter_login(tx: Transaction, logins: Logins, name: str, **members: Any) -> None:
    """Change members of a login; None keeps one."""
    login = ddl.find(logins, "alter", "login", name, name.lower())
    ddl.assign_given(tx, login, **members)
    _store_login(tx, login)


def _store_login(tx: Transaction, login: Login) -> None:
    row = (login.name, login.password_hash, login.from_certificate, login.is_disabled, login.default_database)
    tx.write("catalog.login", login.principal_id, row)


def drop_login(tx: Transaction, logins: Logins, name: str) -> None:
    login = ddl.find(logins, "drop", "login", name, name.lower())
    tx.put(logins, name.lower(), None)
    tx.write("catalog.login", login.principal_id, None)
