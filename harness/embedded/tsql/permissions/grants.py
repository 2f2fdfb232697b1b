"""Who was given what: permissions, members of roles, owners. Kept in the store, changed in transactions.

Everything is a row: a key that begins with its kind, and a word. Looking up a permission is looking up a key; what a
permission on one thing means for another is `permissions`' business.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import NamedTuple

from harness.embedded.broker.transactions import Transaction

CATALOG = "tsql.grants"
SERVER = 0  # in the place of a database's id: principals and securables of the server

PERMISSION, MEMBER, OWNER = "permission", "member", "owner"
GRANT, GRANT_WITH_GRANT_OPTION, DENY = "GRANT", "GRANT_WITH_GRANT_OPTION", "DENY"

# (PERMISSION, database_id, class, id, permission, grantee), (MEMBER, database_id, role, member) or
# (OWNER, database_id, class, id); principals in lower case
Key = tuple[str | int, ...]


class Securable(NamedTuple):
    """What a permission can be about. The server, and a database as a whole, have the id 0."""

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
    """One for an instance. `version` changes with every change: what was concluded from an older one is void."""

    def __init__(self) -> None:
        self._rows: dict[Key, str] = {}
        self.version = 0

    def recover(self, key: Key, word: str) -> None:
        self._rows[key] = word

    # -- questions ---------------------------------------------------------------------------------------------------

    def state(self, securable: Securable, permission: str, grantee: str) -> str | None:
        return self._rows.get((PERMISSION, *securable, permission, grantee))

    def roles_of(self, database_id: int, member: str) -> list[str]:
        """The roles that a principal is a member of; public is everybody's and not among them."""
        return [str(key[2]) for key in self._of(MEMBER, database_id) if key[3] == member]

    def is_member(self, database_id: int, role: str, member: str) -> bool:
        return (MEMBER, database_id, role, member) in self._rows

    def members(self, database_id: int) -> Iterator[tuple[str, str]]:
        """Roles and their members."""
        return ((str(key[2]), str(key[3])) for key in self._of(MEMBER, database_id))

    def permissions(self, database_id: int) -> Iterator[Permission]:
        for key in self._of(PERMISSION, database_id):
            _, database, class_, identifier, permission, grantee = key
            securable = Securable(int(database), str(class_), int(identifier))
            yield Permission(securable, str(permission), str(grantee), self._rows[key])

    def owner(self, securable: Securable) -> str | None:
        """Lower case; None: sa's, or dbo's."""
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
        """DROP USER, DROP LOGIN: what it was given goes with it."""
        for kind, place in ((PERMISSION, 5), (MEMBER, 3)):
            for key in self._of(kind, database_id):
                if key[place] == name:
                    self._set(tx, key, None)
        self.touch(tx)

    def forget_securable(self, tx: Transaction, securable: Securable) -> None:
        """It was dropped."""
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
        """Something else has changed that permissions depend on: who there is."""
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
