"""The principals that are always there: sa, dbo, guest and the fixed roles, with their ids and what the roles grant."""

from __future__ import annotations

SA, DBO, SYSADMIN = "sa", "dbo", "sysadmin"
SA_ID, DBO_ID = 1, 1

# principal_id of each, as in SQL Server
FIXED_USER_IDS = {"public": 0, DBO: DBO_ID, "guest": 2, "sys": 4}
SERVER_ROLE_IDS = {
    "public": 2,
    SYSADMIN: 3,
    "securityadmin": 4,
    "serveradmin": 5,
    "dbcreator": 9,
}
DATABASE_ROLE_IDS = {
    "db_owner": 16384,
    "db_ddladmin": 16387,
    "db_datareader": 16390,
    "db_datawriter": 16391,
}


def words(text: str) -> frozenset[str]:
    """The names in a list separated by commas."""
    return frozenset(" ".join(line.split()) for line in text.split(","))


# The permissions of each fixed role on the server or on the whole database. Members of sysadmin are never checked.
SERVER_ROLES = {
    "securityadmin": words("ALTER ANY LOGIN"),
    "serveradmin": words("ALTER ANY ENDPOINT, ALTER SERVER STATE, ALTER SETTINGS, VIEW SERVER STATE"),
    "dbcreator": words("ALTER ANY DATABASE, CREATE ANY DATABASE"),
    "public": words("VIEW ANY DATABASE"),
}
DATABASE_ROLES = {
    "db_owner": words("CONTROL"),
    "db_ddladmin": words(
        """ALTER ANY CONTRACT, ALTER ANY MESSAGE TYPE, ALTER ANY REMOTE SERVICE BINDING, ALTER ANY ROUTE,
        ALTER ANY SCHEMA, ALTER ANY SERVICE, CREATE CONTRACT, CREATE MESSAGE TYPE, CREATE PROCEDURE, CREATE QUEUE,
        CREATE REMOTE SERVICE BINDING, CREATE ROUTE, CREATE SERVICE, CREATE TABLE, REFERENCES"""
    ),
    "db_datareader": words("SELECT"),
    "db_datawriter": words("DELETE, INSERT, UPDATE"),
    "public": frozenset[str](),
}


def sid_of(principal_id: int) -> bytes:
    """A login's sid. Except for sa's it is random in SQL Server; here it only has to be the same in every view."""
    return b"\x01" if principal_id == SA_ID else principal_id.to_bytes(16, "big")
