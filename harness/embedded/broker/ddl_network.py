"""CREATE, ALTER and DROP of the ways to other instances: routes, remote service bindings, the endpoint; its CONNECT."""

from dataclasses import astuple, replace
from typing import Any

from harness.embedded.broker import ddl
from harness.embedded.broker.broker_link import BrokerLink
from harness.embedded.broker.catalog import Catalog
from harness.embedded.broker.definitions import BrokerEndpoint, RemoteServiceBinding, Route
from harness.embedded.broker.router import parse_address
from harness.embedded.broker.transactions import Transaction
from harness.embedded.errors import SqlServerError
from harness.embedded.runtime.tasks import SECOND

LIFETIME_MAX_S = 2**31 - 1
SERVICE_NAME_LENGTH_MAX = ADDRESS_LENGTH_MAX = 256
BROKER_INSTANCE_LENGTH_MAX = 128
BROKER_ENDPOINT_ID = 65536
_ENDPOINT_DEFAULTS = {"state": "STOPPED", "ip": None, "authentication": "WINDOWS NEGOTIATE", "certificate": None}


def create_route(tx: Transaction, catalog: Catalog, name: str, *, owner: str = "dbo", **clauses: Any) -> None:
    """Add a route; `clauses` as in `_fields`, of which `address` is required."""
    ddl.refuse_existing(catalog.routes, name)
    fields = _fields(catalog, name, **clauses)
    created = Route(name, catalog.new_id("route"), owner=owner, **fields)
    _check_route(created)
    tx.put(catalog.routes, name, created)
    _store_route(tx, catalog, created)


def alter_route(tx: Transaction, catalog: Catalog, name: str, **clauses: Any) -> None:
    """Change the clauses of a route that are given."""
    route = ddl.find(catalog.routes, "alter", "route", name)
    ddl.assign_given(tx, route, **_fields(catalog, name, **clauses))
    _check_route(route)
    _store_route(tx, catalog, route)


def drop_route(tx: Transaction, catalog: Catalog, name: str) -> None:
    route = ddl.find(catalog.routes, "drop", "route", name)
    ddl.remove(tx, catalog, "route", catalog.routes, name, route.route_id)
    ddl.changed(tx, catalog)


def _fields(
    catalog: Catalog,
    name: str,
    *,
    service_name: str | None = None,
    broker_instance: str | None = None,
    lifetime_s: int | None = None,
    address: str | None = None,
    mirror_address: str | None = None,
) -> dict[str, Any]:
    """The fields of a route as its clauses set them."""
    if lifetime_s is not None and not 0 < lifetime_s <= LIFETIME_MAX_S:
        raise SqlServerError(9746, name)
    return {
        "remote_service_name": service_name,
        "broker_instance": broker_instance.upper() if broker_instance is not None else None,
        "lifetime": catalog.clock.utc_ns() + lifetime_s * SECOND if lifetime_s is not None else None,
        "address": address,
        "mirror_address": mirror_address,
    }


def _check_route(route: Route) -> None:
    address = route.address.upper()
    for clause, value in (("SERVICE_NAME", route.remote_service_name), ("ADDRESS", route.address)):
        if value == "":
            raise SqlServerError(9659, clause, route.name)
    for clause, value, length_max in (
        ("SERVICE_NAME", route.remote_service_name, SERVICE_NAME_LENGTH_MAX),
        ("BROKER_INSTANCE", route.broker_instance, BROKER_INSTANCE_LENGTH_MAX),
        ("ADDRESS", route.address, ADDRESS_LENGTH_MAX),
        ("MIRROR_ADDRESS", route.mirror_address, ADDRESS_LENGTH_MAX),
    ):
        if value is not None and len(value) > length_max:
            raise SqlServerError(9660, clause, route.name, length_max + 1)
    if route.broker_instance is not None and route.remote_service_name is None:
        raise SqlServerError(9662, route.name)
    if address == "TRANSPORT" and route.remote_service_name is not None:
        raise SqlServerError(9745, route.name)
    if address not in {"LOCAL", "TRANSPORT"}:
        parse_address(route.address, route.name)
    if route.mirror_address is None:
        return
    if route.remote_service_name is None or route.broker_instance is None:
        raise SqlServerError(9661, route.name)
    if address in {"LOCAL", "TRANSPORT"}:
        raise SqlServerError(9743, "ADDRESS", route.name)
    if route.mirror_address == route.address:
        raise SqlServerError(9747, route.name)


def _store_route(tx: Transaction, catalog: Catalog, route: Route) -> None:
    ddl.store(tx, catalog, "route", route)
    ddl.changed(tx, catalog)


