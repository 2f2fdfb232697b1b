"""Grants: permissions, members of roles, owners. They are kept in the store and changed in transactions.

Each is a row: a key that begins with its kind, and a word. Which permission implies which is decided in `rights`.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import NamedTuple

from harness.embedded.broker.transactions import Transaction

CATALOG = "tsql.grants"
SERVER = 0  # stands for a database_id: principals and securables of the server

PERMISSION, MEMBER, OWNER = "permission", "member", "owner"
GRANT, GRANT_WITH_GRANT_OPTION, DENY = "GRANT", "GRANT_WITH_GRANT_OPTION", "DENY"

# (PERMISSION, database_id, class, id, permission, grantee), (MEMBER, database_id, role, member) or
# (OWNER, database_id, class, id); principals in lower case
Key = tuple[str | int, ...]


class Securable(NamedTuple):
    """Something to grant permissions on. The server has the id 0, and so has a database as a whole."""

    database_id: int
    securable_class: str  # as GRANT ... ON class:: writes it; OBJECT, DATABASE, SERVER ...
    id: int


class Permission(NamedTuple):
    """A row of sys.server_permissions or sys.database_permissions."""

    securable: Securable
    permission: str
    grantee: str
    state: str


class Grants:
    """The grants of an instance. Every change increases `version`, which makes remembered answers invalid."""

    def __init__(self) -> None:
        self._rows: dict[Key, str] = {}
        self.version = 0

    def recover(self, key: Key, word: str) -> None:
        self._rows[key] = word

    # -- questions ---------------------------------------------------------------------------------------------------

    def state(self, securable: Securable, permission: str, grantee: str) -> str | None:
        return self._rows.get((PERMISSION, *securable, permission, grantee))

    def roles_of(self, database_id: int, member: str) -> list[str]:
        """The roles of a principal, without public."""
        return [str(key[2]) for key in self._of(MEMBER, database_id) if key[3] == member]

    def is_member(self, database_id: int, role: str, member: str) -> bool:
        return (MEMBER, database_id, role, member) in self._rows

    def members(self, database_id: int) -> Iterator[tuple[str, str]]:
        """Pairs of a role and a member of it."""
        return ((str(key[2]), str(key[3])) for key in self._of(MEMBER, database_id))

    def permissions(self, database_id: int) -> Iterator[Permission]:
        for key in self._of(PERMISSION, database_id):
            _, database, class_, identifier, permission, grantee = key
            securable = Securable(int(database), str(class_), int(identifier))
            yield Permission(securable, str(permission), str(grantee), self._rows[key])

    def owner(self, securable: Securable) -> str | None:
        """The owner in lower case; None if it is sa or dbo."""
        return self._rows.get((OWNER, *securable))

    def _of(self, kind: str, database_id: int) -> Iterator[Key]:
        return (key for key in list(self._rows) if key[0] == kind and key[1] == database_id)

    # -- changes -----------------------------------------------------------------------------------------------------

    def set_permission(
        self, tx: Transaction, securable: Securable, permission: str, grantee: str, state: str | None
    ) -> None:
        """GRANT, DENY; REVOKE without a state."""
        self._set(tx, (PERMISSION, *securable, permission, grantee), state)

    def set_member(self, tx: Transaction, database_id: int, role: str, member: str, *, is_member: bool) -> None:
        self._set(tx, (MEMBER, database_id, role, member), "" if is_member else None)

    def set_owner(self, tx: Transaction, securable: Securable, owner: str | None) -> None:
        self._set(tx, (OWNER, *securable), owner)

    def forget_principal(self, tx: Transaction, database_id: int, name: str) -> None:
        """DROP USER, DROP LOGIN: revoke all that it was granted."""
        for kind, place in ((PERMISSION, 5), (MEMBER, 3)):
            for key in self._of(kind, database_id):
                if key[place] == name:
                    self._set(tx, key, None)
        self.touch(tx)

    def forget_securable(self, tx: Transaction, securable: Securable) -> None:
        """DROP: forget who was granted what on it, and its owner."""
        for kind in (PERMISSION, OWNER):
            for key in self._of(kind, securable.database_id):
                if key[2:4] == securable[1:]:
                    self._set(tx, key, None)

    def forget_database(self, tx: Transaction, database_id: int) -> None:
        """DROP DATABASE"""
        for kind in (PERMISSION, MEMBER, OWNER):
            for key in self._of(kind, database_id):
                self._set(tx, key, None)
        self.touch(tx)

    def touch(self, tx: Transaction) -> None:
        """Make remembered answers invalid after a change of principals."""
        self._changed()
        tx.on_rollback(self._changed)

    def _set(self, tx: Transaction, key: Key, word: str | None) -> None:
        tx.on_rollback(partial(self._put, key, self._rows.get(key)))
        self._put(key, word)
        tx.write(CATALOG, key, None if word is None else (word,))

    def _put(self, key: Key, word: str | None) -> None:
        if word is None:
            self._rows.pop(key, None)
        else:
            self._rows[key] = word
        self._changed()

    def _changed(self) -> None:
        self.version += 1
