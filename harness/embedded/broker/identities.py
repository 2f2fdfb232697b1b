"""Logins, users, certificates and master keys, as links between instances and dialog security need them.

There is no cryptography here. A certificate is a named random blob; a peer that presents the blob is trusted. Only the
rules are kept: an encrypted dialog needs a master key, a remote service binding and a certificate of the bound user; a
peer needs a certificate that a login of master owns.
"""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(slots=True)
class Login:
    """A server principal: sys.server_principals."""

    name: str
    principal_id: int
    password: str | None = None
    from_certificate: str | None = None
    is_disabled: bool = False


@dataclass(slots=True)
class User:
    """A database principal: sys.database_principals."""

    name: str
    principal_id: int
    login: str | None = None


@dataclass(slots=True)
class Certificate:
    """sys.certificates; CERTENCODED returns `blob`, FROM BINARY takes it."""

    name: str
    certificate_id: int
    subject: str
    owner: str  # a user of the database
    blob: bytes
    has_private_key: bool
    start_ns: int  # UTC
    expiry_ns: int
    is_active_for_begin_dialog: bool = True


@dataclass(slots=True)
class Principals:
    """The principals and secrets of one database."""

    users: dict[str, User] = field(default_factory=dict)  # by name, lower case
    certificates: dict[str, Certificate] = field(default_factory=dict)  # by name, lower case
    has_master_key: bool = False

    def certificates_of(self, user: str, now_ns: int) -> list[Certificate]:
        """Finds the user's certificates that can begin a dialog now, latest expiry first."""
        owned = [
            certificate
            for certificate in self.certificates.values()
            if certificate.owner.lower() == user.lower()
            and certificate.is_active_for_begin_dialog
            and certificate.start_ns <= now_ns < certificate.expiry_ns
        ]
        return sorted(owned, key=lambda certificate: -certificate.expiry_ns)

    def certificate(self, name: str) -> Certificate | None:
        return self.certificates.get(name.lower())

    def principal_id(self, user: str) -> int:
        """sys.database_principals.principal_id; dbo is 1."""
        found = self.users.get(user.lower())
        return found.principal_id if found is not None else 1
