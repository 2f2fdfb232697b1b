"""CREATE, ALTER and DROP ENDPOINT, and CONNECT permission."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Any

from harness.embedded.broker import ddl
from harness.embedded.broker.broker_link import BrokerLink
from harness.embedded.broker.definitions import BrokerEndpoint
from harness.embedded.broker.transactions import Transaction
from harness.embedded.errors import SqlServerError

BROKER_ENDPOINT_ID = 65536


def create_endpoint(
    tx: Transaction,
    link: BrokerLink,
    name: str,
    *,
    state: str = "STOPPED",
    port: int,
    ip: str | None = None,
    authentication: str = "WINDOWS NEGOTIATE",
    certificate: str | None = None,
    encryption: str = "REQUIRED",
    algorithm: str = "AES",
) -> BrokerEndpoint:
    """Makes the instance's only endpoint FOR SERVICE_BROKER. `ip` None means ALL."""
    if link.endpoint is not None:
        raise SqlServerError(7862)
    _require_certificate(link, certificate)
    endpoint = BrokerEndpoint(
        name, BROKER_ENDPOINT_ID, state, port, ip, authentication, certificate, encryption, algorithm
    )
    _set_endpoint(tx, link, endpoint)
    return endpoint


def alter_endpoint(tx: Transaction, link: BrokerLink, name: str, **options: Any) -> None:
    """Changes the given `options` of `create_endpoint` and keeps the grants."""
    before = _endpoint(link, "alter", name)
    _require_certificate(link, options.get("certificate"))
    _set_endpoint(tx, link, replace(before, **options))


def drop_endpoint(tx: Transaction, link: BrokerLink, name: str) -> None:
    _endpoint(link, "drop", name)
    _set_endpoint(tx, link, None)


def set_connect(tx: Transaction, link: BrokerLink, endpoint: str, login: str, *, may: bool) -> None:
    """Changes a login's CONNECT; `login` in lower case."""
    granted = _endpoint(link, "find", endpoint).connect_granted_to
    if (login in granted) == may:
        return
    change, undo = (granted.add, granted.discard) if may else (granted.discard, granted.add)
    change(login)
    tx.on_rollback(partial(undo, login))
    _store_endpoint(tx, link)


def _endpoint(link: BrokerLink, verb: str, name: str) -> BrokerEndpoint:
    if link.endpoint is None or link.endpoint.name.lower() != name.lower():
        raise SqlServerError(15151, verb, "endpoint", name)
    return link.endpoint


def _require_certificate(link: BrokerLink, name: str | None) -> None:
    if name is not None and link.master.principals.certificate(name) is None:
        raise SqlServerError(15151, "find", "certificate", name)


def _set_endpoint(tx: Transaction, link: BrokerLink, endpoint: BrokerEndpoint | None) -> None:
    before = link.endpoint
    tx.on_rollback(partial(setattr, link, "endpoint", before))
    link.endpoint = endpoint
    _store_endpoint(tx, link)
    tx.on_commit(link.listen)
    ddl.changed(tx, link.master)


def _store_endpoint(tx: Transaction, link: BrokerLink) -> None:
    endpoint = link.endpoint
    if endpoint is None:
        tx.write("catalog.endpoint", BROKER_ENDPOINT_ID, None)
        return
    row = (
        endpoint.name,
        endpoint.state,
        endpoint.port,
        endpoint.ip,
        endpoint.authentication,
        endpoint.certificate,
        endpoint.encryption,
        endpoint.algorithm,
        tuple(sorted(endpoint.connect_granted_to)),
    )
    tx.write("catalog.endpoint", BROKER_ENDPOINT_ID, row)
