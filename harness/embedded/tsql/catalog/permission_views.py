"""Permissions that were granted or denied."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

from harness.embedded.tsql.catalog.view import (
    Context,
    View,
    ViewColumn,
    attribute,
    char,
    column,
    int_,
    nvarchar,
    tinyint,
)
from harness.embedded.tsql.permissions import grants
from harness.embedded.tsql.permissions.grants import SERVER, Securable
from harness.embedded.tsql.permissions.guard import THE_SERVER
from harness.embedded.tsql.permissions.rights import (
    DATABASE_ROLE_IDS,
    DBO_ID,
    FIXED_USER_IDS,
    SA_ID,
    SERVER_ROLE_IDS,
)

# class and class_desc of each class of securable
CLASSES = {
    "SERVER": (100, "SERVER"),
    "LOGIN": (101, "SERVER_PRINCIPAL"),
    "ENDPOINT": (105, "ENDPOINT"),
    "DATABASE": (0, "DATABASE"),
    "OBJECT": (1, "OBJECT_OR_COLUMN"),
    "SCHEMA": (3, "SCHEMA"),
    "USER": (4, "DATABASE_PRINCIPAL"),
    "MESSAGE TYPE": (15, "MESSAGE_TYPE"),
    "CONTRACT": (16, "SERVICE_CONTRACT"),
    "SERVICE": (17, "SERVICE"),
    "REMOTE SERVICE BINDING": (18, "REMOTE_SERVICE_BINDING"),
    "ROUTE": (19, "ROUTE"),
    "CERTIFICATE": (25, "CERTIFICATE"),
}
STATES = {grants.GRANT: "G", grants.GRANT_WITH_GRANT_OPTION: "W", grants.DENY: "D"}
# Column `type`; NULL for permissions that are missing here.
TYPES = {
    "ALTER": "AL",
    "ALTER ANY LOGIN": "ALLG",
    "CONNECT": "CO",
    "CONNECT SQL": "COSQ",
    "CONTROL": "CL",
    "CONTROL SERVER": "CL",
    "CREATE ANY DATABASE": "CRDB",
    "CREATE ENDPOINT": "CRHE",
    "DELETE": "DL",
    "EXECUTE": "EX",
    "IMPERSONATE": "IM",
    "INSERT": "IN",
    "RECEIVE": "RC",
    "REFERENCES": "RF",
    "SELECT": "SL",
    "SEND": "SN",
    "TAKE OWNERSHIP": "TO",
    "UPDATE": "UP",
    "VIEW ANY DATABASE": "VWDB",
    "VIEW ANY DEFINITION": "VWAD",
    "VIEW DEFINITION": "VW",
    "VIEW SERVER STATE": "VWSS",
}


class Row(NamedTuple):
    """A permission with the id of its grantee."""

    securable: Securable
    permission: str
    grantee_principal_id: int
    state_desc: str = grants.GRANT


def _of_server(context: Context) -> Iterator[Row]:
    engine = context.engine
    yield Row(THE_SERVER, "CONNECT SQL", SA_ID)
    for login in engine.logins.values():
        yield Row(THE_SERVER, "CONNECT SQL", login.principal_id)
    yield Row(THE_SERVER, "VIEW ANY DATABASE", SERVER_ROLE_IDS["public"])
    for each in context.instance.grants.permissions(SERVER):
        known = engine.logins.get(each.grantee)
        grantee = SERVER_ROLE_IDS.get(each.grantee) if known is None else known.principal_id
        if grantee is not None:
            yield Row(each.securable, each.permission, grantee, each.state)


def _of_database(context: Context) -> Iterator[Row]:
    database = context.database
    existing = _existing(context)
    whole = Securable(database.database_id, "DATABASE", 0)
    yield Row(whole, "CONNECT", DBO_ID)
    for user in database.catalog.principals.users.values():
        yield Row(whole, "CONNECT", user.principal_id)
    roles = FIXED_USER_IDS | DATABASE_ROLE_IDS
    for each in context.instance.grants.permissions(database.database_id):
        known_user = database.catalog.principals.users.get(each.grantee)
        grantee = roles.get(each.grantee) if known_user is None else known_user.principal_id
        if grantee is not None and each.securable[1:] in existing:
            yield Row(each.securable, each.permission, grantee, each.state)


def _existing(context: Context) -> set[tuple[str, int]]:
    """The securables that exist. Permissions on dropped ones are not shown."""
    database, instance = context.database, context.instance
    objects: list[Any] = [*instance.tables.values(), *instance.procedures.values()]
    principals = database.catalog.principals
    return {
        ("DATABASE", 0),
        ("SCHEMA", 1),
        ("USER", DBO_ID),
        *(("OBJECT", one.object_id) for one in objects if one.database_id == database.database_id),
        *(("OBJECT", one.object_id) for one in database.catalog.queues.values()),
        *(("SERVICE", one.service_id) for one in database.catalog.services.values()),
        *(("CONTRACT", one.service_contract_id) for one in database.catalog.contracts.values()),
        *(("MESSAGE TYPE", one.message_type_id) for one in database.catalog.message_types.values()),
        *(("ROUTE", one.route_id) for one in database.catalog.routes.values()),
        *(
            ("REMOTE SERVICE BINDING", one.remote_service_binding_id)
            for one in database.catalog.remote_service_bindings.values()
        ),
        *(("CERTIFICATE", one.certificate_id) for one in principals.certificates.values()),
        *(("USER", one.principal_id) for one in principals.users.values()),
    }


def _columns(grantor: int) -> list[ViewColumn]:
    return [
        column("class", tinyint, lambda row: CLASSES[row.securable.securable_class][0], nullable=False),
        column("class_desc", nvarchar(60), lambda row: CLASSES[row.securable.securable_class][1]),
        attribute("major_id", int_, "securable.id", nullable=False),
        column("minor_id", int_, 0, nullable=False),
        attribute("grantee_principal_id", int_, nullable=False),
        column("grantor_principal_id", int_, grantor, nullable=False),
        column("type", char(4), lambda row: TYPES.get(row.permission), nullable=False),
        attribute("permission_name", nvarchar(128), "permission"),
        column("state", char(1), lambda row: STATES[row.state_desc], nullable=False),
        attribute("state_desc", nvarchar(60)),
    ]


VIEWS = [
    View("server_permissions", _columns(SA_ID), _of_server),
    View("database_permissions", _columns(DBO_ID), _of_database),
]
