"""Endpoints: those of T-SQL and that of Service Broker."""

from __future__ import annotations

from typing import Any, NamedTuple

from harness.embedded.tsql.catalog.view import (
    Context,
    View,
    ViewColumn,
    bit,
    column,
    int_,
    nvarchar,
    sysname,
    tinyint,
)
from harness.embedded.tsql.permissions.rights import SA_ID

AUTHENTICATIONS = {  # sys.service_broker_endpoints.connection_auth
    "WINDOWS NTLM": (1, "NTLM"),
    "WINDOWS KERBEROS": (2, "KERBEROS"),
    "WINDOWS NEGOTIATE": (3, "NEGOTIATE"),
    "WINDOWS": (3, "NEGOTIATE"),
    "CERTIFICATE": (4, "CERTIFICATE"),
    "WINDOWS NEGOTIATE CERTIFICATE": (7, "NEGOTIATE, CERTIFICATE"),
    "CERTIFICATE WINDOWS NEGOTIATE": (10, "CERTIFICATE, NEGOTIATE"),
}
ALGORITHMS = {"RC4": (1, "RC4"), "AES": (2, "AES"), "RC4 AES": (5, "RC4, AES"), "AES RC4": (6, "AES, RC4")}
STATES = {"STARTED": 0, "STOPPED": 1, "DISABLED": 2}


class TsqlEndpoint(NamedTuple):
    """An endpoint that clients connect to, with SQL Server's id."""

    name: str
    endpoint_id: int
    state: str = "STARTED"


ADMIN_ENDPOINT, TCP_ENDPOINT = 1, 4
TSQL_ENDPOINTS = [
    (TsqlEndpoint("Dedicated Admin Connection", ADMIN_ENDPOINT), 0),
    (TsqlEndpoint("TSQL Default TCP", TCP_ENDPOINT), 0),
]


def _algorithm(endpoint: Any) -> tuple[int, str]:
    if endpoint.encryption == "DISABLED":
        return 0, "NONE"
    return ALGORITHMS.get(endpoint.algorithm, (2, "AES"))


def _certificate_id(context: Context, name: str | None) -> int:
    master = context.engine.databases["master"]
    certificate = master.catalog.principals.certificate(name) if name else None
    return certificate.certificate_id if certificate is not None else 0


def _endpoints(context: Context) -> list[tuple[Any, int]]:
    endpoint = context.engine.link.endpoint
    guard = context.session.guard
    if endpoint is None:
        return []
    if guard is not None and not guard.allows_on_server("VIEW DEFINITION", "ENDPOINT", endpoint.endpoint_id):
        return []
    return [(endpoint, _certificate_id(context, endpoint.certificate))]


def _endpoint_columns() -> list[ViewColumn]:
    return [
        column("name", sysname, lambda row: row[0].name, nullable=False),
        column("endpoint_id", int_, lambda row: row[0].endpoint_id, nullable=False),
        column("principal_id", int_, SA_ID),
        column("protocol", tinyint, 2, nullable=False),
        column("protocol_desc", nvarchar(60), "TCP"),
        column("type", tinyint, lambda row: 2 if row in TSQL_ENDPOINTS else 3, nullable=False),
        column("type_desc", nvarchar(60), lambda row: "TSQL" if row in TSQL_ENDPOINTS else "SERVICE_BROKER"),
        column("state", tinyint, lambda row: STATES[row[0].state]),
        column("state_desc", nvarchar(60), lambda row: row[0].state),
        column("is_admin_endpoint", bit, lambda row: int(row[0].endpoint_id == ADMIN_ENDPOINT), nullable=False),
    ]


def _all_endpoints(context: Context) -> list[Any]:
    """All endpoints. sys.dm_exec_sessions refers to those of T-SQL."""
    return [*TSQL_ENDPOINTS, *_endpoints(context)]


VIEWS = [
    View("endpoints", _endpoint_columns(), _all_endpoints),
    View(
        "tcp_endpoints",
        [
            *_endpoint_columns(),
            column("port", int_, lambda row: row[0].port, nullable=False),
            column("is_dynamic_port", bit, 0, nullable=False),
            column("ip_address", nvarchar(45), lambda row: row[0].ip),
        ],
        _endpoints,
    ),
    View(
        "service_broker_endpoints",
        [
            *_endpoint_columns(),
            column("is_message_forwarding_enabled", bit, lambda row: int(row[0].is_message_forwarding_enabled)),
            column("message_forwarding_size", int_, lambda row: row[0].message_forwarding_size),
            column("connection_auth", tinyint, lambda row: AUTHENTICATIONS.get(row[0].authentication, (4, ""))[0]),
            column(
                "connection_auth_desc",
                nvarchar(60),
                lambda row: AUTHENTICATIONS.get(row[0].authentication, (4, row[0].authentication))[1],
            ),
            column("certificate_id", int_, lambda row: row[1]),
            column("encryption_algorithm", tinyint, lambda row: _algorithm(row[0])[0]),
            column("encryption_algorithm_desc", nvarchar(60), lambda row: _algorithm(row[0])[1]),
        ],
        _endpoints,
    ),
]
