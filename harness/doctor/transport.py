"""Check how messages reach the other side: routes, those of msdb for arriving messages, endpoints."""

from collections.abc import Iterator, Sequence

from harness.doctor.facts import Facts, Finding, Row
from harness.files.script_text import quoted
from harness.lab.instances import Security

BROKER_CONFIGURATION = "SQL/ServiceBroker/BrokerConfiguration"
DEFINITIONS = "sees_server_definitions"
EXPIRY_DAYS_ERROR, EXPIRY_DAYS_WARNING = 2, 30  # a run of hours may end after a certificate


def used_routes(side: Facts, other: Facts) -> Sequence[Row]:
    """Return the routes to the other side's service that Service Broker uses, by the manual's order of matching."""
    live = [row for row in side.rows("routes") if not row["is_expired"]]
    by_name = [row for row in live if row["remote_service_name"] == other.instance.service]
    exact = [row for row in by_name if str(row["broker_instance"] or "").upper() == other.broker_instance]
    return exact or [row for row in by_name if row["broker_instance"] is None]


def check_route(side: Facts, other: Facts) -> Iterator[Finding]:
    """Check whether a message of this side finds its way to the other."""
    if not side.knows("routes") or not other.broker_instance:
        return
    relink = f"run sql/link/route.sql with BrokerInstance={other.broker_instance}"
    routes = used_routes(side, other)
    by_name = [row for row in side.rows("routes") if row["remote_service_name"] == other.instance.service]
    of_other = [row for row in by_name if str(row["broker_instance"] or "").upper() in ("", other.broker_instance)]
    if not routes:
        if of_other:
            text = f"the route {of_other[0]['route_name']} to {other.name} has expired"
            remedy = (
                f"ALTER ROUTE {quoted(of_other[0]['route_name'])} WITH LIFETIME = 31536000; or drop it and {relink}"
            )
        else:
            text = f"there is no route to the service of {other.name}, broker instance {other.broker_instance}"
            route_names = [str(row["route_name"]) for row in by_name]
            unknown = [name for name in route_names if not name.startswith(("Test_Initiator", "Test_Target"))]
            text += f" (to another instance: {', '.join(unknown)})" if unknown else ""
            remedy = f"{relink} BrokerAddress={other.instance.broker_address}"
        yield side.error("route", text, remedy)
    for row in routes:
        if str(row["address"]).lower() != other.instance.broker_address.lower():
            text = f"the route {row['route_name']} leads to {row['address']}"
            remedy = f"ALTER ROUTE {quoted(row['route_name'])} WITH ADDRESS = N'{other.instance.broker_address}';"
            yield side.error("route", f"{text}, but {other.name} is at {other.instance.broker_address}", remedy)
    if len(routes) > 1:
        names = ", ".join(str(row["route_name"]) for row in routes)
        text = f"{len(routes)} routes lead to {other.name} ({names}): conversations are distributed over them"
        yield side.warning("route", text, "drop all but one")


def check_configuration_service(side: Facts) -> Iterator[Finding]:
    """Warn of a route to the configuration service: it precedes AutoCreatedLocal and delays what that would deliver."""
    for row in side.rows("routes"):
        if row["remote_service_name"] == BROKER_CONFIGURATION and not row["is_expired"]:
            text = f"the route {row['route_name']} passes unknown services to the broker configuration service"
            yield side.warning("route", text, f"DROP ROUTE {quoted(row['route_name'])}; unless you use that service")


def check_arriving(side: Facts) -> Iterator[Finding]:
    """Check msdb's routes, which say where the broker instance of an arriving message is."""
    if not side.knows("arriving_routes"):
        return
    live = [row for row in side.rows("arriving_routes") if not row["is_expired"]]
    identity, service = (None, side.broker_instance), side.instance.service
    by_name = [
        row
        for row in live
        if row["remote_service_name"] == service
        and (row["broker_instance"] and str(row["broker_instance"]).upper()) in identity
    ]
    for row in by_name:
        if str(row["address"]).upper() != "LOCAL":
            text = f"the route {row['route_name']} of msdb forwards messages for {service} to {row['address']}"
            yield side.error("arriving route", text, f"USE msdb; DROP ROUTE {quoted(row['route_name'])};")
    if by_name:
        return
    configuration = [row for row in live if row["remote_service_name"] == BROKER_CONFIGURATION]
    if configuration:
        text = (
            f"the route {configuration[0]['route_name']} of msdb passes arriving messages to the configuration service"
        )
        remedy = f"USE msdb; DROP ROUTE {quoted(configuration[0]['route_name'])}; unless you use that service"
        yield side.warning("arriving route", text, remedy)
        return
    rest = [row for row in live if row["remote_service_name"] is None and row["broker_instance"] is None]
    if not any(str(row["address"]).upper() == "LOCAL" for row in rest):
        text = "msdb has no route for messages from the network (AutoCreatedLocal was dropped)"
        yield side.warning("arriving route", text, "USE msdb; CREATE ROUTE AutoCreatedLocal WITH ADDRESS = N'LOCAL';")


