"""Master keys, users, certificates, GRANT and REVOKE."""

from __future__ import annotations

from functools import partial

from harness.embedded.broker.catalog import Catalog
from harness.embedded.broker.security import Certificate, User
from harness.embedded.broker.transactions import Transaction
from harness.embedded.errors import SqlServerError
from harness.embedded.runtime.tasks import SECOND

_YEAR_NS = 365 * 24 * 3600 * SECOND
_BLOB_BYTES = 256
_FIRST_PRINCIPAL_ID = 5
_FIRST_CERTIFICATE_ID = 256


class SecurityStatements(Catalog):
    def create_master_key(self, tx: Transaction) -> None:
        if self.principals.has_master_key:
            raise SqlServerError(15578)
        self._set_master_key(tx, True)

    def drop_master_key(self, tx: Transaction) -> None:
        if not self.principals.has_master_key:
            raise SqlServerError(15151, "drop", "symmetric key", "master key")
        self._set_master_key(tx, False)

    def _set_master_key(self, tx: Transaction, exists: bool) -> None:
        self._set(tx, self.principals, "has_master_key", exists)
        self.store(tx)
        self._refresh(tx)

    # Users

    def create_user(self, tx: Transaction, name: str, *, login: str | None = None) -> User:
        """`login` None: WITHOUT LOGIN."""
        users = self.principals.users
        self._refuse_existing(users, name, 15023, name.lower())
        if login is not None and login.lower() not in self.engine.logins:
            raise SqlServerError(15007, login)
        identifier = max((user.principal_id for user in users.values()), default=_FIRST_PRINCIPAL_ID - 1) + 1
        user = User(name, identifier, login)
        self._add(tx, users, name.lower(), user)
        self._write(tx, "user", identifier, (name, login))
        return user

    def alter_user(self, tx: Transaction, name: str, *, login: str) -> None:
        """ALTER USER ... WITH LOGIN: the user becomes another login's."""
        user = self._find(self.principals.users, "alter", "user", name, name.lower())
        if login.lower() not in self.engine.logins:
            raise SqlServerError(15007, login)
        self._set(tx, user, "login", login)
        self._write(tx, "user", user.principal_id, (user.name, login))

    def drop_user(self, tx: Transaction, name: str) -> None:
        user = self._find(self.principals.users, "drop", "user", name, name.lower())
        self._remove(tx, self.principals.users, name.lower())
        self._write(tx, "user", user.principal_id, None)

    # Certificates

    def create_certificate(
        self,
        tx: Transaction,
        name: str,
        *,
        owner: str = "dbo",
        subject: str = "",
        blob: bytes | None = None,
        private_key: bytes | None = None,
        has_password: bool = False,
        start_ns: int | None = None,
        expiry_ns: int | None = None,
        active_for_begin_dialog: bool = True,
    ) -> Certificate:
        """Self-signed without a `blob`; with one it is FROM BINARY. 15581 without master key and password."""
        certificates = self.principals.certificates
        self._refuse_existing(certificates, name, 15232, name.lower())
        has_private_key = blob is None or private_key is not None
        if has_private_key and not has_password and not self.principals.has_master_key:
            raise SqlServerError(15581)
        now_ns = self.engine.clock.utc_ns()
        # A foreign certificate's dates would be in its blob; it is taken to be valid.
        start = start_ns if start_ns is not None else (now_ns if blob is None else 0)
        expiry = expiry_ns if expiry_ns is not None else (start + _YEAR_NS if blob is None else now_ns + 50 * _YEAR_NS)
        taken = (certificate.certificate_id for certificate in certificates.values())
        certificate = Certificate(
            name,
            max(taken, default=_FIRST_CERTIFICATE_ID - 1) + 1,
            subject,
            owner,
            self.engine.entropy.random_bytes(_BLOB_BYTES) if blob is None else blob,
            has_private_key,
            start,
            expiry,
            active_for_begin_dialog,
        )
        self._add(tx, certificates, name.lower(), certificate)
        self._write(
            tx,
            "certificate",
            certificate.certificate_id,
            (name, subject, owner, certificate.blob, has_private_key, start, expiry, active_for_begin_dialog),
        )
        self._refresh(tx)
        return certificate

    def drop_certificate(self, tx: Transaction, name: str) -> None:
        certificate = self._find(self.principals.certificates, "drop", "certificate", name, name.lower())
        self._remove(tx, self.principals.certificates, name.lower())
        self._write(tx, "certificate", certificate.certificate_id, None)
        self._refresh(tx)

    def certificate(self, name: str) -> Certificate | None:
        return self.principals.certificates.get(name.lower())

    # Rights

    def grant(self, tx: Transaction, permission: str, securable_class: str, securable: str, principal: str) -> None:
        """GRANT permission ON class::securable TO principal. SEND ON SERVICE is what the broker asks for; what else is
        granted, T-SQL keeps."""
        self._set_right(tx, permission, securable_class, securable, principal, True)

    def revoke(self, tx: Transaction, permission: str, securable_class: str, securable: str, principal: str) -> None:
        """REVOKE or DENY."""
        self._set_right(tx, permission, securable_class, securable, principal, False)

    def _set_right(  # noqa: PLR0917
        self, tx: Transaction, permission: str, securable_class: str, securable: str, principal: str, granted: bool
    ) -> None:
        name = principal.lower()
        if name not in {"public", "dbo", "guest"} and name not in self.principals.users and not name.startswith("db_"):
            raise SqlServerError(15151, "find", "user", principal)
        if securable_class.upper() != "SERVICE":
            return
        service = self._find(self.services, "find", "service", securable)
        if permission.upper() not in {"SEND", "CONTROL"} or (name in service.senders) == granted:
            return
        change, undo = (service.senders.add, service.senders.discard)
        if not granted:
            change, undo = undo, change
        change(name)
        tx.on_rollback(partial(undo, name))
        row = (service.name, service.queue.object_id, tuple(service.contracts), service.owner, tuple(service.senders))
        self._write(tx, "service", service.service_id, row)
