"""The principals that are always there: sa, dbo, guest and the fixed roles, with their ids and what the roles grant."""

from __future__ import annotations

from typing import NamedTuple

SA, DBO, SYSADMIN = "sa", "dbo", "sysadmin"
SA_ID, DBO_ID = 1, 1

# principal_id of each, as in SQL Server
FIXED_USER_IDS = {"public": 0, DBO: DBO_ID, "guest": 2, "sys": 4}
SERVER_ROLE_IDS = {
    "public": 2,
    SYSADMIN: 3,
    "securityadmin": 4,
    "serveradmin": 5,
    "setupadmin": 6,
    "processadmin": 7,
    "diskadmin": 8,
    "dbcreator": 9,
    "bulkadmin": 10,
}
DATABASE_ROLE_IDS = {
    "db_owner": 16384,
    "db_accessadmin": 16385,
    "db_securityadmin": 16386,
    "db_ddladmin": 16387,
    "db_backupoperator": 16389,
    "db_datareader": 16390,
    "db_datawriter": 16391,
    "db_denydatareader": 16392,
    "db_denydatawriter": 16393,
}


class FixedRole(NamedTuple):
    """What a fixed role grants and denies, on the server or on the database as a whole."""

    granted: frozenset[str]
    denied: frozenset[str] = frozenset()


def words(text: str) -> frozenset[str]:
    """The names in a list separated by commas."""
    return frozenset(" ".join(line.split()) for line in text.split(","))


# sysadmin is missing: its members pass every check.
SERVER_ROLES: dict[str, FixedRole] = {
    "securityadmin": FixedRole(words("ALTER ANY LOGIN")),
    "serveradmin": FixedRole(
        words("ALTER ANY ENDPOINT, ALTER RESOURCES, ALTER SERVER STATE, ALTER SETTINGS, SHUTDOWN, VIEW SERVER STATE")
    ),
    "setupadmin": FixedRole(words("ALTER ANY LINKED SERVER")),
    "processadmin": FixedRole(words("ALTER ANY CONNECTION, ALTER SERVER STATE")),
    "diskadmin": FixedRole(words("ALTER RESOURCES")),
    "dbcreator": FixedRole(words("ALTER ANY DATABASE, CREATE ANY DATABASE")),
    "bulkadmin": FixedRole(words("ADMINISTER BULK OPERATIONS")),
    "public": FixedRole(words("VIEW ANY DATABASE")),
}
DATABASE_ROLES: dict[str, FixedRole] = {
    "db_owner": FixedRole(words("CONTROL")),
    "db_accessadmin": FixedRole(words("ALTER ANY USER, CONNECT, CREATE SCHEMA")),
    "db_securityadmin": FixedRole(words("ALTER ANY APPLICATION ROLE, ALTER ANY ROLE, CREATE SCHEMA, VIEW DEFINITION")),
    "db_ddladmin": FixedRole(
        words(
            """ALTER ANY CONTRACT, ALTER ANY MESSAGE TYPE, ALTER ANY REMOTE SERVICE BINDING, ALTER ANY ROUTE,
            ALTER ANY SCHEMA, ALTER ANY SERVICE, CREATE CONTRACT, CREATE MESSAGE TYPE, CREATE PROCEDURE, CREATE QUEUE,
            CREATE REMOTE SERVICE BINDING, CREATE ROUTE, CREATE SCHEMA, CREATE SERVICE, CREATE TABLE, REFERENCES"""
        )
    ),
    "db_backupoperator": FixedRole(words("BACKUP DATABASE, BACKUP LOG, CHECKPOINT")),
    "db_datareader": FixedRole(words("SELECT")),
    "db_datawriter": FixedRole(words("DELETE, INSERT, UPDATE")),
    "db_denydatareader": FixedRole(frozenset(), words("SELECT")),
    "db_denydatawriter": FixedRole(frozenset(), words("DELETE, INSERT, UPDATE")),
    "public": FixedRole(frozenset()),
}


def sid_of(principal_id: int) -> bytes:
    """A login's sid. Except for sa's it is random in SQL Server; here it only has to be the same in every view."""
    return b"\x01" if principal_id == SA_ID else principal_id.to_bytes(16, "big")