def algorithms(endpoint: Row) -> set[str]:
    """Return the encryption that an endpoint accepts: `AES`, `NONE` or both."""
    return {word.strip().upper() for word in str(endpoint["encryption"]).split(",")}


def check_endpoint(side: Facts, security: Security) -> Iterator[Finding]:
    if not side.knows("endpoint"):
        return
    row = side.row("endpoint")
    if row is None:
        yield side.absent(DEFINITIONS, "endpoint", "there is no Service Broker endpoint", "run sql/link/endpoint.sql")
        return
    name, instance = row["endpoint_name"], side.instance
    alter = f"ALTER ENDPOINT {quoted(name)}"
    if row["state"] != "STARTED":
        remedy = f"{alter} STATE = STARTED;"
        yield side.error("endpoint", f"the endpoint {name} is {row['state']}", remedy)
    if row["port"] != instance.broker_port:
        text = f"the endpoint {name} listens on port {row['port']}, but the routes to it name {instance.broker_port}"
        remedy = f"{alter} AS TCP (LISTENER_PORT = {instance.broker_port});"
        yield side.error("endpoint", text, remedy)
    address = "ALL" if not row["ip_address"] else f"({row['ip_address']})"
    if address != instance.listener_ip.replace("'", ""):  # ('::1')
        text = f"the endpoint {name} listens on {address} instead of {instance.listener_ip}"
        remedy = f"{alter} AS TCP (LISTENER_PORT = {row['port']}, LISTENER_IP = {instance.listener_ip});"
        yield side.warning("endpoint", text, remedy)
    if "CERTIFICATE" not in str(row["authentication"]).upper():
        text = f"the endpoint {name} authenticates by {row['authentication']} instead of by certificate"
        remedy = f"DROP ENDPOINT {quoted(name)}; run sql/link/endpoint.sql and grant_connect.sql"
        yield side.error("endpoint", text, remedy)
    if ("NONE" not in algorithms(row)) != security.endpoint_encryption:
        expected = "encryption" if security.endpoint_encryption else "none"
        text = f"the endpoint {name} has encryption {row['encryption']}, but the lab is set to {expected}"
        yield side.warning("endpoint", text, "link again, or set --endpoint-encryption to what the endpoint has")


def check_encryption(side: Facts, other: Facts) -> Iterator[Finding]:
    """Check that two endpoints accept a common encryption."""
    near, far = side.row("endpoint"), other.row("endpoint")
    if near is None or far is None or algorithms(near) & algorithms(far):
        return
    text = f"the endpoint requires encryption {near['encryption']}, that of {other.name} {far['encryption']}"
    remedy = "give both the same ENCRYPTION: ALTER ENDPOINT ... FOR SERVICE_BROKER (ENCRYPTION = ...)"
    yield side.error("endpoint", f"{text}: they refuse each other", remedy)


def own_certificate(side: Facts) -> Row | None:
    """Return the certificate with which the endpoint identifies itself."""
    endpoint = side.row("endpoint")
    if endpoint is None:
        return None
    certificate_id = endpoint["certificate_id"]
    certificates = [row for row in side.rows("endpoint_certificates") if row["certificate_id"] == certificate_id]
    return certificates[0] if certificates else None


