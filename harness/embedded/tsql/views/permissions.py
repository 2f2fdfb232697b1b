"""Rights that the broker asks for: CONNECT on its endpoint, SEND on a service."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from harness.embedded.tsql.queries.session_functions import FIXED_USERS, SA
from harness.embedded.tsql.views.view import Context, View, ViewColumn, attribute, char, column, int_, nvarchar, tinyint

SERVER_PUBLIC = 2  # principal_id of the server role
ENDPOINT, SERVICE = 105, 17


class Permission(NamedTuple):
    """A row of sys.server_permissions or sys.database_permissions; each is granted, since nothing is denied here."""

    securable_class: int
    class_desc: str
    major_id: int
    grantee_principal_id: int
    type: str
    permission_name: str


def _of_server(context: Context) -> Iterator[Permission]:
    endpoint = context.engine.broker_endpoint
    if endpoint is None:
        return
    for name in sorted(endpoint.connect_granted_to):
        login = context.engine.logins.get(name)
        grantee = SERVER_PUBLIC if name == "public" else login.principal_id if login is not None else None
        if grantee is not None:
            yield Permission(ENDPOINT, "ENDPOINT", endpoint.endpoint_id, grantee, "CO", "CONNECT")


def _of_database(context: Context) -> Iterator[Permission]:
    users = context.database.principals.users
    for service in context.database.services.values():
        for name in sorted(service.senders):
            user = users.get(name)
            grantee = user.principal_id if user is not None else FIXED_USERS.get(name)
            if grantee is not None:
                yield Permission(SERVICE, "SERVICE", service.service_id, grantee, "SN", "SEND")


def _columns(grantor: int) -> list[ViewColumn]:
    return [
        attribute("class", tinyint, "securable_class", nullable=False),
        attribute("class_desc", nvarchar(60)),
        attribute("major_id", int_, nullable=False),
        column("minor_id", int_, 0, nullable=False),
        attribute("grantee_principal_id", int_, nullable=False),
        column("grantor_principal_id", int_, grantor, nullable=False),
        attribute("type", char(4), nullable=False),
        attribute("permission_name", nvarchar(128)),
        column("state", char(1), "G", nullable=False),
        column("state_desc", nvarchar(60), "GRANT"),
    ]


VIEWS = [
    View("server_permissions", _columns(SA), _of_server),
    View("database_permissions", _columns(FIXED_USERS["dbo"]), _of_database),
]
