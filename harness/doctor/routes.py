"""Check the routes from each side to the other, and those of msdb for arriving messages."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from harness.doctor.facts import Facts, Row
from harness.doctor.findings import Finding, error, warning
from harness.lab.link import SERVICE

BROKER_CONFIGURATION = "SQL/ServiceBroker/BrokerConfiguration"


def used_routes(side: Facts, other: Facts) -> Sequence[Row]:
    """Return the routes to the other side's service that Service Broker uses, by the manual's order of matching."""
    live = [row for row in side.rows("routes") if not row["is_expired"]]
    named = [row for row in live if row["remote_service_name"] == SERVICE]
    exact = [row for row in named if str(row["broker_instance"] or "").upper() == other.broker_instance]
    return exact or [row for row in named if row["broker_instance"] is None]


def check_route(side: Facts, other: Facts) -> Iterator[Finding]:
    """Check whether a message of this side finds its way to the other."""
    if not side.knows("routes") or not other.broker_instance:
        return
    relink = f"run sql/link/route.sql with BrokerInstance={other.broker_instance}"
    routes = used_routes(side, other)
    named = [row for row in side.rows("routes") if row["remote_service_name"] == SERVICE]
    of_other = [row for row in named if str(row["broker_instance"] or "").upper() in ("", other.broker_instance)]
    if not routes:
        if of_other:
            text = f"the route {of_other[0]['route_name']} to {other.name} has expired"
            remedy = f"ALTER ROUTE [{of_other[0]['route_name']}] WITH LIFETIME = 31536000; or drop it and {relink}"
        else:
            text = f"there is no route to the service of {other.name}, broker instance {other.broker_instance}"
            unknown = [str(row["route_name"]) for row in named if not _is_of_lab(row)]
            text += f" (to another instance: {', '.join(unknown)})" if unknown else ""
            remedy = f"{relink} BrokerAddress={other.instance.broker_address}"
        yield error(side.name, "route", text, remedy)
    for row in routes:
        if str(row["address"]).lower() != other.instance.broker_address.lower():
            text = f"the route {row['route_name']} leads to {row['address']}"
            remedy = f"ALTER ROUTE [{row['route_name']}] WITH ADDRESS = N'{other.instance.broker_address}';"
            yield error(side.name, "route", f"{text}, but {other.name} is at {other.instance.broker_address}", remedy)
    if len(routes) > 1:
        names = ", ".join(str(row["route_name"]) for row in routes)
        text = f"{len(routes)} routes lead to {other.name} ({names}): conversations are distributed over them"
        yield warning(side.name, "route", text, "drop all but one")


def _is_of_lab(row: Row) -> bool:
    """Return whether a route is one of the lab's own to another side."""
    return str(row["route_name"]).startswith(("Test_Initiator", "Test_Target"))


def check_configuration_service(side: Facts) -> Iterator[Finding]:
    """Warn of a route to the configuration service: it precedes AutoCreatedLocal and delays what that would deliver."""
    for row in side.rows("routes"):
        if row["remote_service_name"] == BROKER_CONFIGURATION and not row["is_expired"]:
            text = f"the route {row['route_name']} passes unknown services to the broker configuration service"
            yield warning(side.name, "route", text, f"DROP ROUTE [{row['route_name']}]; unless you use that service")


def check_arriving(side: Facts) -> Iterator[Finding]:
    """Check msdb's routes, which say where the broker instance of an arriving message is."""
    if not side.knows("arriving_routes"):
        return
    live = [row for row in side.rows("arriving_routes") if not row["is_expired"]]
    own = (None, side.broker_instance)
    named = [
        row
        for row in live
        if row["remote_service_name"] == SERVICE
        and (row["broker_instance"] and str(row["broker_instance"]).upper()) in own
    ]
    for row in named:
        if str(row["address"]).upper() != "LOCAL":
            text = f"the route {row['route_name']} of msdb forwards messages for {SERVICE} to {row['address']}"
            yield error(side.name, "arriving route", text, f"USE msdb; DROP ROUTE [{row['route_name']}];")
    if named:
        return
    configuration = [row for row in live if row["remote_service_name"] == BROKER_CONFIGURATION]
    if configuration:
        text = (
            f"the route {configuration[0]['route_name']} of msdb passes arriving messages to the configuration service"
        )
        remedy = f"USE msdb; DROP ROUTE [{configuration[0]['route_name']}]; unless you use that service"
        yield warning(side.name, "arriving route", text, remedy)
        return
    rest = [row for row in live if row["remote_service_name"] is None and row["broker_instance"] is None]
    if not any(str(row["address"]).upper() == "LOCAL" for row in rest):
        text = "msdb has no route for messages from the network (AutoCreatedLocal was dropped)"
        yield warning(
            side.name, "arriving route", text, "USE msdb; CREATE ROUTE AutoCreatedLocal WITH ADDRESS = N'LOCAL';"
        )