def create_remote_service_binding(
    tx: Transaction,
    catalog: Catalog,
    name: str,
    *,
    to_service: str,
    user: str,
    anonymous: bool = False,
    owner: str = "dbo",
) -> None:
    ddl.refuse_existing(catalog.remote_service_bindings, name)
    if catalog.binding_for(to_service) is not None:
        raise SqlServerError(9619, name, to_service)
    _require_user(catalog, user)
    created = RemoteServiceBinding(name, catalog.new_id("remote_service_binding"), to_service, user, anonymous, owner)
    tx.put(catalog.remote_service_bindings, name, created)
    _store_binding(tx, catalog, created)


def alter_remote_service_binding(
    tx: Transaction, catalog: Catalog, name: str, *, user: str | None, anonymous: bool | None
) -> None:
    binding = ddl.find(catalog.remote_service_bindings, "alter", "remote service binding", name)
    if user is not None:
        _require_user(catalog, user)
    ddl.assign_given(tx, binding, user=user, is_anonymous_on=anonymous)
    _store_binding(tx, catalog, binding)


def drop_remote_service_binding(tx: Transaction, catalog: Catalog, name: str) -> None:
    binding = ddl.find(catalog.remote_service_bindings, "drop", "remote service binding", name)
    ddl.remove(
        tx, catalog, "remote_service_binding", catalog.remote_service_bindings, name, binding.remote_service_binding_id
    )
    ddl.changed(tx, catalog)


def _require_user(catalog: Catalog, user: str) -> None:
    if user.lower() != "dbo" and user.lower() not in catalog.principals.users:
        raise SqlServerError(15151, "find", "user", user)


def _store_binding(tx: Transaction, catalog: Catalog, binding: RemoteServiceBinding) -> None:
    ddl.store(tx, catalog, "remote_service_binding", binding)
    ddl.changed(tx, catalog)


def create_endpoint(tx: Transaction, link: BrokerLink, name: str, *, port: int, **options: Any) -> BrokerEndpoint:
    """Make the instance's only endpoint FOR SERVICE_BROKER; `options` are fields of `BrokerEndpoint`."""
    if link.endpoint is not None:
        raise SqlServerError(7862)
    _require_certificate(link, options.get("certificate"))
    endpoint = BrokerEndpoint(name, BROKER_ENDPOINT_ID, port=port, **_ENDPOINT_DEFAULTS | options)
    _set_endpoint(tx, link, endpoint)
    return endpoint


def alter_endpoint(tx: Transaction, link: BrokerLink, name: str, **options: Any) -> None:
    """Change the given `options` of `create_endpoint` and keep the grants."""
    before = _endpoint(link, "alter", name)
    _require_certificate(link, options.get("certificate"))
    _set_endpoint(tx, link, replace(before, **options))


def drop_endpoint(tx: Transaction, link: BrokerLink, name: str) -> None:
    _endpoint(link, "drop", name)
    _set_endpoint(tx, link, None)


def set_connect(tx: Transaction, link: BrokerLink, endpoint: str, login: str, *, may: bool) -> None:
    """Change a login's CONNECT; `login` in lower case."""
    changed = _endpoint(link, "find", endpoint)
    if (login in changed.connect_granted_to) != may:
        tx.set(changed, "connect_granted_to", changed.connect_granted_to ^ {login})
        _store_endpoint(tx, link)


def _endpoint(link: BrokerLink, verb: str, name: str) -> BrokerEndpoint:
    if link.endpoint is None or link.endpoint.name.lower() != name.lower():
        raise SqlServerError(15151, verb, "endpoint", name)
    return link.endpoint


def _require_certificate(link: BrokerLink, name: str | None) -> None:
    if name is None:
        return
    certificate = link.master.principals.certificate(name)
    if certificate is None:
        raise SqlServerError(15151, "find", "certificate", name)
    if not certificate.has_usable_key or not certificate.is_valid(link.master.clock.utc_ns()):
        raise SqlServerError(28055, certificate.name)


def _set_endpoint(tx: Transaction, link: BrokerLink, endpoint: BrokerEndpoint | None) -> None:
    tx.set(link, "endpoint", endpoint)
    _store_endpoint(tx, link)
    tx.on_commit(link.listen)
    ddl.changed(tx, link.master)


def _store_endpoint(tx: Transaction, link: BrokerLink) -> None:
    row = None
    if link.endpoint is not None:
        name, _, *settings, granted = astuple(link.endpoint)
        row = (name, *settings, tuple(sorted(granted)))
    tx.write("catalog.endpoint", BROKER_ENDPOINT_ID, row)