def check_certificate(side: Facts) -> Iterator[Finding]:
    """Check the endpoint's own certificate."""
    endpoint = side.row("endpoint")
    if endpoint is None or "CERTIFICATE" not in str(endpoint["authentication"]).upper():
        return
    if not side.knows("endpoint_certificates"):
        return
    row = own_certificate(side)
    if row is None:
        text = f"the certificate of the endpoint {endpoint['endpoint_name']} is not in master"
        remedy = "run sql/link/endpoint_certificate.sql, DROP ENDPOINT, run sql/link/endpoint.sql and grant_connect.sql"
        yield side.absent(DEFINITIONS, "endpoint certificate", text, remedy)
        return
    faults = list(validity(side, row, "endpoint certificate", "the endpoint's certificate"))
    yield from faults or end_of_validity(side, row, "endpoint certificate", "the endpoint's certificate")
    if row["private_key"] != "ENCRYPTED_BY_MASTER_KEY":
        text = f"the private key of the endpoint's certificate {row['certificate_name']} is {row['private_key']}"
        remedy = "create it again with sql/link/endpoint_certificate.sql, under the master key of master"
        yield side.error("endpoint certificate", f"{text}: the server cannot open it", remedy)


def validity(side: Facts, row: Row, check: str, label: str) -> Iterator[Finding]:
    """Check a certificate's dates."""
    name = row["certificate_name"]
    if not row["is_started"]:
        text = f"{label} {name} is not valid before {row['start_date']} UTC"
        yield side.error(check, text, "create it again with START_DATE in the past, and check the clock")
    elif row["is_expired"]:
        yield side.error(check, f"{label} {name} expired on {row['expiry_date']} UTC", "create it again, link again")


def end_of_validity(side: Facts, row: Row, check: str, label: str) -> Iterator[Finding]:
    """Check that a certificate that is valid stays so: in the run, and for a while."""
    text = f"{label} {row['certificate_name']} expires on {row['expiry_date']} UTC"
    remedy = "create it again with a later EXPIRY_DATE, and give its public key to the other sides: link again"
    if row["days_left"] < EXPIRY_DAYS_ERROR:
        yield side.error(check, f"{text}, perhaps in the run", remedy)
    elif row["days_left"] < EXPIRY_DAYS_WARNING:
        yield side.warning(check, f"{text}, in {row['days_left']} days", remedy)


def other_of_that_name(certificates: Sequence[Row], certificate: Row) -> str:
    """Say that there is a certificate of the name of `shown`, whose copy is missing; empty if there is none."""
    same = any(row["certificate_name"] == certificate["certificate_name"] for row in certificates)
    return " (the certificate of that name is a different one)" if same else ""


def check_admission(side: Facts, other: Facts) -> Iterator[Finding]:
    """Check that the other side's endpoint may connect: its certificate's copy, the copy's owner and his right."""
    endpoint, certificate = side.row("endpoint"), own_certificate(other)
    if endpoint is None or certificate is None or not side.knows("endpoint_certificates"):
        return
    certificates = side.rows("endpoint_certificates")
    copies = [row for row in certificates if row["thumbprint"] == certificate["thumbprint"]]
    if not copies:
        text = f"master has no copy of the certificate {certificate['certificate_name']} of {other.name}'s endpoint"
        text += other_of_that_name(certificates, certificate)
        remedy = f"run sql/link/import_endpoint_certificate.sql with the certificate of {other.name}"
        yield side.absent(DEFINITIONS, "endpoint certificate", text, remedy)
        return
    login = copies[0]["login_name"]
    if login is None:
        text = f"the owner {copies[0]['owner_name']} of {other.name}'s certificate has no login"
        yield side.error("endpoint rights", text, "run sql/link/endpoint_login.sql, then import the certificate again")
        return
    grants = {row["grantee_name"]: row["state"] for row in side.rows("endpoint_grants")}
    held = {grants.get(login), grants.get("public")}
    remedy = f"GRANT CONNECT ON ENDPOINT::{quoted(endpoint['endpoint_name'])} TO {quoted(login)};"
    if "DENY" in held:
        text = f"{login}, which owns {other.name}'s certificate, is denied CONNECT on the endpoint"
        yield side.error("endpoint rights", text, f"REVOKE the denial, and {remedy}")
    elif not held & {"GRANT", "GRANT_WITH_GRANT_OPTION"} and side.knows("endpoint_grants"):
        text = f"{login}, which owns {other.name}'s certificate, may not CONNECT to the endpoint"
        yield side.absent(DEFINITIONS, "endpoint rights", text, remedy)
